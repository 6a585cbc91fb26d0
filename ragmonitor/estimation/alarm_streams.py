"""Lists the signals that may raise an alarm, and how they share the allowed false alarms."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ragmonitor.estimation.alarms import Stream
from ragmonitor.estimation.retrieval_drift import MIN_WEAK_OBJECTIVE
from ragmonitor.estimation.signals import (
    EMPTY_RETRIEVAL,
    FROM_ASSESSMENT,
    HALLUCINATION,
    NO_JUDGE,
    REFUSAL,
    WEAK_RETRIEVAL,
)
from ragmonitor.records import AlarmKind, Severity

ANCHORS: Final = "anchors"
FIRST_SHARE: Final = 0.5
"""The share of the false alarms that the hallucination rate has, which people are paged for."""
RESERVE: Final = 0.25
"""The share of hallucination's threshold that is put aside for when its built-in score rises."""
MAX_IMPORTANCE_WEIGHT: Final = 2.0
"""The largest weight of verdicts that were drawn: half of the inclusion probability is the same for
all answers."""
FLIPS_OBJECTIVE: Final = 0.04
"""The objective for anchors: a judge contradicts itself on one in 30 or so."""


def streams(
    *,
    evaluators: Sequence[str],
    lower_is_better: Collection[str],
    builtin: str,
    judge: str | None,
    patterns: Sequence[str],
    min_severity: Severity = Severity.MAJOR,
    slices_share: float = 0.0,
    versions: Mapping[str, int] | None = None,
) -> tuple[Stream, ...]:
    """Return the streams of a service.

    Args:
        evaluators: Names of those that score each answer.
        lower_is_better: Those of them whose mean must not rise; of the others it must not fall.
        builtin: The judge of quality where there is no other.
        judge: The judge of quality; None: there is only the built-in one.
        patterns: Of the names of the signals that are wanted.
        min_severity: Of the findings that make an answer hallucinated; minor ones by themselves
            raise no alarm.
        slices_share: Of the false alarms, what is left for the alarms of slices; below a half.
        versions: Of evaluators; 1 where nothing is said. Another one begins anew: what was learned
            of its scores, and the evidence of them, is about another formula.
    """
    quality = judge or builtin
    importance_weight = 1.0 if judge is None else MAX_IMPORTANCE_WEIGHT
    means = [name for name in evaluators if name not in FROM_ASSESSMENT]
    found: list[tuple[str, str, AlarmKind, bool, float, float | None]] = [
        (HALLUCINATION, quality, "quality", False, importance_weight, None),
        (REFUSAL, quality, "quality", False, importance_weight, None),
        *(
            (name, quality, "quality", name not in lower_is_better, importance_weight, None)
            for name in means
        ),
        (EMPTY_RETRIEVAL, NO_JUDGE, "input", False, 1.0, None),
        # Learned: a reference of few retrievals has more than its nominal share itself.
        (WEAK_RETRIEVAL, NO_JUDGE, "input", False, 1.0, None),
    ]
    if judge is not None:
        found.append((ANCHORS, quality, "judge", False, 1.0, FLIPS_OBJECTIVE))
    wanted = [each for each in found if any(fnmatch.fnmatch(each[0], p) for p in patterns)]
    others = sum(each[0] != HALLUCINATION for each in wanted)
    first = any(each[0] == HALLUCINATION for each in wanted)
    rest = (1.0 - slices_share - FIRST_SHARE * first) / max(1, others)
    alone = 1.0 - slices_share
    return tuple(
        Stream(
            signal=signal,
            judge=whose,
            kind=kind,
            share=(FIRST_SHARE if others else alone) if signal == HALLUCINATION else rest,
            higher_is_better=higher_is_better,
            max_importance_weight=most,
            default_objective=default,
            reserve=RESERVE if signal == HALLUCINATION and judge is not None else 0.0,
            least_learned=MIN_WEAK_OBJECTIVE if signal == WEAK_RETRIEVAL else 0.0,
            definition=min_severity if signal == HALLUCINATION else "",
            # What hallucination means is a setting's.
            version=1 if signal == HALLUCINATION else (versions or {}).get(signal, 1),
        )
        for signal, whose, kind, higher_is_better, most, default in wanted
    )


SLOTS: Final = 50
"""Slices that have an alarm at once: those with the most answers. With more each is slower."""


def slice_slots(
    count: int,
    share: float,
    *,
    judge: str,
    is_sampled: bool,
    min_severity: Severity = Severity.MAJOR,
) -> tuple[Stream, ...]:
    """Return the streams of slices, whose signals are chosen while the service runs.

    Args:
        count: How many slices may have an alarm at once.
        share: Of the false alarms, that of all slices together; each has as much as any other.
        judge: The judge of quality.
        is_sampled: It scores a sample.
        min_severity: As in `streams`.
    """
    slot = Stream(
        signal="",
        judge=judge,
        kind="slice",
        share=share / max(1, count),
        max_importance_weight=MAX_IMPORTANCE_WEIGHT if is_sampled else 1.0,
        definition=min_severity,
    )
    return (slot,) * (count if share > 0 else 0)
