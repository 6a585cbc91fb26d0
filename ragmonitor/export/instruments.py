"""The counters, gauges and histograms of one process, and the values that their labels may take."""

from __future__ import annotations

import math
import threading
import time
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

from ragmonitor.runtime.printable import encodable
from ragmonitor.semconv.metrics import TABLE

OTHER = "other"
MAX_LABEL_VALUES = 50
MAX_LABEL_LENGTH = 120

_CONTROLS = ("Cc", "Zl", "Zp")


class Labels:
    """Keeps the values of each label readable and few: a series lives for as long as its process.

    Every value of every label passes here, wherever it comes from (see `Instruments`).
    """

    def __init__(self, max_values: int = MAX_LABEL_VALUES) -> None:
        self._max_values = max_values
        self._seen: defaultdict[str, set[str]] = defaultdict(set)

    def value(self, label: str, value: object) -> str:
        """Return the value, cleaned, or `other` if this label has had too many different ones.

        Args:
            label: Its name, or whatever else the bound is for.
            value: Usually text; of anything else its `str`.
        """
        seen = self._seen[label]
        if isinstance(value, str) and value in seen:  # only clean ones are there
            return value
        clean = cleaned(value)
        if clean in seen:
            return clean
        if len(seen) >= self._max_values:
            return OTHER
        seen.add(clean)
        return clean

    def part(self, dimension: object, group: object) -> tuple[str, str]:
        """Return the labels of a part of the traffic; each dimension has a bound of its own."""
        if not dimension:
            return "", ""
        clean = self.value("dimension", dimension)
        return clean, self.value(f"group of {clean}", group)


def cleaned(value: object) -> str:
    """Return text that fits into a label: of bounded length, encodable, without control characters.

    A lone surrogate fails the encoding of a whole scrape, and parsers differ on a zero byte.
    """
    text = encodable(value if isinstance(value, str) else str(value))[:MAX_LABEL_LENGTH]
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c) in _CONTROLS else c for c in text)


class Series:
    """One counter or gauge."""

    __slots__ = ("_lock", "value")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Count, from any thread."""
        with self._lock:
            self.value += amount

    def set(self, value: float) -> None:
        """Show a value."""
        self.value = float(value)


class Histogram:
    """One histogram or summary. Only one thread observes; any may read meanwhile."""

    __slots__ = ("_bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0.0] * (len(bounds) + 1)
        self.exemplars: dict[int, Exemplar] = {}
        """The newest of each bucket."""
        self.total = 0.0

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Take in one amount; what is no number is left out."""
        if math.isnan(amount):
            return
        place = bisect_left(self._bounds, amount)
        self.total += amount
        self.counts[place] += 1.0
        if exemplar:
            self.exemplars[place] = Exemplar(exemplar, amount, time.time())

    def buckets(self) -> list[Any]:
        """Return the bound of each bucket, how many amounts are up to it, and its exemplar."""
        bounds = map(floatToGoString, (*self._bounds, math.inf))
        return [
            (bound, count, self.exemplars.get(place))
            for place, (bound, count) in enumerate(
                zip(bounds, accumulate(self.counts), strict=True)
            )
        ]


class Instruments(Collector):
    """Every series of the table that is counted here, by name and labels."""

    def __init__(self, service: str, labels: Labels) -> None:
        """Begin at zero.

        Args:
            service: The first label's value in every series.
            labels: What every value of a label passes through.
        """
        self._service = service
        self._labels = labels
        self._lock = threading.Lock()
        self._series: dict[str, dict[tuple[str, ...], Any]] = {
            metric.name: {} for metric in TABLE.values() if not metric.derived
        }

    def counter(self, name: str, *labels: object) -> Series:
        """Return a counter's series with these labels, in the order of the table."""
        return self._found(name, labels)  # type: ignore[no-any-return]

    def gauge(self, name: str, *labels: object) -> Series:
        """Return a gauge's series."""
        return self._found(name, labels)  # type: ignore[no-any-return]

    def histogram(self, name: str, *labels: object) -> Histogram:
        """Return a histogram's series; a summary is observed alike, without exemplars."""
        return self._found(name, labels)  # type: ignore[no-any-return]

    def remove(self, name: str, *labels: object) -> None:
        """Forget a series, if it is there."""
        self._series[name].pop(self._values(name, labels), None)

    def collect(self) -> Iterator[Metric]:
        """Yield every family with its series."""
        for name, found in self._series.items():
            row = TABLE[name]
            labels = ("service", *row.labels)
            some = list(found.items())
            if row.kind == "histogram":
                histogram = HistogramMetricFamily(name, row.help, labels=labels)
                for values, each in some:
                    histogram.add_metric(values, each.buckets(), each.total)
                yield histogram
            elif row.kind == "summary":
                summary = SummaryMetricFamily(name, row.help, labels=labels)
                for values, each in some:
                    summary.add_metric(values, sum(each.counts), each.total)
                yield summary
            else:
                make = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
                family = make(name, row.help, labels=labels)
                for values, each in some:
                    family.add_metric(values, each.value)
                yield family

    def _found(self, name: str, labels: tuple[object, ...]) -> Any:
        of_name = self._series[name]
        series = of_name.get((self._service, *labels))  # type: ignore[arg-type]
        if series is not None:  # as nearly always
            return series
        values = self._values(name, labels)
        with self._lock:
            if values not in of_name:
                row = TABLE[name]
                is_number = row.kind in ("counter", "gauge")
                of_name[values] = Series(self._lock) if is_number else Histogram(row.buckets)
            return of_name[values]

    def _values(self, name: str, labels: Sequence[object]) -> tuple[str, ...]:
        names = ("service", *TABLE[name].labels)
        return tuple(
            self._labels.value(*each) for each in zip(names, (self._service, *labels), strict=True)
        )
