"""Evidence that a mean has risen above its objective, in days; and that it has come back.

Each value updates the evidence by a factor whose expectation is at most 1 while the mean meets the
objective, so that evidence grows by chance alone no faster than time passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

DAY_S = 86_400.0
STEP_MOST_S = 3_600.0
"""Most that one step counts: neither a clock that jumps nor a long silence is evidence."""

SURE = 1 + 1e-9
"""A bound that is to be reached is overshot by so much, lest rounding fall short of it."""

MAX_RISK = 0.9
"""At most this share is lost by one value, or by those of one session: a tenth is left."""
AT_RISK = SURE * MAX_RISK

MULTIPLES = (1.25, 1.5, 2.0, 3.0, 5.0, 9.0)
"""The multiple of the objective that each part of the mixture expects the mean to have become."""
WEIGHTS = (1 / 12, 2 / 12, 3 / 12, 2 / 12, 3 / 12, 1 / 12)
"""The share of the evidence that time brings which each part gets."""
SAVED = 0.5
"""The share of the evidence that time brings which is put aside where there is room for it."""
TIME_ALONE = 0.09
"""Up to this share of an alarm's threshold evidence grows with time; beyond it by bad answers only.

It is below the tenth that a ticket takes, which rare good answers would raise otherwise.
"""
SUSPICION_ALONE = 0.5
"""Up to this share of the threshold what was put aside comes in."""

MIN_OBJECTIVE = 0.001
MAX_OBJECTIVE = 0.999

CLEAR_ABOVE = 1.2
"""Times the objective: so much lies between raising and clearing an alarm.

