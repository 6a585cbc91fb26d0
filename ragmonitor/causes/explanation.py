"""Why a signal got worse: named parts of the traffic, or everywhere, and the mix of the traffic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from ragmonitor.causes.history import Event
from ragmonitor.records import Estimate
from ragmonitor.stats.interval import estimate
from ragmonitor.stats.sums import ANSWERS
from ragmonitor.store import Rows

PartKind = Literal["slice", "document", "version"]
MIN_RISE: Final = 0.005
"""A smaller change has no shares."""


class Shift(NamedTuple):
    """A change of the mix of the traffic."""

    dimension: str
    """The attribute that the traffic is divided by."""
    share: float
    """What of the rise goes with the mix; the rest goes with rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPart:
    """A part of the traffic that got worse than the others of the same time."""

    kind: PartKind
    name: str
    """For people, without texts of answers: `route=billing`, `handbook.md`, `version 1.1`."""
    now: Estimate | None = None
    """Mean of the signal over its answers since the rise began; None: not known of documents."""
    before: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of why a signal got worse."""

    parts: Sequence[NamedPart] = ()
    """The most evidence first."""
    is_everywhere: bool = False
    """A whole block of time was compared since the rise, and no part of it stands out."""
    shift: Shift | None = None
    """The change of the mix that explains most; None: it did not change."""
    events: Sequence[Event] = ()
    """That happened shortly before the rise; near in time, and no more."""


def largest_shift(signal: str, before: Rows, now: Rows) -> Shift | None:
    """Return the attribute by which the mix of the traffic explains most of a rise.

    None: nothing is known of the time before, or nothing rose.

    A rate is the sum of p_v r_v over the parts v of the traffic, so a rise is the sum of a rate
    part (p_v before + p_v now) / 2 (r_v now - r_v before) and a mix part
    (p_v now - p_v before) (r_v before + r_v now) / 2 over v.

    Source:
        Kitagawa (1955), "Components of a difference between two rates", JASA 50(272), equation (5).
    """
    if mean_of(before.get(signal)) is None or mean_of(now.get(signal)) is None:
        return None
    rises: defaultdict[str, float] = defaultdict(float)
    shifts: defaultdict[str, float] = defaultdict(float)
    for series in {*before, *now}:
        of, _, name = series.partition("|")
        if of != signal or not name:
            continue
        (p0, r0), (p1, r1) = _share_of(signal, series, before), _share_of(signal, series, now)
        # A part of which nothing was known before, or now, has the rate that it has.
        r0, r1 = r1 if r0 is None else r0, r0 if r1 is None else r1
        if r0 is not None and r1 is not None:
            dimension, shift = name.partition("=")[0], (p1 - p0) * (r0 + r1) / 2
            shifts[dimension] += shift
            rises[dimension] += shift + (p0 + p1) / 2 * (r1 - r0)
    found = [Shift(of, shifts[of] / rise) for of, rise in rises.items() if abs(rise) >= MIN_RISE]
    return max(found, key=lambda each: each.share, default=None)


def _share_of(signal: str, series: str, rows: Rows) -> tuple[float, float | None]:
    """Return a slice's share of the answers, and its mean; None: it is not known."""
    mean = mean_of(rows.get(series))
    if mean is None or rows[signal][ANSWERS] <= 0:
        return 0.0, None
    return rows[series][ANSWERS] / rows[signal][ANSWERS], mean.mean


def mean_of(row: Sequence[float] | None) -> Estimate | None:
    """Return the mean of a series; None: too little is known."""
    return None if row is None else estimate(row)
