"""Lists the signals that may raise an alarm, and how they share the allowed false alarms."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ragmonitor.records import AlarmKind, AlarmSpan, AlarmState
from ragmonitor.stats.signals import (
    EMPTY_RETRIEVAL,
    FROM_ASSESSMENT,
    HALLUCINATION,
    NO_JUDGE,
    REFERENCES,
    REFUSAL,
    WEAK_RETRIEVAL,
)
from ragmonitor.stats.tick import Shown
from ragmonitor.store import DAY_S

FIRST_SHARE: Final = 0.5
"""The share of the false alarms that the hallucination rate has, which people are paged for."""
RESERVE: Final = 0.25
"""The share of hallucination's threshold that is put aside for when its built-in score rises."""
FLIPS_OBJECTIVE: Final = 0.04
"""The objective for anchors: a judge contradicts itself on one in 30 or so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One signal that may raise an alarm."""

    signal: str
    judge: str
    """The judge whose verdicts are its evidence; `none` for what needs no judge."""
    series: str
    """Its name in the sums."""
    kind: AlarmKind
    share: float
    """The share of all false alarms that are allowed; those of all streams together at most 1."""
    higher_is_better: bool = False
    default_objective: float | None = None
    """In the signal's own scale; None: learned where it is not given."""
    reserve: float = 0.0
    """The share of its threshold that may be put aside for when the built-in score is
    suspicious."""

    def badness(self, mean: float | None) -> float | None:
        """Return a mean of the signal on the scale of badness, or one of badness on its own."""
        return 1.0 - mean if mean is not None and self.higher_is_better else mean


def alarm_state(
    stream: Stream, shown: Shown, every_days: float, span: AlarmSpan | None = None
) -> AlarmState:
    """Return where an alarm stands, for people: all have one threshold, and the signal's scale.

    Args:
        stream: What it watches.
        shown: By the tick.
        every_days: Of all false alarms.
        span: The answers behind it.
    """
    evidence_s = shown.evidence_days * stream.share * DAY_S
    return AlarmState(
        signal=stream.signal,
        judge=stream.judge,
        kind=stream.kind,
        # While it is active its capital is that of clearing it.
        evidence_s=every_days * DAY_S if shown.is_active else evidence_s,
        active=shown.is_active,
        since_s=shown.raised_at_s if shown.is_active else None,
        rising_since_s=shown.began_s if shown.began_s >= 0 else None,
        span=span,
        objective=stream.badness(shown.objective),
        learned=shown.learned,
        higher_is_better=stream.higher_is_better,
    )


def series_of(signal: str, judge: str, reader: str, *, version: int = 1) -> str:
    """Return the name of a signal in the sums; what is not to be added has another.

    The judge of a sample may change, and goes on with the sums that there are. The one of every
    answer has sums of its own. So has another version of an evaluator.

    >>> series_of("refusal", "gpt", "builtin"), series_of("refusal", "builtin", "builtin")
    ('refusal', 'builtin::refusal')
    """
    name = f"{judge}::{signal}" if judge == reader else signal
    return f"{name}~{version}" if version > 1 else name


def streams(
    *,
    evaluators: Sequence[str],
    lower_is_better: Collection[str],
    builtin: str,
    judge: str | None,
    patterns: Sequence[str],
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
        slices_share: Of the false alarms, what is left for the alarms of slices; below a half.
        versions: Of evaluators; 1 where nothing is said. Another one begins anew: what was learned
            of its scores, and the evidence of them, is about another formula.
    """
    quality = judge or builtin
    known = versions or {}

    def stream(
        signal: str,
        *,
        whose: str = quality,
        kind: AlarmKind = "quality",
        default: float | None = None,
    ) -> Stream:
        is_score = signal in evaluators and signal not in FROM_ASSESSMENT
        return Stream(
            signal=signal,
            judge=whose,
            series=series_of(signal, whose, builtin, version=known.get(signal, 1)),
            kind=kind,
            share=1.0,
            higher_is_better=is_score and signal not in lower_is_better,
            default_objective=default,
            reserve=RESERVE if signal == HALLUCINATION and judge is not None else 0.0,
        )

    found = [stream(HALLUCINATION), stream(REFUSAL)]
    found += [stream(name) for name in evaluators if name not in FROM_ASSESSMENT]
    found += [
        stream(signal, whose=NO_JUDGE, kind="input") for signal in (EMPTY_RETRIEVAL, WEAK_RETRIEVAL)
    ]
    if judge is not None:
        found.append(stream(REFERENCES, kind="judge", default=FLIPS_OBJECTIVE))
    wanted = [each for each in found if any(fnmatch.fnmatch(each.signal, p) for p in patterns)]
    others = sum(each.signal != HALLUCINATION for each in wanted)
    first = any(each.signal == HALLUCINATION for each in wanted)
    alone = 1.0 - slices_share
    rest = (alone - FIRST_SHARE * first) / max(1, others)
    return tuple(
        replace(
            each,
            share=(FIRST_SHARE if others else alone) if each.signal == HALLUCINATION else rest,
        )
        for each in wanted
    )


SLICE_ALARMS: Final = 50
"""Slices that have an alarm at most, by which each has its share of the false alarms."""
