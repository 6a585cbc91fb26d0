"""Histograms that one thread observes: without the locks of the library's, and a third the time."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

Bucket = tuple[str, float] | tuple[str, float, Exemplar]


class HistogramSeries:
    """One series. Only one thread observes; any may read meanwhile."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin without an observation; the last bound is infinite."""
        self._bounds = bounds
        self._counts = [0.0] * len(bounds)
        self._exemplars: dict[int, Exemplar] = {}
        """The newest of each bucket."""
        self._total = 0.0

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Take in one amount; what is no number is in the sum only."""
        self._total += amount
        if amount != amount:  # noqa: PLR0124 - only what is no number differs from itself
            return
        place = bisect_left(self._bounds, amount)
        self._counts[place] += 1.0
        if exemplar:
            self._exemplars[place] = Exemplar(exemplar, amount, time.time())

    @property
    def total(self) -> float:
        """The sum of all amounts."""
        return self._total

    def buckets(self) -> list[Bucket]:
        """Return the bound of each bucket, how many amounts are up to it, and its exemplar."""
        found: list[Bucket] = []
        for place, count in enumerate(accumulate(self._counts)):
            bound = floatToGoString(self._bounds[place])  # type: ignore[no-untyped-call]
            exemplar = self._exemplars.get(place)
            found.append((bound, count) if exemplar is None else (bound, count, exemplar))
        return found


class Histogram(Collector):
    """A histogram in this process's memory, with the methods of the library's that we use."""

    def __init__(
        self, name: str, documentation: str, labels: Sequence[str], buckets: Sequence[float]
    ) -> None:
        """Begin without a series.

        Args:
            name: The family's.
            documentation: Its help.
            labels: The names of its labels.
            buckets: Upper bounds, ascending.
        """
        self._family: Final = (name, documentation)
        self._labels = labels
        self._bounds = buckets if math.isinf(buckets[-1]) else (*buckets, math.inf)
        self._series: dict[tuple[str, ...], HistogramSeries] = {}

    def labels(self, *values: str) -> HistogramSeries:
        """Return the series with these labels."""
        if values not in self._series:
            self._series[values] = HistogramSeries(self._bounds)
        return self._series[values]

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the family with all series."""
        family = HistogramMetricFamily(*self._family, labels=self._labels)
        for values, series in list(self._series.items()):
            family.add_metric(values, series.buckets(), series.total)
        yield family
