"""From what was counted to what is scraped. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from ragmonitor import metrics
from ragmonitor.guard import shielded
from ragmonitor.records import Estimate, WindowedMean

Means = Mapping[tuple[str, ...], WindowedMean]
"""Means by service, signal, judge, window, dimension and group, as labels have them."""

HALLUCINATION = "hallucination"
REFUSAL = "refusal"
_RATES = {
    HALLUCINATION: metrics.HALLUCINATION_RATE,
    REFUSAL: metrics.REFUSAL_RATE,
    "minor_hallucination": metrics.MINOR_HALLUCINATION_RATE,
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
        counted: Summed over the processes.
        means: Of the windows.
        service: Of this process.
        version: Of this package.
    """
    families: list[Metric] = []
    for family in counted:
        with shielded("metrics"):
            families.append(_final(family))
    with shielded("metrics"):
        families += _means(means)
    families.append(_build(service, version))
    for family in families:
        with shielded("metrics"):
            _drop_unreadable(family)
    return families


def described() -> list[Metric]:
    """Return every family that may ever be scraped, without samples."""
    return [Metric(each.name, each.help, each.kind) for each in metrics.TABLE.values()]


def _final(family: Metric) -> Metric:
    """Return what is scraped of a counted family: without creation times, a second series each."""
    family.samples = [s for s in family.samples if s.name != f"{family.name}_created"]
    return family


def _drop_unreadable(family: Metric) -> None:
    """Drop samples that would fail the whole scrape: the value no number, a label no text.

    Raises:
        ValueError: There were any; the others stay.
    """
    readable = [sample for sample in family.samples if _is_readable(sample)]
    dropped = len(family.samples) - len(readable)
    if dropped:
        family.samples = readable
        raise ValueError(f"{family.name}: {dropped} series cannot be written and are left out")


def _is_readable(sample: Sample) -> bool:
    if not isinstance(sample.value, int | float):
        return False
    try:
        for value in sample.labels.values():
            if not value.isascii():
                value.encode()
    except (AttributeError, UnicodeEncodeError):
        return False
    return True


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
            "coverage": f"{root}_coverage_ratio",
        }
        self.families = {
            field: _gauge(name) for field, name in series.items() if name in metrics.TABLE
        }
        """The families by the field of an `Estimate`."""

    def add(
        self, labels: tuple[str, ...], coverage: float | None, estimate: Estimate | None
    ) -> None:
        """Show one series' coverage, and its mean if there is one."""
        for name, family in self.families.items():
            if name == "coverage":
                if coverage is not None:
                    family.add_metric(labels, coverage)
            elif estimate is not None:
                family.add_metric(labels, getattr(estimate, name))


def _means(means: Means) -> list[Metric]:
    """Return the gauges of means."""
    score = _Windowed(metrics.SCORE_MEAN, root=metrics.SCORE_HISTOGRAM)
    group = _Windowed(metrics.GROUP_HALLUCINATION_RATE)
    rates = {signal: _Windowed(name) for signal, name in _RATES.items()}
    inputs = {signal: _Windowed(name) for signal, name in _INPUTS.items()}
    efficiency = _gauge(metrics.SAMPLING_EFFICIENCY)
    missing, uncovered = _gauge(metrics.MISSING_RATIO), _gauge(metrics.UNCOVERED_RATIO)
    for (service, signal, judge, window, dimension, part), mean in means.items():
        estimate = mean.estimate
        by_judge = (service, judge, window)
        if dimension:
            group.add((*by_judge, dimension, part), mean.coverage, estimate)
            continue
        if signal in inputs:
            inputs[signal].add((service, window), mean.coverage, estimate)
            continue
        if signal in rates:
            rates[signal].add(by_judge, mean.coverage, estimate)
        else:
            score.add((service, signal, judge, window), mean.coverage, estimate)
        if estimate is not None:
            efficiency.add_metric((service, signal, judge, window), estimate.efficiency)
        if signal == HALLUCINATION:
            uncovered.add_metric(by_judge, mean.uncovered)
        if signal == REFUSAL and window == "24h":
            missing.add_metric((service, judge), mean.missing)
    windowed = (score, *rates.values(), group, *inputs.values())
    return [
        *(gauge for each in windowed for gauge in each.families.values()),
        efficiency,
        missing,
        uncovered,
    ]


def _build(service: str, version: str) -> Metric:
    row = metrics.TABLE[metrics.BUILD_INFO]
    build = InfoMetricFamily(row.name, row.help, labels=("service",))
    build.add_metric((service,), {"version": version})
    return build
