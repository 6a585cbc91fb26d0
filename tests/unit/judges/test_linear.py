"""The built-in judge's work grows in proportion to the texts, whatever they hold."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from ragmonitor.judges.lexical import LexicalJudge, evidence, passages, referring
from ragmonitor.judges.lexical.speech import act_of
from ragmonitor.judges.lexical.words import keys, terms
from ragmonitor.judges.sentences import language, split
from ragmonitor.records import Chunk, Interaction
from tests.support.hostile_texts import SHAPES, WRITERS, Texts, texts

SMALL, BIG = 300, 1_200
"""Characters of each text; four times the text."""
LINEAR = 5.0
"""Most that four times the text may take of work; quadratic work takes 16 times."""
ONCE = 10
"""Lines for each character besides: what is first needed for the longer text."""
LONG, LONGER = 4_000, 16_000
TIMED_LINEAR = 8.0
"""Most that four times the text may take of CPU time, which is noisy."""


@pytest.fixture
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower what bounds the work on one answer, so that small texts reach it as huge ones do."""
    monkeypatch.setattr(evidence, "STEPS", 1_000)
    monkeypatch.setattr(evidence, "EVERYWHERE", (2, 8))
    monkeypatch.setattr(passages, "SEARCHED", 5_000)
    monkeypatch.setattr(referring, "ALONE", 2)


def interaction(query: str, chunks: list[str], answer: str, reference: str = "") -> Interaction:
    return Interaction(
        id="1",
        query=query,
        chunks=tuple(Chunk(text=chunk) for chunk in chunks),
        answer=answer,
        reference=reference,
        framework="python",
        started_ns=0,
        ended_ns=1,
    )


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count the lines of the judges' code that are run, each turn of a loop anew."""
    count = [0]

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        count[0] += 1
        return line

    def call(frame: FrameType, event: str, arg: Any) -> Any:
        return line if "judges" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        yield count
    finally:
        sys.settrace(before)


def work(texts: Texts, *, with_reference: bool = False) -> int:
    """Return how many lines are run to read texts."""
    query, chunks, answer = texts
    with counted() as count:
        LexicalJudge().read(interaction(query, chunks, answer, answer if with_reference else ""))
    return count[0]


@pytest.mark.parametrize("name", WRITERS)
def test_four_times_the_text_is_four_times_the_work(name: str, low_bounds: None):
    """No text of any kind makes the judge compare everything with everything."""
    for shape, compose in SHAPES.items():
        small, big = (work(compose(WRITERS[name], size)) for size in (SMALL, BIG))
        assert big < LINEAR * small + ONCE * BIG, shape


@pytest.mark.parametrize("name", [*WRITERS][::4])
def test_a_reference_is_read_in_proportion_too(name: str, low_bounds: None):
    """Not every sentence of a reference answer is read against every chunk."""
    for shape in ("sentences and many chunks", "other sentences and one passage"):
        small, big = (
            work(SHAPES[shape](WRITERS[name], size), with_reference=True) for size in (SMALL, BIG)
        )
        assert big < LINEAR * small + ONCE * BIG, shape


@pytest.mark.parametrize("name", WRITERS)
def test_patterns_take_time_in_proportion(name: str):
    """No pattern is tried again and again over the same text: its work cannot be counted."""
    small, big = (texts(WRITERS[name], size) for size in (LONG, LONGER))
    assert seconds(big) < TIMED_LINEAR * seconds(small)


def seconds(text: str) -> float:
    """Return the CPU time of reading one text as words and sentences, the best of three."""
    best = float("inf")
    for _ in range(3):
        begun = time.thread_time()
        split(text)
        language(text)
        keys(text)
        act_of(text, terms(text))
        best = min(best, time.thread_time() - begun)
    return best + 1e-4
