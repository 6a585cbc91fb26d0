"""The evidence of one alarm: that a mean has risen above its objective, and that it has come back.

Both are capital that nothing is gained with on average while the null hypothesis holds. Of a
group's verdicts within a session's time, with importance weights w and badness y, the factor is

    V = 1 + b (sum w y - m sum w),

and further ones multiply capital by V_new / V_old: groups multiply, within a group verdicts add up,
so that nothing is assumed of how they hang together.

**Raising.** While E[y] <= m capital never grows on average but by what is put in, and that is no
more than a unit a day. So it reaches N days, and is taken away, at most once in N days, on average,
whatever the traffic, and whatever each answer's chance was, if that was fixed before the draw.

**Missing verdicts count as fine**: those on their way, and those that failed. So the guarantee
holds under any missingness, and what is shown is never more than it will have been, whichever
verdicts are slow. Of a group with an open draw everything after it counts as fine too: a factor
divides by what its group had come to before, so that only then the result is a lower bound.

Source:
    Shin, Ramdas & Rinaldo, "E-detectors: a nonparametric framework for sequential change
    detection" (2024), NEJSDS 2(2), arXiv:2203.03532; here starts are spread over time, so that the
    threshold is a number of days. Waudby-Smith & Ramdas, "Estimating means of bounded random
    variables by betting" (2024), JRSS B 86(1), arXiv:2010.09686, section 4, for the factors.
    Clearing: Ville's inequality for the same capital.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ragmonitor.stats.learning import MIN_OBJECTIVE, Learning
from ragmonitor.stats.sums import ALL, BAD, MAX_WEIGHT, RISK, RISKS
from ragmonitor.stats.suspicion import MULTIPLES, SHARES, Suspicion
from ragmonitor.store import BET_S, DAY_S

SILENT_S: Final = 3_600.0
LONG_S: Final = 14_400.0
"""A session is over after an hour of silence; after four hours it is taken for another one."""
MAX_RISK: Final = 0.9
"""At most this share is lost by the verdicts of one session: a tenth is left."""
AT_RISK: Final = MAX_RISK * (1 + 1e-9)
SPENT: Final = 1e12
"""The weight of a session that bets no more: an alarm has looked at it."""
TIME_ALONE: Final = 0.09
"""Time brings no more than this share of the threshold, so that silence raises nothing."""
SAVED: Final = 0.5
"""The share of what time brings that is put aside where there is room for it."""
SUSPICION_ALONE: Final = 0.5
"""Up to this share of the threshold what was put aside comes in."""
CLEAR_ABOVE: Final = 1.2
"""Times the objective: so much lies between raising and clearing, lest an alarm come and go."""
CLEARED_AT: Final = 20.0
MAX_OBJECTIVE: Final = 0.999
CLEARING: Final = (0.125, 0.25, 0.5, 1.0)

Cells = Mapping[str, Sequence[float]]
"""Of each group of a bucket the sums of `sums.WEIGHT`, `BAD`, `OPEN` and `MISSED`."""
Bets = dict[str, tuple[float, float]]
"""Weight and bad weight by group."""
Event = Literal["raised", "cleared"]
_Unit = tuple[float, float, float, float]
"""A group's session: weight, bad weight, and the times of its first and last bucket."""
_NOBODY: Final = (0.0, 0.0, 0.0, 0.0)
_NOTHING: Final = 1e-9
"""Weights below it are what adding and taking away left."""


