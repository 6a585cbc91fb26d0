"""Keeps sums of each version in slots of ten minutes, bounded, fit for a shared file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any, Final

from ragmonitor.causes.comparison import FIELDS, place

SLOT_S: Final = 600
"""Seconds of a slot."""
MAX_SLOTS: Final = 144
"""Slots of a version that are kept apart: a day; what is older is one slot."""
MAX_VALUES: Final = 8
"""Versions of one attribute that are compared at once."""
SILENT_S: Final = 600.0
"""A version gives way to a new one once it has been silent for so long."""
MAX_SIGNALS: Final = 16
CONCURRENT_SHARE: Final = 0.1
"""A baseline that has this share of the candidate's answers meanwhile is compared with at the same
time only; else with all that is known of it."""

Sums = list[float]
"""In the order of `FIELDS`."""
_ANSWERS: Final = (place("answers"), place("uncovered"))


@dataclass(slots=True)
class Arm:
    """One version: the answers that it gave, by time and signal."""

    first_s: float
    """The time when its first answer was seen, in seconds since the epoch."""
    last_s: float
    slots: dict[int, dict[str, Sums]] = field(default_factory=dict)
    """The sums by the number of the slot since the epoch, and by signal."""
    worse_s: float | None = None
    """The time when it was found worse than its baseline; None: it was not."""

    def add(self, slot: int, signal: str, sums: Sequence[float]) -> None:
        """Add sums of some answers."""
        signals = self.slots.setdefault(slot, {})
        known = signals.get(signal)
        if known is not None or len(signals) < MAX_SIGNALS:
            signals[signal] = list(sums) if known is None else list(map(add, known, sums))

    def sums(self, slot: int, signal: str) -> Sums:
        """Return a signal's sums, to be added to; where there are too many, of no use."""
        signals = self.slots.setdefault(slot, {})
        known = signals.get(signal)
        if known is None:
            known = [0.0] * len(FIELDS)
            if len(signals) < MAX_SIGNALS:
                signals[signal] = known
        return known

    def merge(self, other: Arm) -> None:
        """Add what another process, or another time, knows of the same version."""
        self.first_s = min(self.first_s, other.first_s)
        self.last_s = max(self.last_s, other.last_s)
        for slot, signals in other.slots.items():
            for signal, sums in signals.items():
                self.add(slot, signal, sums)
        while len(self.slots) > MAX_SLOTS:
            oldest, next_one = sorted(self.slots)[:2]
            for signal, sums in self.slots.pop(oldest).items():
                self.add(next_one, signal, sums)

    def total(self, signal: str, since_s: float = -math.inf) -> Sums:
        """Return a signal's sums over the slots that end after a moment."""
        total = [0.0] * len(FIELDS)
        for slot, signals in self.slots.items():
            if signal in signals and (slot + 1) * SLOT_S > since_s:
                total = list(map(add, total, signals[signal]))
        return total

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals of which anything is known, in the order in which they were seen."""
        return tuple(dict.fromkeys(name for each in self.slots.values() for name in each))

    def as_json(self) -> dict[str, Any]:
        """Return what `of_json` reads."""
        return {
            "first_s": self.first_s,
            "last_s": self.last_s,
            "worse_s": self.worse_s,
            "slots": {str(slot): dict(signals) for slot, signals in self.slots.items()},
        }

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Arm:
        """Return the version as it was kept.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: It was not kept by us.
        """
        worse_s = told["worse_s"]
        arm = cls(
            first_s=float(told["first_s"]),
            last_s=float(told["last_s"]),
            worse_s=None if worse_s is None else float(worse_s),
        )
        for slot, signals in told["slots"].items():
            for signal, sums in signals.items():
                if len(sums) != len(FIELDS):
                    raise ValueError(f"{len(sums)} sums of a signal, and not {len(FIELDS)}")
                arm.add(int(slot), str(signal), [float(each) for each in sums])
        return arm


class Arms(dict[str, dict[str, Arm]]):
    """The versions that are compared: by attribute, and by its value."""

    def arm(self, by: str, value: str, at_s: float) -> Arm | None:
        """Return a version, made when it is met first; None: there are too many already."""
        arms = self.setdefault(by, {})
        known = arms.get(value)
        if known is None:
            if len(arms) >= MAX_VALUES:
                oldest = min(arms, key=lambda each: arms[each].last_s)
                if arms[oldest].last_s > at_s - SILENT_S:
                    return None
                del arms[oldest]
            known = arms[value] = Arm(first_s=at_s, last_s=at_s)
        known.first_s, known.last_s = min(known.first_s, at_s), max(known.last_s, at_s)
        return known

    def merge(self, other: Arms) -> None:
        """Add what another process, or another time, knows."""
        for by, arms in other.items():
            for value, arm in arms.items():
                own = self.arm(by, value, arm.last_s)
                if own is not None:
                    own.merge(arm)

    def pairs(self) -> Iterator[tuple[str, str, str]]:
        """Yield the attribute, the candidate and the baseline of what is compared by itself.

        The candidate is the version that was seen first most recently, and its baseline, of the
        others, the one that gave the most answers.
        """
        for by, arms in self.items():
            if len(arms) > 1:
                candidate = max(arms, key=lambda each: arms[each].first_s)
                others = [each for each in arms if each != candidate]
                yield by, candidate, max(others, key=lambda each: answers_of(arms[each]))

    def sums(self, by: str, candidate: str, baseline: str, signal: str) -> tuple[Sums, Sums]:
        """Return the sums of a candidate, and of its baseline at the same time where it went on."""
        concurrent = self.concurrent_sums(by, candidate, baseline, signal)
        if concurrent is not None:
            return concurrent
        return self[by][candidate].total(signal), self[by][baseline].total(signal)

    def concurrent_sums(
        self, by: str, candidate: str, baseline: str, signal: str
    ) -> tuple[Sums, Sums] | None:
        """Return the sums of both since the candidate came; None: the baseline did not go on."""
        new, old = self[by][candidate], self[by][baseline]
        sums, meanwhile = new.total(signal), old.total(signal, new.first_s)
        return (sums, meanwhile) if are_concurrent(sums, meanwhile) else None

    def as_json(self) -> dict[str, Any]:
        """Return what `of_json` reads."""
        return {
            by: {value: arm.as_json() for value, arm in arms.items()} for by, arms in self.items()
        }

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Arms:
        """Return the versions as they were kept; raises as `Arm.of_json`."""
        return cls(
            {
                str(by): {str(value): Arm.of_json(each) for value, each in arms.items()}
                for by, arms in told.items()
            }
        )


def answers_of(arm: Arm) -> float:
    """Return how many answers a version gave, by the signal of which the most are known."""
    return max((answered(arm.total(signal)) for signal in arm.signals), default=0.0)


def are_concurrent(candidate: Sums, meanwhile: Sums) -> bool:
    """Return whether a baseline gave enough answers in the candidate's time to be compared with."""
    return answered(meanwhile) >= CONCURRENT_SHARE * answered(candidate)


def answered(sums: Sums) -> float:
    """Return how many answers some sums are of."""
    return sum(sums[each] for each in _ANSWERS)
