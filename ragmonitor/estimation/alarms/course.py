"""The scored answers since a rise or a recovery began, and those before it: what an alarm says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Final

from ragmonitor.records import AlarmSpan

MAX_BEFORE: Final = 5_000.0
"""Verdicts before, from which on older ones count less: a day of 180 an hour."""


@dataclass(slots=True)
class Tally:
    """Sums over scored answers; badness is 0 to 1, on the scale of the alarm's evidence."""

    scored: float = 0.0
    graded: float = 0.0
    """The number of them whose badness is neither 0 nor 1."""
    bad: float = 0.0
    """The number of them whose badness is 1."""
    weight: float = 0.0
    weighted: float = 0.0
    """Weight times badness."""

    def add(self, badness: float, weight: float) -> None:
        """Add one scored answer."""
        self.scored += 1
        self.graded += 0 < badness < 1
        self.bad += badness == 1
        self.weight += weight
        self.weighted += weight * badness

    def absorb(self, other: Tally) -> None:
        """Add what another one holds; beyond `MAX_BEFORE` all count half."""
        self.scored += other.scored
        self.graded += other.graded
        self.bad += other.bad
        self.weight += other.weight
        self.weighted += other.weighted
        self.fade()

    def fade(self) -> None:
        """Let all count half, beyond `MAX_BEFORE`."""
        if self.scored > MAX_BEFORE:
            self.scored *= 0.5
            self.graded *= 0.5
            self.bad *= 0.5
            self.weight *= 0.5
            self.weighted *= 0.5

    def clear(self) -> None:
        """Forget all."""
        self.scored = self.graded = self.bad = self.weight = self.weighted = 0.0


@dataclass(slots=True)
class Course:
    """The verdicts of one signal in two parts, parted where a rise or a recovery began."""

    before: Tally = field(default_factory=Tally)
    since: Tally = field(default_factory=Tally)
    since_s: float = 0.0
    """The time when the second part began, in seconds since the epoch."""
    level: float = 0.0
    """The sum since then of badness beyond the objective (during an alarm: below it); above 0."""

    def add(
        self, badness: float, weight: float, at_s: float, *, objective: float, active: bool
    ) -> None:
        """Add one verdict.

        The second part begins where the sum of what exceeds the objective was lowest: the maximum
        likelihood estimate of a change point (Page 1954, "Continuous inspection schemes", section
        2).

        Args:
            badness: 0 to 1.
            weight: As `SamplingDecision.importance_weight`.
            at_s: When the answer was given, in seconds since the epoch.
            objective: The highest mean badness that is accepted.
            active: Whether the alarm is active, so that its end is looked for.
        """
        beyond = weight * (badness - objective)
        self.level += -beyond if active else beyond
        since = self.since
        if not since.scored:
            self.since_s = at_s
            if self.level <= 0:  # most verdicts: the second part ends as it begins
                self.level = 0.0
                self.before.add(badness, weight)
                self.before.fade()
                return
        since.add(badness, weight)
        if self.level <= 0:
            self.level = 0.0
            self.before.absorb(since)
            since.clear()

    def part(self) -> None:
        """Begin anew at the end of a span: what it held is the part before the next."""
        self.before, self.since = self.since, Tally()
        self.level = 0.0

    def span(self, *, higher_is_better: bool) -> AlarmSpan | None:
        """Return what an alarm says; None: nothing has been scored since."""
        since, before = self.since, self.before
        if not since.weight:
            return None

        def mean(tally: Tally) -> float:
            badness = tally.weighted / tally.weight
            return 1.0 - badness if higher_is_better else badness

        return AlarmSpan(
            since_s=self.since_s,
            scored=round(since.scored),
            mean=mean(since),
            bad=None if since.graded or higher_is_better else round(since.bad),
            before=mean(before) if before.weight else None,
        )

    def dump(self) -> list[float]:
        """Return what `load` takes."""
        numbers = [*astuple(self.before), *astuple(self.since)]
        return [*numbers, self.since_s, self.level]

    @classmethod
    def load(cls, numbers: Sequence[float]) -> Course:
        """Return the course that `dump` described; `numbers` has the shape (12,)."""
        return cls(Tally(*numbers[:5]), Tally(*numbers[5:10]), *numbers[10:])


NUMBERS: Final = len(Course().dump())
