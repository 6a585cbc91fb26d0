"""What alarms say of themselves."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.records import (
    AlarmEvent,
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


@given(objective=st.floats(0, 1), higher_is_better=st.booleans())
def test_a_limit_is_never_rounded_to_more_than_it_is(
    objective: float, *, higher_is_better: bool
) -> None:
    """What is called permitted is permitted."""
    event = alarm(mean=0.5, raised=True, higher_is_better=higher_is_better, objective=objective)
    shown = float(event.bound.split()[-1])
    assert math.isclose(shown, objective, abs_tol=1e-9) or (shown < objective) is higher_is_better
