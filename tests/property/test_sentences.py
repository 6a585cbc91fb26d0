"""Laws of the sentence splitter."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from ragmonitor.judges.sentences import marker_end, spans, split

VOCABULARY = """
    Dr. e.g. 3.5 1. - • （1） 一、 ... 。 ； ” " ) [1] # ``` ** 他来了 v1.2 https://a.b/c?d a@b.cd
    U.S. J. … 😀 cat The
"""
SPACED = [
    "The cat sat",
    "Passage 1:",
    ". ",
    "! ",
    "? ",
    " ",
    "\n",
    "\n\n",
    "\r\n",
    "| a |",
    "```\n",
]
ODD = ["\u2028", "\x00", "\ud800"]
PIECES = st.sampled_from([*VOCABULARY.split(), *SPACED, *ODD])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join))


@given(TEXTS)
def test_offsets_are_exact_and_increasing(text: str):
    """Each sentence is what stands at its offsets; none overlaps the one before it."""
    end = 0
    for sentence in split(text):
        assert end <= sentence.start < sentence.end <= len(text)
        assert text[sentence.start : sentence.end] == sentence.text == sentence.text.strip()
        end = sentence.end


@given(TEXTS)
@example("We offer,\n| a | b |\n")
@example("、\n|")
def test_nothing_but_space_is_lost(text: str):
    """All that stands between sentences is space: markers and signs are in their sentences."""
    end = 0
    for sentence in split(text):
        assert not text[end : sentence.start].strip()
        end = sentence.end
    assert not text[end:].strip()


@given(TEXTS)
def test_no_sentence_is_a_mere_sign_beside_others(text: str):
    """Only a text that says nothing at all has a sentence without a letter or digit."""
    found = split(text)
    assert len(found) <= 1 or all(re.search(r"[^\W_]", sentence.text) for sentence in found)


@given(TEXTS)
def test_spans_are_the_sentences(text: str):
    """The cheap form gives the same sentences."""
    assert spans(text) == [(sentence.start, sentence.end) for sentence in split(text)]


@given(TEXTS)
def test_a_marker_never_reaches_beyond_its_sentence(text: str):
    """The marker at the beginning of a sentence is part of it."""
    assert all(0 <= marker_end(sentence.text) <= len(sentence.text) for sentence in split(text))
