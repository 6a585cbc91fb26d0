"""The built-in judge's work grows in proportion to the texts, whatever they hold."""

import json
import time
from collections.abc import Iterable

import pytest

from ragmonitor.judges.builtin import (
    BuiltinJudge,
    assess,
    evidence,
    limits,
    names,
    reference_reading,
)
from ragmonitor.judges.builtin.parsed_sentences import parse_sentence
from ragmonitor.judges.builtin.structured import field_reading, fields
from ragmonitor.judges.builtin.structured.formats import records_of
from ragmonitor.judges.builtin.terms import chunk_keys
from ragmonitor.judges.sentences import language, split
from ragmonitor.records import Cause, Chunk, Interaction
from ragmonitor.runtime.errors import JudgeError
from tests.support.counting import counted
from tests.support.hostile_texts import SHAPES, WRITERS, Texts, texts
from tests.support.judge_caches import clear_kept, clear_words
from tests.support.timing import grows_at_most

SMALL, BIG = 300, 1_200
"""Characters of each text; four times the text."""
LINEAR = 5.0
"""Most that four times the text may take of work; quadratic work takes 16 times."""
ONCE = 12
"""Lines for each character besides: what is first needed for the longer text."""
LONG, LONGER = 4_000, 16_000
TIMED_LINEAR = 8.0
"""Most that four times the text may take of CPU time, which is noisy."""


def of(writers: Iterable[str]) -> pytest.MarkDecorator:
    """Return these writers as cases, a fifth of them at each change."""
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=() if n % 5 == 0 else pytest.mark.slow)
            for n, name in enumerate(writers)
        ],
    )


@pytest.fixture
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower what bounds the work on one answer, so that small texts reach it as huge ones do."""
    monkeypatch.setattr(limits, "MAX_CPU_S", 1e9)  # counting is slow
    monkeypatch.setattr(evidence, "_MAX_PASSAGES", 4)
    monkeypatch.setattr(evidence, "_MAX_SIMILAR", 2)
    monkeypatch.setattr(evidence, "_MAX_HELD", 4)
    monkeypatch.setattr(names, "_MAX_ACTS", 4)
    monkeypatch.setattr(reference_reading, "MAX_CHUNKS_ALONE", 2)
    for module in (fields, field_reading):
        for name, low in (("MAX_SHARED", 2), ("MAX_COMPARED", 4), ("MAX_PER_CLAUSE", 4)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, low)


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


def work(texts: Texts, *, with_reference: bool = False) -> int:
    """Return how many lines are run to read texts."""
    query, chunks, answer = texts
    clear_kept()
    with counted("judges") as count:
        BuiltinJudge().read(interaction(query, chunks, answer, answer if with_reference else ""))
    return count[0]


@of(WRITERS)
def test_four_times_the_text_is_four_times_the_work(name: str, low_bounds: None):
    """No text of any kind makes the judge compare everything with everything."""
    for shape, compose in SHAPES.items():
        small, big = (work(compose(WRITERS[name], size)) for size in (SMALL, BIG))
        assert big < LINEAR * small + ONCE * BIG, shape


@of([*WRITERS][::4])
def test_a_reference_is_read_in_proportion_too(name: str, low_bounds: None):
    """Not every sentence of a reference answer is read against every chunk."""
    for shape in ("sentences and many chunks", "other sentences and one passage"):
        small, big = (
            work(SHAPES[shape](WRITERS[name], size), with_reference=True) for size in (SMALL, BIG)
        )
        assert big < LINEAR * small + ONCE * BIG, shape


@of(WRITERS)
def test_patterns_take_time_in_proportion(name: str):
    """No pattern is tried again and again over the same text: its work cannot be counted."""
    small, big = (texts(WRITERS[name], size) for size in (LONG, LONGER))
    assert grows_at_most(TIMED_LINEAR, read_words, small, big, least_s=1e-4)


def test_many_clauses_of_one_sentence_take_time_in_proportion():
    """What is looked for in the whole sentence is looked for once, and not for each clause."""
    small, big = ("the price of item 5; " * count for count in (200, 800))
    chunks = ['{"name": "Elm", "price": "$5", "wifi": true}']

    def read(text: str) -> None:
        assess("", chunks, text)

    assert grows_at_most(TIMED_LINEAR, read, small, big, least_s=1e-4)


def test_columns_that_few_items_have_take_time_in_proportion():
    """The first item of a list names the columns by which its items may be told apart."""
    small, big = (
        json.dumps([dict.fromkeys(map(str, range(size)), "v"), *[{}] * size])
        for size in (1_000, 4_000)
    )
    assert grows_at_most(TIMED_LINEAR, records_of, small, big, least_s=1e-4)


def read_words(text: str) -> None:
    """Read one text as words and sentences, each word for the first time.

    What is kept of words holds all of a small text and not all of a large one.
    """
    clear_words()
    split(text)
    records_of(text)
    language(text)
    chunk_keys(text)
    parse_sentence(text)


def judged(answer: str, judge: BuiltinJudge) -> Cause | None:
    """Return why an answer is not read; None: it is."""
    try:
        judge.read(interaction("Where is it?", ["It is in Paris."], answer))
    except JudgeError as error:
        return error.cause
    return None


def test_texts_beyond_the_limit_are_refused_before_they_are_read():
    """Ten million characters cost a look at their length, and have a cause."""
    answer = "It is in Paris. " * 650_000
    with counted("judges") as count:
        assert judged(answer, BuiltinJudge()) is Cause.TOO_LONG
    assert count[0] < 100


@pytest.mark.parametrize("shape", ["many chunks", "other sentences", "sentences and many chunks"])
def test_a_reading_that_takes_too_long_is_given_up(shape: str, monkeypatch: pytest.MonkeyPatch):
    """The time is looked at before every sentence and every chunk."""
    clock = iter(range(10_000))
    monkeypatch.setattr(limits, "MAX_CPU_S", 20)
    monkeypatch.setattr(time, "thread_time", lambda: float(next(clock)))
    query, chunks, answer = SHAPES[shape](WRITERS["en small sentences"], 2_000)
    with pytest.raises(JudgeError, match="not read within 20 s") as caught:
        BuiltinJudge().read(interaction(query, chunks, answer))
    assert caught.value.cause is Cause.TOO_LONG
    assert next(clock) == 22  # the first look beyond the limit was the last