A mean of 1.2 times is raised and stays so, once a month and not 16 times (as at 1.5); below it an
alarm is raised the more slowly, and at 1.1 times comes and goes three times. The price is time: a
mean of 0.8 times is clear after six hours and not three, at 180 verdicts an hour.
"""
CLEARED_AT = 20.0
"""At most one in so many clearances is wrong."""
CLEARING_RISKS = (0.125, 0.25, 0.5, 1.0)
RESERVE = 0.5


SPENT = 1e12
"""The total weight of a session that updates no more."""


class Block:
    """The sum of the verdicts on one session within the hour; see `alarms.sessions`."""

    __slots__ = ("total_weight", "weighted")

    def __init__(self, total_weight: float = 0.0, weighted: float = 0.0) -> None:
        """Hold the sum of importance weights, and that of importance weights times values."""
        self.total_weight = total_weight
        self.weighted = weighted

    @property
    def is_spent(self) -> bool:
        """Whether the session updates no more; the sums then say nothing of its verdicts."""
        return self.total_weight >= SPENT

    def add(self, x: float, importance_weight: float) -> None:
        """Take in one value."""
        self.total_weight += importance_weight
        self.weighted += importance_weight * x


class Detector:
    """The continuous-time mixture e-SR detector of one stream: six numbers and a time.

    Values x lie in 0..1, higher is worse; `evidence` is a number of days. As long as the mean of
    x, given the past, keeps to `objective`, evidence grows by at most the time that passes, in
    expectation, so whoever raises an alarm and restarts at N days does so at most T/N times in T
    days, on average; whatever the traffic, and whatever the inclusion probability of each value, if
    that was fixed beforehand (the importance weight is inversely proportional to it).

    Half of what time brings may be put aside (`max_reserve`), to be put in when something else is
    suspicious (`trust`): the guarantee needs no more than that what was put in by any moment is at
    most the time passed, and that when it is put in rests on the past alone. So the built-in
    judge's score may say when to put it in, however little it is worth; verdicts decide. Since
    what was put aside may come in at once, T days that begin after a quiet time see at most
    (T + what was there at their beginning) / N alarms, on average.

    An update is never larger than what reaches the threshold by one bad value. With values of 0 or
    1 nothing is then gained beyond the threshold, and at exactly the objective there is one alarm
    in N days, where there had been 0.7.

    Source:
        Shin, Ramdas & Rinaldo (2024), "E-detectors: a nonparametric framework for sequential
        change detection", NEJSDS 2(2), arXiv:2203.03532: the SR-type e-detector, a sum of
        e-processes started one after the other, and mixtures of them. Here their starts are
        spread evenly over time instead of over values, so that the threshold is a number of days.
        The updates: Waudby-Smith & Ramdas (2024), "Estimating means of bounded random variables by
        betting", JRSS B 86(1), arXiv:2010.09686, section 4 (the capital process).
    """

    __slots__ = (
        "_by_time",
        "_near",
        "_objective",
        "_threshold",
        "_updates",
        "at_s",
        "max_importance_weight",
        "max_reserve",
        "parts",
        "reserve",
    )

    def __init__(
        self,
        *,
        objective: float,
        max_importance_weight: float = 1.0,
        threshold_days: float = float("inf"),
        max_reserve: float = 0.0,
        by_time: float = TIME_ALONE,
    ) -> None:
        """Begin without evidence.

        Args:
            objective: The mean that is still accepted. Below 0.001 nothing can be assured, so
                that it counts as 0.001; likewise above 0.999.
            max_importance_weight: Higher weights count as this.
            threshold_days: Where an alarm is raised.
            max_reserve: Days of capital that are put aside at most.
            by_time: The share of the threshold up to which evidence grows with time alone.
        """
        self.parts = [0.0] * len(MULTIPLES)
        """Evidence of each part of the mixture, in days; not negative."""
        self.at_s: float | None = None
        """Up to when time has passed, in seconds since the epoch; None: it has not begun."""
        self.max_importance_weight = max_importance_weight
        self.reserve = 0.0
        """Days of capital that were put aside."""
        self.max_reserve = max_reserve
        self._threshold = threshold_days
        self._by_time = by_time * threshold_days
        self.objective = objective

    @property
    def objective(self) -> float:
        """The mean that is still accepted; may be moved between updates, by what is past only."""
        return self._objective

    @objective.setter
    def objective(self, mean: float) -> None:
        mean = min(MAX_OBJECTIVE, max(MIN_OBJECTIVE, mean))
        self._objective = mean
        most = MAX_RISK / (mean * self.max_importance_weight)
        self._updates = [min((multiple - 1) / (1 - mean), most) for multiple in MULTIPLES]
        self._near = self._threshold / (
            1 + self._updates[-1] * self.max_importance_weight * (1 - mean)
        )

    @property
    def evidence(self) -> float:
        """In days: while the mean meets the objective, it gets so far at most once in that many."""
        return sum(self.parts)

    def pass_time(self, at_s: float, *, saves: bool = False) -> None:
        """Let time go on to the moment of the next update, in seconds since the epoch.

        Time that has passed already (a late value) counts nothing. A clock that was set back, by
        more than late values are late, is followed.
        """
        if self.at_s is None or at_s < self.at_s - STEP_MOST_S:
            self.at_s = at_s
            return
        step_s = at_s - self.at_s
        if step_s <= 0:
            return
        self.at_s = at_s
        # Counting less time than has passed only ever makes the evidence smaller. So silence
        # cannot bring an alarm near, nor can time alone raise one, and the guarantee stands.
        days = min(STEP_MOST_S, step_s) / DAY_S
        if saves and self.reserve < self.max_reserve:
            saved = min(SAVED * days, self.max_reserve - self.reserve)
            self.reserve += saved
            days -= saved
        self._put_in(days, self._by_time)

    def trust(self, suspicion: float) -> None:
        """Put in what was put aside, before an update, as far as something else is suspicious.

        Args:
            suspicion: 0 to 1, by what was known before the next value's answer was drawn: so much
                of the most that can be put aside may be missing.
        """
        capital = min(self.reserve, self.reserve + (suspicion - 1) * self.max_reserve)
        if capital > 0:
            self.reserve -= self._put_in(capital, SUSPICION_ALONE * self._threshold)

    def _put_in(self, days: float, most: float) -> float:
        """Put in days of capital, as far as the evidence stays within a bound; return how many."""
        days = min(days, most - sum(self.parts))
        if days <= 0:
            return 0.0
        self.parts = [
            part + days * weight for part, weight in zip(self.parts, WEIGHTS, strict=True)
        ]
        return days

    def update(self, x: float, importance_weight: float = 1.0, block: Block | None = None) -> None:
        """Take in one value.

        Args:
            x: 0 to 1; 1 is the worst.
            importance_weight: Inversely proportional to the inclusion probability, at most
                `max_importance_weight`.
            block: What the value's session has come to so far, to which it is added; None: the
                value stands alone.
        """
        importance_weight = min(self.max_importance_weight, importance_weight)
        if importance_weight <= 0:
            return
        edge = importance_weight * (x - self._objective)
        if block is not None:
            self._update_within(block, edge, importance_weight)
            block.add(x, importance_weight)
            return
        if sum(self.parts) > self._near:
            edge *= self._needed(importance_weight)
        # Written out: this runs for every answer, and a loop takes twice as long.
        first, second, third, fourth, fifth, sixth = self._updates
        a, b, c, d, e, f = self.parts
        self.parts = [
            a + a * first * edge,
            b + b * second * edge,
            c + c * third * edge,
            d + d * fourth * edge,
            e + e * fifth * edge,
            f + f * sixth * edge,
        ]

    def _needed(self, importance_weight: float) -> float:
        """Return the share of the update that reaches the threshold by one bad value; 0 to 1.

        A gain beyond the threshold is of no use, and not worth the loss that it risks.
        """
        missing = self._threshold * SURE - sum(self.parts)
        won = sum(part * update for part, update in zip(self.parts, self._updates, strict=True))
        most = won * importance_weight * (1 - self._objective)
        return min(1.0, max(0.0, missing / most)) if most > 0 else 1.0

    def _update_within(self, block: Block, edge: float, importance_weight: float) -> None:
        """Multiply by what one more value makes of the factor of its session."""
        gained = block.weighted - self._objective * block.total_weight
        # The first value of a session is always taken: updates are no larger than that.
        total_weight = self._objective * (block.total_weight + importance_weight)
        self.parts = [
            part * (1 + update * edge / (1 + update * gained))
            if update * total_weight <= AT_RISK
            else part
            for part, update in zip(self.parts, self._updates, strict=True)
        ]

    def restart(self) -> None:
        """Forget the evidence; time goes on."""
        self.parts = [0.0] * len(self.parts)


class Clearing:
    """Evidence that the mean is back below `level`, since an alarm was raised.

    If it never came back, `evidence` ever reaches 20 with a probability of at most 1 in 20. Updates
    go the other way, against 1.2 times the objective, so that an alarm does not flutter. Half of
    the capital takes part from the beginning. The other half comes in as time passes, since it is
    not known when the mean came back; without it a long bad time would have to be made up for.

    Source:
        Ville's inequality for the capital of Waudby-Smith & Ramdas (2024), arXiv:2010.09686,
        section 4; a mixture of starting times is a mixture of such capitals.
    """

    __slots__ = ("_risks", "age_hours", "at_s", "level", "max_importance_weight", "parts")

    def __init__(self, *, objective: float, max_importance_weight: float, at_s: float) -> None:
        """Begin when the alarm is raised, in seconds since the epoch."""
        objective = min(MAX_OBJECTIVE, max(MIN_OBJECTIVE, objective))
        self.level = min(CLEAR_ABOVE * objective, (1 + objective) / 2)
        """Below this the mean has come back."""
        self.max_importance_weight = max_importance_weight
        most = MAX_RISK / ((1 - self.level) * max_importance_weight)
        self._risks = [risk * most for risk in CLEARING_RISKS]
        self.parts = [(1 - RESERVE) / len(self._risks)] * len(self._risks)
        self.age_hours = 0.0
        self.at_s = at_s

    @property
    def evidence(self) -> float:
        """At 20 the alarm may be cleared."""
        return sum(self.parts)

    def update(
        self, x: float, importance_weight: float, at_s: float, block: Block | None = None
    ) -> None:
        """Take in one value, as `Detector.pass_time` and `Detector.update` do."""
        waited = self._waiting()
        self.age_hours += max(0.0, min(at_s - self.at_s, STEP_MOST_S)) / 3_600
        if at_s > self.at_s or at_s < self.at_s - STEP_MOST_S:
            self.at_s = at_s
        entering = (waited - self._waiting()) / len(self.parts)
        importance_weight = min(importance_weight, self.max_importance_weight)
        edge = importance_weight * (x - self.level)
        block = Block() if block is None else block
        if importance_weight <= 0:
            return
        gained = block.weighted - self.level * block.total_weight
        total_weight = (1 - self.level) * (block.total_weight + importance_weight)
        self.parts = [
            (part + entering)
            * (1.0 - risk * edge / (1.0 - risk * gained) if risk * total_weight <= AT_RISK else 1.0)
            for part, risk in zip(self.parts, self._risks, strict=True)
        ]
        block.add(x, importance_weight)

    def _waiting(self) -> float:
        # Slowly: the longer it has been bad, the longer it may still be.
        return RESERVE / (1 + math.log1p(self.age_hours))

    def restore(self, parts: Sequence[float], age_hours: float) -> None:
        """Go on from where another process was."""
        self.parts = list(parts)
        self.age_hours = age_hours
