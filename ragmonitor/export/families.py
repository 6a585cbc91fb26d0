"""From what was counted to what is scraped. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from ragmonitor.records import Estimate, WindowedMean
from ragmonitor.runtime.guard import shielded
from ragmonitor.semconv import metrics

Means = Mapping[tuple[str, ...], WindowedMean]
"""Means by service, signal, judge, window, dimension and group, as labels have them."""

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
    means: Means,
    *,
    service: str,
    version: str,
) -> list[Metric]:
    """Return the families to scrape.

    Args:
        counted: By the instruments.
        means: Of the windows.
        service: Of this process.
        version: Of this package.
    """
    families: list[Metric] = list(counted)
    with shielded("metrics"):
        families += _means(means)
    families.append(_build(service, version))
    return families


def described() -> list[Metric]:
    """Return every family that may ever be scraped, without samples."""
    return [Metric(each.name, each.help, each.kind) for each in metrics.TABLE.values()]


def _gauge(name: str) -> GaugeMetricFamily:
    row = metrics.TABLE[name]
    return GaugeMetricFamily(row.name, row.help, labels=("service", *row.labels))


class _Windowed:
    """A mean over a window, and its interval, as gauges."""

    def __init__(self, name: str, root: str = "") -> None:
        root = root or name
        series = {"mean": name, "lower": f"{root}_lower", "upper": f"{root}_upper"}
        self.families = {
            field: _gauge(name) for field, name in series.items() if name in metrics.TABLE
        }
        """The families by the field of an `Estimate`."""

    def add(self, labels: tuple[str, ...], estimate: Estimate | None) -> None:
        """Show one series, if there is a mean."""
        if estimate is not None:
            for name, family in self.families.items():
                family.add_metric(labels, getattr(estimate, name))


def _means(means: Means) -> list[Metric]:
    """Return the gauges of means."""
    score = _Windowed(metrics.SCORE_MEAN, root=metrics.SCORE_HISTOGRAM)
    group, bounds = (
        _gauge(metrics.GROUP_HALLUCINATION_RATE),
        _gauge(metrics.GROUP_HALLUCINATION_BOUND),
    )
    rates = {signal: _Windowed(name) for signal, name in _RATES.items()}
    inputs = {signal: _Windowed(name) for signal, name in _INPUTS.items()}
    missing, uncovered = _gauge(metrics.MISSING_RATIO), _gauge(metrics.UNCOVERED_RATIO)
    for (service, signal, judge, window, dimension, part), mean in means.items():
        estimate = mean.estimate
        by_judge = (service, judge, window)
        if dimension:
            if estimate is not None:
                labels = (*by_judge, dimension, part)
                group.add_metric(labels, estimate.mean)
                bounds.add_metric((*labels, "lower"), estimate.lower)
                bounds.add_metric((*labels, "upper"), estimate.upper)
            continue
        if signal in inputs:
            inputs[signal].add((service, window), estimate)
            continue
        if signal in rates:
            rates[signal].add(by_judge, estimate)
        else:
            score.add((service, signal, judge, window), estimate)
        if signal == HALLUCINATION:
            uncovered.add_metric(by_judge, mean.uncovered)
        if signal == REFUSAL and window == "24h":
            missing.add_metric((service, judge), mean.missing)
    windowed = (score, *rates.values(), *inputs.values())
    return [
        *(gauge for each in windowed for gauge in each.families.values()),
        group,
        bounds,
        missing,
        uncovered,
    ]


def _build(service: str, version: str) -> Metric:
    row = metrics.TABLE[metrics.BUILD_INFO]
    build = InfoMetricFamily(row.name, row.help, labels=("service",))
    build.add_metric((service,), {"version": version})
    return build
