"""Shifts of the mix: more answers of a kind that was bad before, and none that got worse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ragmonitor.causes.decomposition import (
    PartSums,
    Periods,
    Share,
    mix_part,
    rise,
    share_of_rise,
)
from ragmonitor.causes.discoveries import FALSE_DISCOVERY_RATE
from ragmonitor.causes.slice_names import SHARED, Slice
from ragmonitor.estimation.interval import TAIL

MIN_SHARE: Final = 0.2
"""The least share of the rise that is worth a name."""


class Shift(NamedTuple):
    """The part of a rise that goes with the mix of one dimension."""

    value: Slice
    """The one whose share has moved the rate most."""
    share: Share
    """The share of the rise that goes with the mix of the dimension."""
    before: float
    """Share of the answers that had the value before, 0 to 1."""
    now: float
    is_discovery: bool

    @property
    def detail(self) -> str:
        """Say it in a sentence."""
        mix = f"{100 * self.share.value:.0f} %"
        return (
            f"The mix of {self.value[0]} explains {mix} of the rise, and rates within its "
            f"values {self._rest}; {self.value[1]} went from {100 * self.before:.1f} to "
            f"{100 * self.now:.1f} % of the answers."
        )

    @property
    def _rest(self) -> str:
        return f"{100 - round(100 * self.share.value)} %"

    @property
    def detail_zh(self) -> str:
        """Say it in Chinese."""
        return (
            f"{self.value[0]} 的构成解释上升的 {100 * self.share.value:.0f} %，"
            f"各取值之内的变化解释 {self._rest}；{self.value[1]} 占全部回答的比例从 "
            f"{100 * self.before:.1f} % 变为 {100 * self.now:.1f} %。"
        )


def shifts(everything: PartSums, parts: Mapping[Slice, PartSums]) -> Iterator[Shift]:
    """Yield the dimensions whose mix explains a fifth of the rise or more, largest share first.

    A shift is a discovery if the interval of its share, at an error of 0.1 over all dimensions
    (Bonferroni), lies above 0. That holds for one look, and not for many as with slices.

    Args:
        everything: All answers.
        parts: The answers of the largest slices.
    """
    dimensions: dict[str, dict[Slice, PartSums]] = {}
    for each, sums in parts.items():
        if each[0] not in SHARED:
            dimensions.setdefault(each[0], {})[each] = sums
    tail = min(TAIL, FALSE_DISCOVERY_RATE / 2 / max(1, len(dimensions)))
    found = []
    for values in dimensions.values():
        of_values = list(values.values())
        component = partial(mix_part, are_new=[each.is_new for each in of_values])
        share = share_of_rise(everything, of_values, component)
        if share is None or share.value < MIN_SHARE:
            continue
        sure = share_of_rise(everything, of_values, component, tail=tail)
        is_discovery = sure is not None and sure.lower is not None and sure.lower > 0
        found.append(_shift(everything.periods(), values, share, is_discovery))
    yield from sorted(found, key=lambda each: each.share.value, reverse=True)


def _shift(
    everything: Periods, values: Mapping[Slice, PartSums], share: Share, is_discovery: bool
) -> Shift:
    def shares(sums: PartSums) -> Sequence[float]:
        pairs = zip(sums.periods(), everything, strict=True)
        return [own.scored / of_all.scored for own, of_all in pairs]

    def moved(each: Slice) -> float:
        before, now = shares(values[each])
        rates = [period.rate for period in values[each].periods() if period.rate is not None]
        usual = (everything[0].rate or 0.0) + rise(everything) / 2
        return (now - before) * (sum(rates) / max(1, len(rates)) - usual)

    first = max(values, key=moved)
    before, now = shares(values[first])
    return Shift(first, share, before, now, is_discovery)
