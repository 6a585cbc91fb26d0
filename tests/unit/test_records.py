"""What alarms say of themselves."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.records import (
    AlarmKind,
    Cause,
    JudgeIdentity,
    Scored,
    SentenceVerdict,
    Severity,
    Unscored,
    Verdict,
)
from tests.support.incidents import raised, report
from tests.support.stories import assessment


@pytest.mark.parametrize("kind", get_args(AlarmKind))
def test_an_alarm_of_each_kind_has_its_line_in_the_log(kind: AlarmKind) -> None:
    """With its limit, and since when."""
    told = str(raised(kind=kind))
    assert "; 33 of 80 scored answers" in told.replace("UTC, ", "UTC; ")
    assert told.endswith("; 0.03 before; the limit is at most 0.05, by model")


@given(
    found=st.lists(st.tuples(st.sampled_from(Verdict), st.sampled_from([None, *Severity]))),
    evasive=st.sampled_from([None, False, True]),
)
def test_an_answer_is_hallucinated_by_its_counted_findings(
    found: list[tuple[Verdict, Severity | None]], evasive: bool | None
) -> None:
    """None of a refusal, and of an answer that claims nothing."""
    sentences = tuple(
        SentenceVerdict(text="s", start=0, end=1, verdict=verdict, severity=severity)
        for verdict, severity in found
    )
    read = assessment(sentences=sentences, evasive=evasive)
    expected = None if evasive or not read.claims else bool(read.counted_findings)
    assert read.hallucinated is expected


def test_an_exporter_may_have_a_report_as_plain_values() -> None:
    """Down to its scores."""
    judge = JudgeIdentity(name="j", version="1", kind="LLM")
    scored = Scored(evaluator="a", judge=judge, score=0.5)
    unscored = Unscored(evaluator="b", judge=judge, cause=Cause.NO_CONTEXT)
    told = asdict(replace(report(), evaluations=(scored, unscored)))["evaluations"]
    assert (told[0]["score"], told[1]["cause"]) == (0.5, "no_context")
