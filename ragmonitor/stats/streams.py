"""Lists the signals that may raise an alarm, and how they share the allowed false alarms."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from ragmonitor.records import AlarmKind
from ragmonitor.stats.signals import (
    EMPTY_RETRIEVAL,
    FROM_ASSESSMENT,
    HALLUCINATION,
    NO_JUDGE,
    REFERENCES,
    REFUSAL,
    WEAK_RETRIEVAL,
)

FIRST_SHARE: Final = 0.5
"""The share of the false alarms that the hallucination rate has, which people are paged for."""
RESERVE: Final = 0.25
"""The share of hallucination's threshold that is put aside for when its built-in score rises."""
FLIPS_OBJECTIVE: Final = 0.04
"""The objective for anchors: a judge contradicts itself on one in 30 or so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One signal that may raise an alarm."""

    series: str
    """Its name in the sums."""
    signal: str = ""
    judge: str = ""
    """The judge whose verdicts are its evidence; `none` for what needs no judge."""
    kind: AlarmKind = "quality"
    objective: float | None = None
    """The mean badness that is accepted; None: it is learned."""
    share: float = 1.0
    """The share of all false alarms that are allowed; those of all together at most 1."""
    reserve: float = 0.0
    """The share of its threshold that is put aside for when something is suspicious."""
    higher_is_better: bool = False

    def on_its_scale(self, badness: float | None) -> float | None:
        """Return a badness on the signal's own scale, or a mean of the signal as badness."""
        return 1.0 - badness if badness is not None and self.higher_is_better else badness


def series_of(signal: str, reader: str = "", version: int = 1) -> str:
    """Return the name of a signal in the sums; what is not to be added has another.

    The judge of a sample may change, and goes on with the sums that there are. The one of every
    answer has sums of its own. So has another version of an evaluator.

    Args:
        signal: A score, or what needs no judge.
        reader: The judge that scores every answer; empty: the signal is not by it.
        version: Of the evaluator.

    >>> series_of("refusal"), series_of("refusal", "builtin")
    ('refusal', 'builtin::refusal')
    """
    name = f"{reader}::{signal}" if reader else signal
    return f"{name}~{version}" if version > 1 else name


def streams(
    *,
    evaluators: Sequence[str],
    lower_is_better: Collection[str],
    builtin: str,
    judge: str | None,
    patterns: Sequence[str],
    objectives: Mapping[str, float] = MappingProxyType({}),
    versions: Mapping[str, int] = MappingProxyType({}),
) -> tuple[Stream, ...]:
    """Return the streams of a service.

    Args:
        evaluators: Names of those that score each answer.
        lower_is_better: Those of them whose mean must not rise; of the others it must not fall.
        builtin: The judge of quality where there is no other.
        judge: The judge of quality; None: there is only the built-in one.
        patterns: Of the names of the signals that are wanted.
        objectives: The means that are accepted, by signal; others are learned.
        versions: Of evaluators; 1 where nothing is said. Another one begins anew: what was learned
            of its scores, and the evidence of them, is about another formula.
    """
    scores = [name for name in evaluators if name not in FROM_ASSESSMENT]
    inputs = (EMPTY_RETRIEVAL, WEAK_RETRIEVAL)
    known = [HALLUCINATION, REFUSAL, *scores, *inputs]
    defaults = {}
    if judge is not None:
        known.append(REFERENCES)
        defaults[REFERENCES] = FLIPS_OBJECTIVE
    wanted = [each for each in known if any(fnmatch.fnmatch(each, p) for p in patterns)]
    others = sum(each != HALLUCINATION for each in wanted)
    first = FIRST_SHARE if others else 1.0
    rest = 1.0 - FIRST_SHARE * (HALLUCINATION in wanted)
    found = []
    for signal in wanted:
        is_input, is_first = signal in inputs, signal == HALLUCINATION
        reader = "" if is_input or judge is not None else builtin
        kind: AlarmKind = "input" if is_input else "judge" if signal == REFERENCES else "quality"
        stream = Stream(
            series=series_of(signal, reader, versions.get(signal, 1)),
            signal=signal,
            judge=NO_JUDGE if is_input else judge or builtin,
            kind=kind,
            share=first if is_first else rest / others,
            reserve=RESERVE if is_first and judge is not None else 0.0,
            higher_is_better=signal in scores and signal not in lower_is_better,
        )
        objective = objectives.get(signal, defaults.get(signal))
        found.append(replace(stream, objective=stream.on_its_scale(objective)))
    return tuple(found)
