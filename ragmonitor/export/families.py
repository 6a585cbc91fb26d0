"""From what was counted to what is scraped. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from ragmonitor import metrics
from ragmonitor.guard import shielded
from ragmonitor.protocols import Summarise
from ragmonitor.records import Estimate, Moments

Key = tuple[str, ...]


@dataclass(slots=True)
class ScrapeSums:
    """The sums beside a process's counters, from which a scrape derives means."""

    means: dict[Key, Moments] = field(default_factory=dict)
    """The sums by service, signal, judge, window, dimension and group."""


HALLUCINATION = "hallucination"
REFUSAL = "refusal"
_RATES = {
    HALLUCINATION: metrics.HALLUCINATION_RATE,
    REFUSAL: metrics.REFUSAL_RATE,
}
_INPUTS = {
    "empty_retrieval": metrics.EMPTY_RETRIEVAL_RATIO,
    "weak_retrieval": metrics.WEAK_RETRIEVAL_RATIO,
}
"""The series of the mean of each signal."""


def final_families(
    counted: Iterable[Metric],
    sums: ScrapeSums,
    *,
    summarise: Summarise,
    service: str,
    version: str,
) -> list[Metric]:
    """Return the families to scrape.

    Args:
        counted: By the instruments.
        sums: Of the windows.
        summarise: From a window's sums to its mean and interval.
        service: Of this process.
        version: Of this package.
    """
    families: list[Metric] = list(counted)
    with shielded("metrics"):
        families += _means(sums, summarise)
    families.append(_build(service, version))
    return families


def described() -> list[Metric]:
    """Return every family that may ever be scraped, without samples."""
    return [Metric(each.name, each.help, each.kind) for each in metrics.TABLE.values()]


def _gauge(name: str) -> GaugeMetricFamily:
    row = metrics.TABLE[name]
    return GaugeMetricFamily(row.name, row.help, labels=("service", *row.labels))


class _Windowed:
    """A mean over a window, and what goes with it, as gauges."""

    def __init__(self, name: str, root: str = "") -> None:
        root = root or name
        series = {
            "mean": name,
            "lower": f"{root}_lower",
            "upper": f"{root}_upper",
            "effective_n": f"{root}_effective_n",
        }
        self.families = {
            field: _gauge(name) for field, name in series.items() if name in metrics.TABLE
        }
        """The families by the field of an `Estimate`."""

    def add(self, labels: tuple[str, ...], estimate: Estimate | None) -> None:
        """Show one series, if there is a mean."""
        if estimate is not None:
            for name, family in self.families.items():
                family.add_metric(labels, getattr(estimate, name))


def _means(sums: ScrapeSums, summarise: Summarise) -> list[Metric]:
    """Return every gauge that follows from a window's sums."""
    score = _Windowed(metrics.SCORE_MEAN, root=metrics.SCORE_HISTOGRAM)
    group = _Windowed(metrics.GROUP_HALLUCINATION_RATE)
    rates = {signal: _Windowed(name) for signal, name in _RATES.items()}
    inputs = {signal: _Windowed(name) for signal, name in _INPUTS.items()}
    missing, uncovered = _gauge(metrics.MISSING_RATIO), _gauge(metrics.UNCOVERED_RATIO)
    for (service, signal, judge, window, dimension, part), moments in sums.means.items():
        estimate: Estimate | None = None
        with shielded("estimate"):
            estimate = summarise(moments)
        by_judge = (service, judge, window)
        if dimension:
            group.add((*by_judge, dimension, part), estimate)
            continue
        if signal in inputs:
            inputs[signal].add((service, window), estimate)
            continue
        if signal in rates:
            rates[signal].add(by_judge, estimate)
        else:
            score.add((service, signal, judge, window), estimate)
        answers = moments.answers + moments.uncovered
        if signal == HALLUCINATION and answers > 0:
            uncovered.add_metric(by_judge, moments.uncovered / answers)
        if signal == REFUSAL and window == "24h" and moments.drawn > 0:
            missing.add_metric((service, judge), moments.missing / moments.drawn)
    windowed = (score, *rates.values(), group, *inputs.values())
    return [
        *(gauge for each in windowed for gauge in each.families.values()),
        missing,
        uncovered,
    ]


def _build(service: str, version: str) -> Metric:
    row = metrics.TABLE[metrics.BUILD_INFO]
    build = InfoMetricFamily(row.name, row.help, labels=("service",))
    build.add_metric((service,), {"version": version})
    return build
