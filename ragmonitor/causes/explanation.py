"""Why a signal got worse: named parts of the traffic, or everywhere, and the mix of the traffic."""

from __future__ import annotations

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


class Mix(NamedTuple):
    """A rise, split into what goes with rates and with the mix of the traffic; sums to 1."""

    by_rate: float
    by_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPart:
    """A part of the traffic that got worse than the others of the same time."""

    kind: PartKind
    name: str
    """For people, without texts of answers: `route=billing`, `handbook.md`, `version 1.1`."""
    now: Estimate | None = None
    """Mean of the signal over its answers since the rise began; None: not known of documents."""
    before: Estimate | None = None
    mix: Mix | None = None
    """What of the rise goes with its own rate, and with its larger share of the traffic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of why a signal got worse."""

    parts: Sequence[NamedPart] = ()
    """The most evidence first."""
    is_everywhere: bool = False
    """A whole block of time was compared since the rise, and no part of it stands out."""
    mix: tuple[str, Mix] | None = None
    """The attribute by which the mix of the traffic changed most; None: it did not."""
    events: Sequence[Event] = ()
    """That happened shortly before the rise; near in time, and no more."""


def split(signal: str, name: str, before: Rows, now: Rows) -> Mix | None:
    """Return what of a rise goes with one slice's own rate, and with its share; None: no rise."""
    was, is_now = _shared(signal, name, before), _shared(signal, name, now)
    if was is None or is_now is None:
        return None
    (p0, r0, rest0), (p1, r1, rest1) = was, is_now
    by_rate = (p0 + p1) / 2 * (r1 - r0)
    by_share = (p1 - p0) / 2 * (r0 + r1 - rest0 - rest1)
    rise = (p1 * r1 + (1 - p1) * rest1) - (p0 * r0 + (1 - p0) * rest0)
    return Mix(by_rate / rise, by_share / rise) if abs(rise) >= MIN_RISE else None


def largest_shift(signal: str, before: Rows, now: Rows) -> tuple[str, Mix] | None:
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
    dimensions: dict[str, list[tuple[float, float]]] = {}
    for series in {*before, *now}:
        of, _, name = series.partition("|")
        if of != signal or not name:
            continue
        p0, r0, _ = _shared(signal, name, before) or (0.0, None, None)
        p1, r1, _ = _shared(signal, name, now) or (0.0, None, None)
        # A part of which nothing was known before, or now, has the rate that it has.
        r0, r1 = r1 if r0 is None else r0, r0 if r1 is None else r1
        if r0 is not None and r1 is not None:
            parts = (p0 + p1) / 2 * (r1 - r0), (p1 - p0) * (r0 + r1) / 2
            dimensions.setdefault(name.partition("=")[0], []).append(parts)
    found = []
    for dimension, each in dimensions.items():
        by_rate, by_share = (sum(column) for column in zip(*each, strict=True))
        rise = by_rate + by_share
        if abs(rise) >= MIN_RISE:
            found.append((dimension, Mix(by_rate / rise, by_share / rise)))
    return max(found, key=lambda each: each[1].by_share, default=None)


def _shared(signal: str, name: str, rows: Rows) -> tuple[float, float, float] | None:
    """Return a slice's share of the answers, its mean, and that of the rest."""
    own, whole = rows.get(f"{signal}|{name}"), rows.get(signal)
    if own is None or whole is None or whole[ANSWERS] <= 0:
        return None
    mean, of_all = mean_of(own), mean_of(whole)
    if mean is None or of_all is None:
        return None
    share = own[ANSWERS] / whole[ANSWERS]
    rest = (of_all.mean - share * mean.mean) / (1 - share) if share < 1 else mean.mean
    return share, mean.mean, min(1.0, max(0.0, rest))


def mean_of(row: Sequence[float] | None) -> Estimate | None:
    """Return the mean of a series; None: too little is known."""
    return None if row is None else estimate(row)
