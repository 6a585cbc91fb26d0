"""Laws of reading a judge's reply, whatever it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.judges.reply import read_reply
from ragmonitor.records import Verdict

SENTENCES = ["It lasts three hours.", "It is red.", "Paris is in Spain."]
CHUNKS = ["It is red.", "Paris is in France."]

entries = st.one_of(
    st.lists(st.integers(1, len(CHUNKS)), min_size=1, max_size=3, unique=True),
    st.sampled_from(["N", "X", "-", ["X", 1]]),
)
replies = st.fixed_dictionaries(
    {
        "s": st.lists(entries, min_size=len(SENTENCES), max_size=len(SENTENCES)),
        "bad": st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["three hours", "Spain"]))),
        "rel": st.integers(0, 3),
        "evasive": st.booleans(),
        "ctx": st.lists(st.integers(0, 2), min_size=len(CHUNKS), max_size=len(CHUNKS)),
    }
)
FRAGMENTS = (
    '{"s": [[1], "N" "X" - ] } "rel": 3 , "ctx": [2,0] \' "bad": "evasive": true ``` \\ " null '
    "1e999 NaN C1"
)
fragments = st.sampled_from(FRAGMENTS.split())


def read(text):
    return read_reply(text, sentences=SENTENCES, chunks=CHUNKS)


def is_sound(reading):
    """Whether everything read is of the right shape and range."""
    assert reading.entries is None or len(reading.entries) == len(SENTENCES)
    for entry, sentence in zip(reading.entries or (), SENTENCES, strict=False):
        assert all(0 <= chunk < len(CHUNKS) for chunk in entry.chunks)
        assert all(word and word in sentence for word in entry.words)
    assert reading.relevancy is None or 0 <= reading.relevancy <= 1
    assert reading.evasive in (None, True, False)
    assert reading.chunk_relevance is None or len(reading.chunk_relevance) == len(CHUNKS)
    assert all(0 <= rating <= 1 for rating in reading.chunk_relevance or ())
    return True


@given(text=st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "replace"))))
def test_any_text_is_read_without_an_error(text):
    """Arbitrary text and bytes raise nothing, and what is read is in range."""
    assert is_sound(read(text))


@given(text=st.lists(fragments, max_size=60).map("".join))
def test_any_pile_of_fragments_is_read_without_an_error(text):
    """Pieces of replies in any order raise nothing, and what is read is in range."""
    assert is_sound(read(text))


@given(text=st.text(alphabet=st.characters(exclude_characters="{}:")))
def test_text_without_fields_has_no_score(text):
    """No score is made up where there is no field."""
    assert read(text).is_empty


@given(reply=replies)
def test_a_valid_reply_is_read_in_full(reply):
    """Every honest reply gives every field."""
    reading = read(json.dumps(reply))
    assert reading.problems == ()
    assert None not in (reading.entries, reading.evasive, reading.chunk_relevance)
    assert reading.relevancy == pytest.approx(reply["rel"] / 3)


@given(reply=replies, share=st.floats(0, 1))
def test_a_cut_reply_says_the_same_or_nothing(reply, share):
    """Each field of a prefix is that of the whole, or None."""
    text = json.dumps(reply)
    whole, part = read(text), read(text[: int(share * len(text))])
    for field in ("relevancy", "evasive", "chunk_relevance"):
        assert getattr(part, field) in (None, getattr(whole, field))
    if part.entries is not None:
        assert [e.verdict for e in part.entries] == [e.verdict for e in whole.entries]


@given(reply=replies, place=st.integers(min_value=0), text=st.text(max_size=4))
def test_a_mutated_reply_is_read_without_an_error(reply, place, text):
    """Text put anywhere into a reply raises nothing, and what is read is in range."""
    whole = json.dumps(reply)
    place %= len(whole)
    assert is_sound(read(whole[:place] + text + whole[place:]))
    assert is_sound(read(whole[:place] + text + whole[place + len(text) :]))


@given(reply=replies, before=st.text(), after=st.text())
def test_prose_around_a_reply_changes_nothing(reply, before, after):
    """Where the prose has no brace of its own, the reply inside is read as alone."""
    before, after = (part.replace("{", "(").replace("<", "(") for part in (before, after))
    after = after.replace("</think>", "")
    text = json.dumps(reply)
    assert read(f"{before} {text} {after}") == read(text)


@given(reply=replies, extra=entries)
def test_a_miscount_is_never_repaired(reply, extra):
    """One verdict too many or too few leaves no verdict at all."""
    more = reply | {"s": [*reply["s"], extra]}
    fewer = reply | {"s": reply["s"][1:]}
    assert read(json.dumps(more)).entries is None
    assert read(json.dumps(fewer)).entries is None


@given(reply=replies)
def test_only_claims_that_fail_carry_words(reply):
    """Quoted words stand with absent and contradicted sentences only."""
    reading = read(json.dumps(reply))
    for entry in reading.entries:
        assert not entry.words or entry.verdict in (Verdict.ABSENT, Verdict.CONTRADICTED)
