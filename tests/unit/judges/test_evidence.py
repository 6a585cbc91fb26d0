"""Evidence spread over calls, and what the calls say joined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.judges import long_evidence as evidence
from ragmonitor.judges.long_evidence import CHUNK_FRAME_TOKENS, Part, join, spread
from ragmonitor.judges.reply import ParsedReply
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import SentenceVerdict, Verdict

YES, NO, BAD, NONE = Verdict.SUPPORTED, Verdict.ABSENT, Verdict.CONTRADICTED, Verdict.NO_CLAIM


def entry(**fields):
    return SentenceVerdict(text="x", start=0, end=1, **fields)


def reading(*entries, relevancy=1.0, evasive=False, relevance=(1.0,)):
    return ParsedReply(
        sentences=tuple(entries), relevancy=relevancy, evasive=evasive, chunk_relevance=relevance
    )


def calls(*positions):
    return [[Part(position=p, text="x") for p in each] for each in positions]


def joined(*entries):
    """Return what calls of one chunk each say of one sentence, together."""
    found = join(
        [reading(each) for each in entries],
        calls(*([n] for n in range(len(entries)))),
        n_chunks=len(entries),
    )
    assert found.sentences is not None
    return found.sentences[0]


@given(
    chunks=st.lists(st.text(max_size=400), max_size=12), room=st.floats(40, 400, allow_nan=False)
)
def test_no_call_is_overfull_and_nothing_is_lost(chunks, room):
    """Every character of every chunk stands in one call, in order, and each call fits."""
    shares = spread(chunks, room_tokens=room)
    parts = [part for share in shares for part in share]
    for position, chunk in enumerate(chunks):
        assert "".join(p.text for p in parts if p.position == position) == chunk
    assert [p.position for p in parts] == sorted(p.position for p in parts)
    for share in shares:
        used = sum(estimate_tokens(p.text) + CHUNK_FRAME_TOKENS for p in share)
        assert used <= room + 1e-6


def test_a_long_chunk_is_cut_behind_a_sentence():
    """Not amid one."""
    text = "The tower is old. " * 60
    parts = [part.text for share in spread([text], room_tokens=100) for part in share]
    assert len(parts) > 2
    assert all(part.rstrip().endswith(".") for part in parts)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ((YES, NO), YES),
        ((YES, BAD), YES),
        ((BAD, NONE), BAD),
        ((NO, NO, NONE), NO),
        ((NONE, NONE), NONE),
    ],
)
def test_a_sentence_is_as_good_as_its_best_call(said, verdict):
    """Supported if one supports; contradicted only if none does; a claim if most say so."""
    entries = [entry(verdict=v, chunks=(0,) if v in (YES, BAD) else ()) for v in said]
    assert joined(*entries).verdict is verdict


def test_that_the_chunks_lack_something_must_hold_of_all_of_them():
    """`[0]` of one call and a contradiction of another: it is wrong; of both: it is right."""
    lacking = entry(verdict=YES)
    assert joined(lacking, lacking).verdict is YES
    assert joined(lacking, entry(verdict=BAD, chunks=(0,))).verdict is BAD
    assert joined(lacking, entry(verdict=NO)).verdict is NO


def test_words_come_from_those_who_object():
    """Those of each, once; of a supported sentence none, but for a number no call found."""
    found = joined(entry(verdict=NO, words=("a", "b")), entry(verdict=NO, words=("b", "c")))
    assert found.words == ("a", "b", "c")
    doubted = entry(verdict=YES, chunks=(0,), words=("5",), reasons=("number",))
    assert joined(doubted, entry(verdict=NO)).reasons == ("number",)
    assert joined(doubted, entry(verdict=YES, chunks=(0,))).reasons == ()


def test_a_cut_chunk_is_as_relevant_as_its_best_part():
    """Two parts of one chunk: one rating."""
    found = join(
        [reading(relevance=(0.0,)), reading(relevance=(1.0, 0.5))],
        calls([0], [0, 1]),
        n_chunks=2,
    )
    assert found.chunk_relevance == (1.0, 0.5)


def test_what_concerns_the_answer_alone_is_averaged():
    """Relevancy: the mean; evasive: what most say."""
    found = join(
        [
            reading(relevancy=1.0, evasive=True),
            reading(relevancy=0.5, evasive=False),
            reading(relevancy=0.0, evasive=True),
        ],
        calls([0], [1], [2]),
        n_chunks=3,
    )
    assert (found.relevancy, found.evasive) == (0.5, True)


def test_what_one_call_left_unread_is_unread():
    """Nobody knows what the unread call would have said; the problem names the call."""
    broken = ParsedReply(relevancy=1.0, problems=("s is missing or broken",))
    found = join([reading(entry(verdict=YES, chunks=(0,))), broken], calls([0], [1]), n_chunks=2)
    assert (found.sentences, found.evasive, found.chunk_relevance) == (None, None, None)
    assert found.relevancy == 1.0
    assert found.problems == ("call 2: s is missing or broken",)


@pytest.mark.parametrize("piece", ["word ", "词", "a1. ", "长句子。word, "])
def test_a_long_chunk_is_measured_in_proportion_to_its_length(
    piece: str, monkeypatch: pytest.MonkeyPatch
):
    """What is left is not measured again for every call."""
    measured = 0

    def count(text: str) -> float:
        nonlocal measured
        measured += len(text)
        return estimate_tokens(text)

    monkeypatch.setattr(evidence, "estimate_tokens", count)
    text = piece * (200_000 // len(piece))
    calls = spread([text], room_tokens=500)
    assert "".join(part.text for parts in calls for part in parts) == text
    assert all(estimate_tokens(part.text) <= 500 for parts in calls for part in parts)
    assert measured < 20 * len(text)