@dataclass(slots=True)
class Alarm:
    """One alarm: some thirty numbers, and the groups that bet within the last hours.

    >>> alarm = Alarm.begin(0.05, threshold_days=30.0)
    >>> for step in range(60):
    ...     event = alarm.step(step * 60.0, {f"{step}": (1.0, 1.0, 0.0, 0.0)})
    ...     if event:
    ...         break
    >>> event, alarm.is_active, alarm.raised_at_s
    ('raised', True, 360.0)
    """

    objective: float | None
    """The mean badness that is accepted; None: it is being learned, or there is no room for one."""
    threshold_days: float
    max_reserve: float = 0.0
    """Days of capital that are put aside at most, for when something is suspicious."""
    parts: list[float] = field(default_factory=lambda: [0.0] * len(MULTIPLES))
    units: dict[str, _Unit] = field(default_factory=dict)
    at_s: float = -1.0
    raised_at_s: float = -1.0
    """When it was raised, by the store's clock; -1: it is not active."""
    began_s: float = -1.0
    """When the rise began that the evidence speaks of; -1: there is none."""
    level: float = 0.0
    """The sum of badness beyond the least rise since then; not below 0."""
    reserve: float = 0.0
    """Days of capital that were put aside."""
    learning: Learning | None = None
    """None: the objective is known, or there is no room."""
    given: float | None = None
    """The objective that it was told; None: none, so that it learns one."""
    spike: float | None = None
    """While it learns: the mean that would be a spike even now; None: not known."""
    suspicion: Suspicion | None = None
    """Says when what was put aside comes in; None: nothing is put aside."""

    @classmethod
    def begin(
        cls, objective: float | None, threshold_days: float, max_reserve: float = 0.0
    ) -> Alarm:
        """Return one without evidence; without an objective it learns one."""
        suspicion = Suspicion() if max_reserve else None
        if objective is None:
            return cls(None, threshold_days, max_reserve, learning=Learning(), suspicion=suspicion)
        within = min(MAX_OBJECTIVE, max(MIN_OBJECTIVE, objective))
        return cls(within, threshold_days, max_reserve, given=objective, suspicion=suspicion)

    @property
    def evidence(self) -> float:
        """The days of evidence to raise it or, while it is active, the capital to clear it."""
        return sum(self.parts)

    @property
    def is_active(self) -> bool:
        """Whether it is raised."""
        return self.raised_at_s >= 0

    @property
    def bar(self) -> float | None:
        """The mean that the evidence is against; None: nothing can be said to be a rise yet."""
        return self.spike if self.objective is None else self.objective

    def step(self, at_s: float, cells: Cells, *, held: set[str] | None = None) -> Event | None:
        """Take in a bucket of bets, and return what it says.

        Args:
            at_s: Its end, in seconds since the epoch, by the store's clock.
            cells: Its bets by group, and what is expected of all its answers at `sums.ALL`.
            held: Groups with an open draw before this bucket, to which this one's are added; then
                nothing is learned. None: the bucket is closed, and what is open never came.
        """
        # The first bucket brings its own time: a service may begin with nothing but bad answers.
        passed_s = min(SILENT_S, max(0.0, at_s - self.at_s)) if self.at_s >= 0 else BET_S
        self.at_s = max(self.at_s, at_s)
        everybody = cells.get(ALL, _NOBODY)
        cells = {group: cell for group, cell in cells.items() if group != ALL}
        # By what is past: these verdicts must not move it.
        suspicion, bar = self.suspicion, self.bar
        if held is None and not self.is_active:
            self._learn(cells, at_s)
        if bar is None:
            for group, (weight, bad) in _bets(cells, held).items():
                self._enter(group, weight, bad, at_s)
            event: Event | None = None
        elif self.is_active:
            event = self._clear(at_s, passed_s, bar, _bets(cells, held, clears=True))
        else:
            value = suspicion.value if suspicion is not None and held is None and cells else 0.0
            event = self._raise(at_s, passed_s, bar, _bets(cells, held), value)
        if self.learning is not None and held is None and not self.is_active:
            self._end_learning(at_s)
        if suspicion is not None and held is None:
            bad = math.fsum(cell[BAD] for cell in cells.values())
            suspicion.step(at_s, everybody[RISK] + bad, everybody[RISKS])
        return event

    def _enter(self, group: str, weight: float, bad: float, at_s: float) -> tuple[float, float]:
        """Add verdicts to a group's session; return weight and bad weight that it had before."""
        first_s, total, hits = self._session(group, at_s)
        self.units[group] = (total + weight, hits + bad, first_s, at_s)
        return total, hits

    def _session(self, group: str, at_s: float) -> tuple[float, float, float]:
        """Return when a group's session began, its weight and its bad weight so far."""
        unit = self.units.get(group)
        if unit is None or at_s - unit[3] >= SILENT_S or at_s - unit[2] >= LONG_S:
            return at_s, 0.0, 0.0
        return unit[2], unit[0], unit[1]

    def _bet(self, sizes: Sequence[float], mean: float, sign: int, bets: Bets, at_s: float) -> None:
        """Bet that the mean is above (sign 1) or below (-1) `mean`."""
        worst = mean if sign > 0 else 1 - mean
        parts = self.parts
        for group, (weight, bad) in bets.items():
            total, hits = self._enter(group, weight, bad, at_s)
            before = sign * (hits - mean * total)
            after = before + sign * (bad - mean * weight)
            most = worst * (total + weight)
            if sizes[0] * most <= AT_RISK:
                parts = [
                    part * (1 + size * after) / (1 + size * before)
                    if size * most <= AT_RISK
                    else part
                    for part, size in zip(parts, sizes, strict=True)
                ]
        self.parts = parts

    # --- raising --------------------------------------------------------------------------------

    def _raise(
        self, at_s: float, passed_s: float, bar: float, bets: Bets, suspicion: float
    ) -> Event | None:
        """Bet that the mean is above the bar."""
        self._put_in(passed_s, suspicion)
        most = MAX_RISK / (bar * MAX_WEIGHT)
        sizes = [min((multiple - 1) / (1 - bar), most) for multiple in MULTIPLES]
        self._mark_beginning(at_s, passed_s, bar, bets)
        self._bet(sizes, bar, 1, bets, at_s)
        if self.evidence < self.threshold_days:
            return None
        if self.began_s < 0:  # not long ago, or it is too small a rise to be dated
            self.began_s = at_s
        self._turn(at_s, [0.5 / len(CLEARING)] * len(CLEARING))
        return "raised"

    def _put_in(self, passed_s: float, suspicion: float) -> None:
        """Put in what time brings, and what was put aside as far as something is suspicious.

        The guarantee needs no more than that what was put in by any moment is at most the time that
        passed, and that when it is put in rests on the past alone.
        """
        days = passed_s / DAY_S
        saved = max(0.0, min(SAVED * days, self.max_reserve - self.reserve))
        self.reserve += saved
        self._add(days - saved, TIME_ALONE * self.threshold_days)
        capital = min(self.reserve, self.reserve + (suspicion - 1) * self.max_reserve)
        if capital > 0:
            self.reserve -= self._add(capital, SUSPICION_ALONE * self.threshold_days)

    def _add(self, days: float, most: float) -> float:
        days = min(days, most - self.evidence)
        if days <= 0:
            return 0.0
        self.parts = [part + days * share for part, share in zip(self.parts, SHARES, strict=True)]
        return days

    def _mark_beginning(self, at_s: float, passed_s: float, bar: float, bets: Bets) -> None:
        """Move the beginning of the rise: where the sum beyond the least rise was lowest.

        Beyond the bar itself it would lie far back where the usual mean is near the bar.

        Source:
            Page, "Continuous inspection schemes" (1954), section 2.
        """
        least = min(MULTIPLES[0] * bar, (1 + bar) / 2)
        self.level += sum(bad - least * weight for weight, bad in bets.values())
        if self.level <= 0:
            self.level, self.began_s = 0.0, -1.0
        elif self.began_s < 0:
            self.began_s = at_s - min(passed_s, 10.0)

    # --- clearing -------------------------------------------------------------------------------

    def _clear(self, at_s: float, passed_s: float, bar: float, bets: Bets) -> Event | None:
        """Bet that the mean is back below 1.2 times the objective: wrong for one alarm in twenty.

        Half of the capital takes part from the beginning. The other half comes in as time passes,
        since it is not known when the mean came back.
        """
        age_s = at_s - self.raised_at_s
        entering = (_waiting(age_s - passed_s) - _waiting(age_s)) / len(CLEARING)
        level = min(CLEAR_ABOVE * bar, (1 + bar) / 2)
        sizes = [share * MAX_RISK / ((1 - level) * MAX_WEIGHT) for share in CLEARING]
        self.parts = [part + entering for part in self.parts]
        self._bet(sizes, level, -1, bets, at_s)
        if self.evidence < CLEARED_AT:
            return None
        self._turn(-1.0, [0.0] * len(MULTIPLES))
        self.began_s, self.level = -1.0, 0.0
        return "cleared"

    def _turn(self, raised_at_s: float, parts: list[float]) -> None:
        """Begin the other side: groups that were looked at bet no more until they were silent."""
        self.raised_at_s, self.parts = raised_at_s, parts
        self.units = {group: (SPENT, 0.0, *unit[2:]) for group, unit in self.units.items()}

    # --- learning -------------------------------------------------------------------------------

    def _learn(self, cells: Cells, at_s: float) -> None:
        """Learn from verdicts, and what would be a spike even now."""
        learning = self.learning
        if learning is None or not cells:
            return
        for group, (weight, bad, *_) in cells.items():
            _, before, _ = self._session(group, at_s)
            if weight > 0 and before < SPENT:
                learning.add(weight, bad, before, at_s)
        self.spike = learning.provisional(at_s)

    def _end_learning(self, at_s: float) -> None:
        learning = self.learning
        if learning is not None and learning.is_done(at_s):
            self.objective, self.learning, self.spike = learning.objective(), None, None
            # Evidence against the provisional bar is none against this one.
            self.parts = [0.0] * len(MULTIPLES)
            self.began_s, self.level = -1.0, 0.0

    def learned(self, at_s: float) -> float:
        """Return the share of what it takes to learn the objective; 1: it is known, or no room."""
        return 1.0 if self.learning is None else self.learning.share(at_s)

    # --- keeping --------------------------------------------------------------------------------

    def forget(self, at_s: float) -> None:
        """Drop groups whose time is over."""
        self.units = {
            group: unit
            for group, unit in self.units.items()
            if at_s - unit[3] < SILENT_S and at_s - unit[2] < LONG_S
        }

    def copy(self) -> Alarm:
        """Return one that goes its own way, as far as nothing is closed, with nothing put aside."""
        return replace(self, units=dict(self.units), reserve=0.0)

    def take_over(self, ahead: Alarm) -> None:
        """Go on from where a copy has come to, which has raised or cleared."""
        for name in ("parts", "units", "at_s", "raised_at_s", "began_s", "level"):
            setattr(self, name, getattr(ahead, name))


def _waiting(age_s: float) -> float:
    """Return the capital that has not come in yet: the longer it was bad, the longer it may be."""
    return 0.5 / (1 + math.log1p(max(0.0, age_s) / 3_600))


def _bets(cells: Cells, held: set[str] | None, *, clears: bool = False) -> Bets:
    """Return the bets of a bucket by group: what is on its way counts against them.

    Bets against a rise take it as fine, those against clearing as bad; so do they everything after
    an open draw of the same group. What failed is fine, or no bet against clearing at all.
    """
    bets = {}
    for group, (weight, bad, waiting, missed) in cells.items():
        is_held = held is not None and group in held
        if held is not None and waiting > _NOTHING:
            held.add(group)
        opened = 0.0 if clears and held is None else max(0.0, waiting)
        total = weight + opened + (0.0 if clears else missed)
        if total > _NOTHING:
            worst = total if clears else 0.0
            bets[group] = total, worst if is_held else bad + opened * clears
    return bets
