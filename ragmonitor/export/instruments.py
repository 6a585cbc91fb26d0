"""The counters, gauges and histograms of one process, and the values that their labels may take."""

from __future__ import annotations

import contextlib
import importlib.util
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, metrics, values

from ragmonitor.export.content import encodable
from ragmonitor.export.histograms import Histogram, HistogramSeries
from ragmonitor.metrics import TABLE, Metric

OTHER = "other"
MAX_LABEL_VALUES = 50
MAX_LABEL_LENGTH = 120
MAX_KNOWN = 5_000

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


@cache
def _in_memory() -> Any:
    """Return the library's metrics, with values in this process's memory whatever it was told.

    With `PROMETHEUS_MULTIPROC_DIR` every value of the library is in a file. So this is a second
    copy of its module, for us alone; the application's own metrics stay where they are.
    """
    if not getattr(values.ValueClass, "_multiprocess", False):
        return metrics
    spec = importlib.util.find_spec(metrics.__name__)
    if spec is None or spec.loader is None:
        return metrics
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    vars(copy)["values"] = SimpleNamespace(ValueClass=values.MutexValue)
    # It would warn, on standard error, of what holds for files only.
    vars(copy)["warnings"] = SimpleNamespace(warn=lambda *_, **__: None)
    return copy


class Instruments:
    """Every instrument of the table, on a registry of its own that nobody scrapes."""

    def __init__(self, service: str, labels: Labels) -> None:
        """Begin at zero.

        Args:
            service: The first label's value in every series.
            labels: What every value of a label passes through.
        """
        kinds = _in_memory()
        self.registry = CollectorRegistry()
        self._service = service
        self._labels = labels
        self._known: dict[tuple[str, tuple[object, ...]], Any] = {}
        """Series by name and labels: most are counted again and again."""
        self._absent: set[tuple[str, tuple[object, ...]]] = set()
        """Series that are not there: most of those that are removed were removed before."""
        self._instruments = {
            metric.name: _instrument(kinds, metric, self.registry)
            for metric in TABLE.values()
            if not metric.derived
        }

    def counter(self, name: str, *labels: object) -> Counter:
        """Return a counter's series with these labels, in the order of the table."""
        return self._known.get((name, labels)) or self._series(name, labels)  # type: ignore[no-any-return]

    def gauge(self, name: str, *labels: object) -> Gauge:
        """Return a gauge's series."""
        return self._known.get((name, labels)) or self._series(name, labels)  # type: ignore[no-any-return]

    def histogram(self, name: str, *labels: object) -> HistogramSeries:
        """Return a histogram's series; a summary is observed alike, without exemplars."""
        return self._known.get((name, labels)) or self._series(name, labels)  # type: ignore[no-any-return]

    def remove(self, name: str, *labels: object) -> None:
        """Forget a series, if it is there."""
        if (name, labels) in self._absent:
            return
        values = self._values(name, labels)
        with contextlib.suppress(KeyError):  # older releases of the library
            self._instruments[name].remove(*values)
        clean = name, (*values[1:],)
        self._known.pop(clean, None)
        if len(self._absent) < MAX_KNOWN:
            self._absent.add(clean)

    def _series(self, name: str, labels: tuple[object, ...]) -> Any:
        values = self._values(name, labels)
        series = self._instruments[name].labels(*values)
        self._absent.discard((name, (*values[1:],)))
        # Of what was cleaned nothing is kept: those are too many, or too long.
        if len(self._known) < MAX_KNOWN and values[1:] == [*labels]:
            self._known[name, labels] = series
        return series

    def _values(self, name: str, labels: Sequence[object]) -> list[str]:
        names = ("service", *TABLE[name].labels)
        values = (self._service, *labels)
        return [self._labels.value(*each) for each in zip(names, values, strict=True)]


def _instrument(kinds: Any, metric: Metric, registry: CollectorRegistry) -> Any:
    labels = ("service", *metric.labels)
    if metric.kind == "histogram":
        histogram = Histogram(metric.name, metric.help, labels, metric.buckets)
        registry.register(histogram)
        return histogram
    make = getattr(kinds, metric.kind.capitalize())
    return make(metric.name, metric.help, labels, registry=registry)
