"""What alarms say of themselves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.records import (
    AlarmEvent,
    AlarmSpan,
    Estimate,
    SentenceVerdict,
    Severity,
    Verdict,
)
from tests.support.stories import assessment


def alarm(
    *, mean: float, raised: bool, higher_is_better: bool = False, objective: float = 0.1
) -> AlarmEvent:
    return AlarmEvent(
        signal="faithfulness" if higher_is_better else "hallucination",
        judge="j",
        kind="quality",
        raised=raised,
        at_s=0.0,
        since_s=0.0,
        evidence_s=86_400 * 30.0,
        threshold_s=86_400 * 30.0,
        objective=objective,
        higher_is_better=higher_is_better,
        estimate=Estimate(mean=mean, lower=mean - 0.02, upper=mean + 0.02, effective_n=80),
    )


@given(
    found=st.lists(st.tuples(st.sampled_from(Verdict), st.sampled_from([None, *Severity]))),
    evasive=st.sampled_from([None, False, True]),
    least=st.sampled_from(Severity),
)
def test_an_answer_is_hallucinated_by_its_counted_findings(
    found: list[tuple[Verdict, Severity | None]], evasive: bool | None, least: Severity
) -> None:
    """None of a refusal, and of an answer that claims nothing."""
    sentences = tuple(
        SentenceVerdict(text="s", start=0, end=1, verdict=verdict, severity=severity)
        for verdict, severity in found
    )
    read = assessment(sentences=sentences, evasive=evasive, min_severity=least)
    expected = None if evasive or not read.claims else bool(read.counted_findings)
    assert read.hallucinated is expected


@pytest.mark.parametrize(
    ("case", "is_quoted"),
    [
        ({"mean": 0.15, "raised": True}, True),
        ({"mean": 0.11, "raised": True}, False),
        ({"mean": 0.05, "raised": True}, False),
        ({"mean": 0.05, "raised": False}, True),
        ({"mean": 0.15, "raised": False}, False),
        ({"mean": 0.85, "raised": True, "higher_is_better": True, "objective": 0.9}, True),
        ({"mean": 0.95, "raised": True, "higher_is_better": True, "objective": 0.9}, False),
        ({"mean": 0.95, "raised": False, "higher_is_better": True, "objective": 0.9}, True),
        ({"mean": 0.85, "raised": False, "higher_is_better": True, "objective": 0.9}, False),
    ],
)
def test_an_alarm_quotes_the_last_hour_only_if_it_says_the_same(
    case: dict[str, Any], *, is_quoted: bool
) -> None:
    """An interval on the other side of the limit than the alarm misleads."""
    event = alarm(**case)
    assert (event.telling is not None) is is_quoted
    assert f"the limit is {event.bound}" in str(event)
    span = AlarmSpan(since_s=1e9, scored=87, mean=0.4, bad=36, before=0.03)
    level = float(event.bound.split()[-1])
    assert f"{100 * level:.6g} %, by" in str(replace(event, span=span))
    assert f"the limit is {event.bound}," in str(replace(event, span=replace(span, bad=None)))


@pytest.mark.parametrize(
    ("objective", "least", "most"),
    [
        (0.05, "at least 0.05", "at most 0.05"),
        (0.29, "at least 0.29", "at most 0.29"),
        (0.997, "at least 0.997", "at most 0.997"),
        (0.99964, "at least 0.99964", "at most 0.99964"),
        (2 / 3, "at least 0.66", "at most 0.67"),
        (0.0, "at least 0", "at most 0"),
        (1.0, "at least 1", "at most 1"),
    ],
)
def test_a_limit_is_written_as_it_is(objective: float, least: str, most: str) -> None:
    """0.997 is not 1.00: nobody is held to that."""
    assert alarm(mean=0.5, raised=True, higher_is_better=True, objective=objective).bound == least
    assert alarm(mean=0.5, raised=True, objective=objective).bound == most


@given(objective=st.floats(0, 1), higher_is_better=st.booleans())
def test_a_limit_is_never_rounded_to_more_than_it_is(
    objective: float, *, higher_is_better: bool
) -> None:
    """What is called permitted is permitted."""
    event = alarm(mean=0.5, raised=True, higher_is_better=higher_is_better, objective=objective)
    shown = float(event.bound.split()[-1])
    assert math.isclose(shown, objective, abs_tol=1e-9) or (shown < objective) is higher_is_better


def test_an_alarm_of_differences_is_logged_in_differences() -> None:
    """Their scale of 0 to 1 holds differences of -1 to 1: half of it is none, and no mean score."""
    event = alarm(mean=0.5, raised=True, higher_is_better=True, objective=0.475)
    span = AlarmSpan(since_s=1e9, scored=62, mean=0.212, bad=None, before=0.5)
    said = str(replace(event, signal="golden_answer_correctness", span=span))
    assert "a mean of -0.576 over 62 scored answers; +0 before" in said
    assert "the limit is at least -0.05, by" in said
