"""From what was counted, in one process or several, to what is scraped. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragmonitor import conventions as names
from ragmonitor.guard import shielded
from ragmonitor.protocols import Summarise
from ragmonitor.records import Estimate, Moments

LabelPairs = frozenset[tuple[str, str]]
"""The labels of one series."""

Exemplars = Mapping[tuple[LabelPairs, float], Exemplar]
"""The newest exemplar of each bucket of the score histogram, by labels and upper bound."""

HALLUCINATION = "hallucination"
REFUSAL = "refusal"

_WINDOWED = ("service", "evaluator", "judge", "window")
_RATED = ("service", "judge", "window")
_COMPARED = ("service", "evaluator", "judge", "second_judge")
_HIDDEN = (names.MOMENTS, names.COVERAGE, names.PAIRS)


def final_families(
    counted: Iterable[Metric],
    *,
    exemplars: Exemplars,
    summarise: Summarise,
    service: str,
    version: str,
) -> list[Metric]:
    """Return the families to scrape.

    Args:
        counted: Summed over the processes; sums that only serve to derive others are among them.
        exemplars: To be put on the score histogram where it has none.
        summarise: From a window's sums to its mean and interval.
        service: Of this process.
        version: Of this package.
    """
    families: list[Metric] = []
    for family in counted:
        if family.name == names.MOMENTS:
            families += _windowed(family, summarise)
        elif family.name == names.COVERAGE:
            families.append(_uncovered(family))
        elif family.name == names.PAIRS:
            families += _agreement(family)
        elif family.name == names.SCORE_HISTOGRAM:
            families.append(_with_exemplars(family, exemplars))
        else:
            families.append(_without_created(family))
    families.append(_build(service, version))
    return families


def described(counted: Iterable[Metric]) -> list[Metric]:
    """Return every family that may ever be scraped, without samples."""
    families = [family for family in counted if family.name not in _HIDDEN]
    empty = Metric(names.MOMENTS, "", "gauge")
    families += _windowed(empty, lambda _: None)
    families += [*_agreement(empty), _uncovered(empty), _build("", "")]
    return families


def _windowed(family: Metric, summarise: Summarise) -> list[Metric]:
    mean, lower, upper, effective_n = (
        GaugeMetricFamily(name, text, labels=_WINDOWED)
        for name, text in (
            (names.SCORE_MEAN, "Mean score over the window, weighted by 1 / chance to be read."),
            (names.SCORE_LOWER, "Lower end of the mean's 95 % interval."),
            (names.SCORE_UPPER, "Upper end of the mean's 95 % interval."),
            (names.SCORE_EFFECTIVE_N, "Equally weighted answers that would tell as much."),
        )
    )
    rate, rate_lower, rate_upper, refusals = (
        GaugeMetricFamily(name, text, labels=_RATED)
        for name, text in (
            (names.HALLUCINATION_RATE, "Share of answers with an unsupported sentence."),
            (names.HALLUCINATION_RATE_LOWER, "Lower end of the share's 95 % interval."),
            (names.HALLUCINATION_RATE_UPPER, "Upper end of the share's 95 % interval."),
            (names.REFUSAL_RATE, "Share of answers that decline to answer."),
        )
    )
    for (service, signal, judge, window), moments in _moments(family).items():
        estimate: Estimate | None = None
        with shielded("estimate"):
            estimate = summarise(moments)
        if estimate is None:
            continue
        if signal == HALLUCINATION:
            labels = (service, judge, window)
            rate.add_metric(labels, estimate.mean)
            rate_lower.add_metric(labels, estimate.lower)
            rate_upper.add_metric(labels, estimate.upper)
        elif signal == REFUSAL:
            refusals.add_metric((service, judge, window), estimate.mean)
        else:
            keys = (service, signal, judge, window)
            mean.add_metric(keys, estimate.mean)
            lower.add_metric(keys, estimate.lower)
            upper.add_metric(keys, estimate.upper)
            effective_n.add_metric(keys, estimate.effective_n)
    return [mean, lower, upper, effective_n, rate, rate_lower, rate_upper, refusals]


def _moments(family: Metric) -> dict[tuple[str, str, str, str], Moments]:
    found: dict[tuple[str, str, str, str], Moments] = {}
    for sample in family.samples:
        labels = sample.labels
        key = (labels["service"], labels["signal"], labels["judge"], labels["window"])
        found[key] = replace(found.get(key, Moments()), **{labels["sum"]: sample.value})
    return found


def _uncovered(family: Metric) -> Metric:
    ratio = GaugeMetricFamily(
        names.UNCOVERED_RATIO,
        "Share of recent answers that had no chance to be read by the sampling judge.",
        labels=("service", "judge"),
    )
    counts: dict[tuple[str, str], dict[str, float]] = {}
    for sample in family.samples:
        key = (sample.labels["service"], sample.labels["judge"])
        counts.setdefault(key, {})[sample.labels["count"]] = sample.value
    for key, count in counts.items():
        answers = count.get("answers", 0.0)
        if answers > 0:
            ratio.add_metric(key, count.get("uncovered", 0.0) / answers)
    return ratio


def _agreement(family: Metric) -> list[Metric]:
    """Return what two judges' scores of the same answers have in common."""
    agreement, difference = (
        GaugeMetricFamily(name, text, labels=_COMPARED)
        for name, text in (
            (names.JUDGE_AGREEMENT, "Share of answers read by two judges that both score alike."),
            (names.JUDGE_DIFFERENCE, "Mean absolute difference of two judges' scores."),
        )
    )
    sums: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for sample in family.samples:
        labels = sample.labels
        key = (labels["service"], labels["evaluator"], labels["judge"], labels["second_judge"])
        sums.setdefault(key, {})[labels["sum"]] = sample.value
    for key, total in sums.items():
        weight = total.get("weight", 0.0)
        if weight > 0:
            agreement.add_metric(key, total.get("equal", 0.0) / weight)
            difference.add_metric(key, total.get("difference", 0.0) / weight)
    return [agreement, difference]


def _with_exemplars(family: Metric, exemplars: Exemplars) -> Metric:
    family = _without_created(family)
    samples: list[Sample] = []
    for sample in family.samples:
        if sample.exemplar is None and "le" in sample.labels:
            bound = float(sample.labels["le"])
            series = frozenset(pair for pair in sample.labels.items() if pair[0] != "le")
            samples.append(sample._replace(exemplar=exemplars.get((series, bound))))
        else:
            samples.append(sample)
    family.samples = samples
    return family


def _without_created(family: Metric) -> Metric:
    """Leave out the creation times: a second series for each, and missing with processes anyway."""
    family.samples = [s for s in family.samples if s.name != f"{family.name}_created"]
    return family


def _build(service: str, version: str) -> Metric:
    build = InfoMetricFamily(names.BUILD_INFO, "The monitoring package.", labels=("service",))
    build.add_metric((service,), {"version": version})
    return build
