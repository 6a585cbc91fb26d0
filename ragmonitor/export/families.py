"""From what was counted, in one process or several, to what is scraped. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragmonitor import metrics
from ragmonitor.guard import shielded
from ragmonitor.protocols import Summarise
from ragmonitor.records import Estimate, Moments

LabelPairs = frozenset[tuple[str, str]]
"""The labels of one series."""

Key = tuple[str, ...]


@dataclass(slots=True)
class ScrapeSums:
    """The sums beside a process's counters, from which a scrape derives means."""

    means: dict[Key, Moments] = field(default_factory=dict)
    """The sums by service, signal, judge, window, dimension and group."""
    exemplars: dict[tuple[LabelPairs, float], Exemplar] = field(default_factory=dict)
    """The newest of each bucket of the score histogram, by labels and upper bound."""

    def add(self, other: ScrapeSums) -> None:
        """Add those of another process."""
        for key, moments in other.means.items():
            self.means[key] = self.means.get(key, Moments()) + moments
        for bucket, exemplar in other.exemplars.items():
            older = self.exemplars.get(bucket, exemplar)
            self.exemplars[bucket] = max(older, exemplar, key=lambda each: each.timestamp or 0.0)


NO_PAIRS = (0.0, 0.0, 0.0)

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
    sums: ScrapeSums,
    *,
    summarise: Summarise,
    service: str,
    version: str,
) -> list[Metric]:
    """Return the families to scrape.

    Args:
        counted: Summed over the processes.
        sums: Likewise; exemplars are put on the score histogram where it has none.
        summarise: From a window's sums to its mean and interval.
        service: Of this process.
        version: Of this package.
    """
    families: list[Metric] = []
    for family in counted:
        with shielded("metrics"):
            families.append(_final(family, sums))
    with shielded("metrics"):
        families += _means(sums, summarise)
    families.append(_build(service, version))
    for family in families:
        with shielded("metrics"):
            _drop_unreadable(family)
    return families


def described() -> list[Metric]:
    """Return every family that may ever be scraped, without samples."""
    return [Metric(each.name, each.help, each.kind) for each in metrics.TABLE.values()]


def _final(family: Metric, sums: ScrapeSums) -> Metric:
    """Return what is scraped of a counted family."""
    # Creation times would be a second series for each, and are missing with several processes.
    family.samples = [s for s in family.samples if s.name != f"{family.name}_created"]
    if family.name == metrics.SCORE_HISTOGRAM:
        family.samples = [_with_exemplar(sample, sums) for sample in family.samples]
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


def _means(sums: ScrapeSums, summarise: Summarise) -> list[Metric]:
    """Return every gauge that follows from a window's sums."""
    score = _Windowed(metrics.SCORE_MEAN, root=metrics.SCORE_HISTOGRAM)
    group = _Windowed(metrics.GROUP_HALLUCINATION_RATE)
    rates = {signal: _Windowed(name) for signal, name in _RATES.items()}
    inputs = {signal: _Windowed(name) for signal, name in _INPUTS.items()}
    efficiency = _gauge(metrics.SAMPLING_EFFICIENCY)
    missing, uncovered = _gauge(metrics.MISSING_RATIO), _gauge(metrics.UNCOVERED_RATIO)
    for (service, signal, judge, window, dimension, part), moments in sums.means.items():
        estimate: Estimate | None = None
        with shielded("estimate"):
            estimate = summarise(moments)
        by_judge = (service, judge, window)
        if dimension:
            group.add((*by_judge, dimension, part), moments.coverage, estimate)
            continue
        if signal in inputs:
            inputs[signal].add((service, window), moments.coverage, estimate)
            continue
        if signal in rates:
            rates[signal].add(by_judge, moments.coverage, estimate)
        else:
            score.add((service, signal, judge, window), moments.coverage, estimate)
        if estimate is not None:
            efficiency.add_metric((service, signal, judge, window), estimate.efficiency)
        answers = moments.answers + moments.uncovered
        if signal == HALLUCINATION and answers > 0:
            uncovered.add_metric(by_judge, moments.uncovered / answers)
        if signal == REFUSAL and window == "24h" and moments.drawn > 0:
            missing.add_metric((service, judge), moments.missing / moments.drawn)
    windowed = (score, *rates.values(), group, *inputs.values())
    return [
        *(gauge for each in windowed for gauge in each.families.values()),
        efficiency,
        missing,
        uncovered,
    ]


def _with_exemplar(sample: Sample, sums: ScrapeSums) -> Sample:
    if sample.exemplar is not None or "le" not in sample.labels:
        return sample
    series = frozenset(pair for pair in sample.labels.items() if pair[0] != "le")
    return sample._replace(exemplar=sums.exemplars.get((series, float(sample.labels["le"]))))


def _build(service: str, version: str) -> Metric:
    row = metrics.TABLE[metrics.BUILD_INFO]
    build = InfoMetricFamily(row.name, row.help, labels=("service",))
    build.add_metric((service,), {"version": version})
    return build
