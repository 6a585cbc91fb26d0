"""Keeps sums of each version in slots of ten minutes, bounded, fit for a shared file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import add, mul
from typing import Any, Final

from ragmonitor.causes.comparison import FIELDS, place

SLOT_S: Final = 600
"""Seconds of a slot."""
MAX_SLOTS: Final = 144
"""Slots of a version that are kept apart: a day of them; beyond, the most alike are one."""
OPEN_SLOTS: Final = 2
"""The newest slots are not joined with others: sums of other processes may still come."""
MAX_VALUES: Final = 8
"""Versions of one attribute that are compared at once."""
SILENT_S: Final = 600.0
"""A version gives way to a new one once it has been silent for so long."""
MAX_SIGNALS: Final = 16
SHARED: Final = 0.1
"""Where fewer of the candidate's answers than this share fell into slots that its baseline shares,
the difference that is shown is that to all that is known of the baseline. No alarm and no gate
looks at it."""

Sums = list[float]
"""In the order of `FIELDS`."""
_ANSWERS: Final = (place("answers"), place("uncovered"))
_PRODUCTS: Final = place("value_value")
"""The sums from here on are those of products."""


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

    def join(self, slot: int, later: int) -> None:
        """Make one slot, the earlier, of two."""
        for signal, sums in self.slots.pop(later).items():
            self.add(slot, signal, sums)

    def total(self, signal: str) -> Sums:
        """Return a signal's sums over all slots."""
        total = [0.0] * len(FIELDS)
        for signals in self.slots.values():
            if signal in signals:
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
                known = self.arm(by, value, arm.last_s)
                if known is not None:
                    known.merge(arm)
            for own in self.get(by, {}).values():
                while len(own.slots) > MAX_SLOTS:
                    _join_two_slots(own, self[by])

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
        """Return the sums to show: of the slots that both share, or of all that is known."""
        shared = self._shared(by, candidate, baseline, signal)
        sums = self[by][candidate].total(signal)
        if shared and sum(n for n, _, _, _ in shared) >= SHARED * answered(sums):
            return _alike(shared)
        return sums, self[by][baseline].total(signal)

    def concurrent_sums(
        self, by: str, candidate: str, baseline: str, signal: str
    ) -> tuple[Sums, Sums] | None:
        """Return the sums of both over the slots in which both answered; None: there is none."""
        shared = self._shared(by, candidate, baseline, signal)
        return _alike(shared) if shared else None

    def _shared(self, by: str, candidate: str, baseline: str, signal: str) -> list[_Shared]:
        """Return the slots in which both answered."""
        new, old = self[by][candidate].slots, self[by][baseline].slots
        found = []
        for slot in sorted(new.keys() & old.keys()):
            if signal in new[slot] and signal in old[slot]:
                sums, others = new[slot][signal], old[slot][signal]
                n, m = answered(sums), answered(others)
                if n > 0 and m > 0:
                    found.append((n, m, sums, others))
        return found

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


_Shared = tuple[float, float, Sums, Sums]
"""A slot in which both answered: the answers of the candidate and of its baseline; their sums."""


def _alike(shared: Sequence[_Shared]) -> tuple[Sums, Sums]:
    """Return the sums of both, in which each slot has the same weight.

    That is n m / (n + m) for n and m answers, so that an hour that is bad for both makes no
    difference, however the traffic was split then. Where the split is constant these are the plain
    sums.

    Source:
        Cochran, "Some methods for strengthening the common chi-square tests", Biometrics 10(4)
        (1954), for the weights; Kish, "Survey Sampling" (1965), section 11.7, for the effective
        number of answers.
    """
    return (
        _weighted([(n, m / (n + m), new) for n, m, new, _ in shared]),
        _weighted([(m, n / (n + m), old) for n, m, _, old in shared]),
    )


def _weighted(slots: Sequence[tuple[float, float, Sums]]) -> Sums:
    """Return sums whose answers have weights, scaled so that they count by Kish's effective number.

    Args:
        slots: Of each its answers, the weight of one of them, and its sums.
    """
    weights = sum(n * weight for n, weight, _ in slots)
    scale = weights / sum(n * weight * weight for n, weight, _ in slots)
    # Rounded: equal weights are 1, and whole numbers stay whole.
    scaled = [round(weight * scale, 12) for _, weight, _ in slots]
    squares = [weight * weight for weight in scaled]
    columns = zip(*[sums for _, _, sums in slots], strict=True)
    return [
        sum(map(mul, column, scaled if at < _PRODUCTS else squares))
        for at, column in enumerate(columns)
    ]


def _join_two_slots(full: Arm, arms: Mapping[str, Arm]) -> None:
    """Make one of two slots of a version in which the same versions split the traffic most alike.

    So what several versions gave at one time stays apart from what one gave alone, and one stage of
    a rollout from the next. Of slots that are equally alike the oldest are joined.

    Args:
        full: The version that has too many slots.
        arms: All versions, this one among them; those that share the two slots join them, too.
    """
    of_versions: dict[tuple[str, ...], list[tuple[int, list[float]]]] = defaultdict(list)
    for slot in sorted(full.slots)[:-OPEN_SLOTS]:
        answers = {
            value: max(map(answered, arm.slots[slot].values()), default=0.0)
            for value, arm in arms.items()
            if slot in arm.slots
        }
        total = sum(answers.values()) or 1.0
        of_versions[tuple(answers)].append((slot, [each / total for each in answers.values()]))
    neighbours = [
        (max(abs(a - b) for a, b in zip(split, later_split, strict=True)), slot, later)
        for slots in of_versions.values()
        for (slot, split), (later, later_split) in pairwise(slots)
    ]
    # There are fewer sets of versions that occur than slots: some two slots have the same.
    _, slot, later = min(neighbours)
    for arm in arms.values():
        if slot in arm.slots and later in arm.slots:
            arm.join(slot, later)


def answered(sums: Sums) -> float:
    """Return how many answers some sums are of."""
    answers, uncovered = _ANSWERS
    return sums[answers] + sums[uncovered]
