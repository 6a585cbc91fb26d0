"""The series of one process, and the values that their labels may take."""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample
from prometheus_client.utils import floatToGoString

from ragmonitor.runtime.guard import shielded
from ragmonitor.runtime.printable import printable
from ragmonitor.semconv import metrics

Values = tuple[str, ...]
"""The values of a series' labels, in the order of the table, the service first."""
State = tuple[str, tuple[object, ...], float]
"""A number of the current state: the name of its series, its labels but for the service, itself."""

OTHER = "other"
MAX_LABEL_VALUES = 100
MAX_LABEL_LENGTH = 120


def cleaned(value: object) -> str:
    """Return text that fits into a label: of bounded length, and without control characters.

    A lone surrogate fails the encoding of a whole scrape, and parsers differ on a zero byte.
    """
    return printable(str(value)[:MAX_LABEL_LENGTH])


@dataclass(slots=True)
class _Histogram:
    """One histogram. Only one thread observes; any may read meanwhile."""

    counts: list[float]
    total: float = 0.0
    exemplars: dict[int, Exemplar] = field(default_factory=dict)
    """The newest of each bucket."""


class Instruments(Collector):
    """Every series of the table, by name and labels: what is counted here, and the state of now."""

    def __init__(self, service: str) -> None:
        """Begin at zero; `service` is the first label's value in every series."""
        self._service = service
        self._seen: defaultdict[str, set[str]] = defaultdict(set)
        """The values of each label: a series lives for as long as its process."""
        self._lock = threading.Lock()
        self._numbers: dict[str, dict[Values, float]] = {name: {} for name in metrics.TABLE}
        self._histograms: dict[str, dict[Values, _Histogram]] = {name: {} for name in metrics.TABLE}
        self._totals: dict[tuple[str, tuple[object, ...]], float] = {}
        self._state: set[tuple[str, Values]] = set()

    def count(self, name: str, *labels: object, n: float = 1) -> None:
        """Count, from any thread."""
        numbers = self._numbers[name]
        values = self._values(name, labels, numbers)
        with self._lock:
            numbers[values] = numbers.get(values, 0.0) + n

    def set(self, value: float, name: str, *labels: object) -> None:
        """Show a value until it is removed."""
        numbers = self._numbers[name]
        numbers[self._values(name, labels, numbers)] = float(value)

    def remove(self, name: str, *labels: object) -> None:
        """Forget a series, if it is there."""
        numbers = self._numbers[name]
        numbers.pop(self._values(name, labels, numbers), None)

    def show(self, state: Iterable[Iterable[State]]) -> None:
        """Show the current state: gauges that are not in it any more go, counters are totals.

        Args:
            state: In groups; one that cannot be read does not take the others along.
        """
        shown: set[tuple[str, Values]] = set()
        for group in state:
            with shielded("metrics"):
                for name, labels, value in group:
                    if metrics.TABLE[name].kind == "counter":
                        known = self._totals.get((name, labels), 0.0)
                        self.count(name, *labels, n=max(0.0, value - known))
                        self._totals[name, labels] = max(value, known)
                    else:
                        self.set(value, name, *labels)
                        shown.add((name, self._values(name, labels, self._numbers[name])))
        for name, values in self._state - shown:
            self._numbers[name].pop(values, None)
        self._state = shown

    def observe(
        self, amount: float, name: str, *labels: object, exemplar: dict[str, str] | None = None
    ) -> None:
        """Take an amount into a histogram; what is no number is left out."""
        if math.isnan(amount):
            return
        histograms, bounds = self._histograms[name], metrics.TABLE[name].buckets
        values = self._values(name, labels, histograms)
        histogram = histograms.get(values)
        if histogram is None:
            histogram = histograms[values] = _Histogram([0.0] * (len(bounds) + 1))
        place = bisect_left(bounds, amount)
        histogram.total += amount
        histogram.counts[place] += 1.0
        if exemplar:
            histogram.exemplars[place] = Exemplar(exemplar, amount, time.time())

    def collect(self) -> Iterator[Metric]:
        """Yield every family with its samples."""
        for family in families():
            row = metrics.TABLE[family.name]
            names = ("service", *row.labels)
            for values, number in list(self._numbers[row.name].items()):
                labels = dict(zip(names, values, strict=True))
                family.samples.append(Sample(row.series, labels, number))
            for values, histogram in list(self._histograms[row.name].items()):
                labels = dict(zip(names, values, strict=True))
                counts = list(accumulate(histogram.counts))
                for n, bound in enumerate((*row.buckets, math.inf)):
                    end: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
                    limits = labels | {"le": end}
                    exemplar = histogram.exemplars.get(n)
                    family.add_sample(f"{row.name}_bucket", limits, counts[n], exemplar=exemplar)
                family.add_sample(f"{row.name}_count", labels, counts[-1])
                family.add_sample(f"{row.name}_sum", labels, histogram.total)
            yield family

    def _values(self, name: str, labels: Sequence[object], known: Container[Values]) -> Values:
        given: tuple[object, ...] = (self._service, *labels)
        if given in known:  # as nearly always
            return given  # type: ignore[return-value]
        names = ("service", *metrics.TABLE[name].labels)
        return tuple(self._label(*each) for each in zip(names, given, strict=True))

    def _label(self, name: str, value: object) -> str:
        """Return a label's value, cleaned, or `other` if it has had too many different ones."""
        seen, clean = self._seen[name], cleaned(value)
        if clean in seen:
            return clean
        if len(seen) >= MAX_LABEL_VALUES:
            return OTHER
        seen.add(clean)
        return clean


def families() -> Iterator[Metric]:
    """Yield every family that may ever be scraped, without samples."""
    for row in metrics.TABLE.values():
        yield Metric(row.name, row.help, row.kind)
