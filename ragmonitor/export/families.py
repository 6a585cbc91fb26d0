"""From what was counted, in one process or several, to what is scraped. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragmonitor import conventions as names
from ragmonitor.guard import shielded
from ragmonitor.protocols import Summarise
from ragmonitor.records import GROUP_SUMS, GROUPS, SUMS, Estimate, Moments

LabelPairs = frozenset[tuple[str, str]]
"""The labels of one series."""

Exemplars = Mapping[tuple[LabelPairs, float], Exemplar]
"""The newest exemplar of each bucket of the score histogram, by labels and upper bound."""

HALLUCINATION = "hallucination"
REFUSAL = "refusal"

_WINDOWED = ("service", "evaluator", "judge", "window")
_RATED = ("service", "judge", "window")
_COUNTED = ("service", "window")
_COMPARED = ("service", "evaluator", "judge", "second_judge")
_HIDDEN = (names.MOMENTS, names.PAIRS)

GROUP_NAMES = tuple(f"group_{at}" for at in range(GROUP_SUMS * GROUPS))
"""Names of the sums of random groups, as the label `sum` has them."""
_GROUP_AT = {name: at for at, name in enumerate(GROUP_NAMES)}


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
        with shielded("metrics"):
            families += _final(family, exemplars=exemplars, summarise=summarise)
    families.append(_build(service, version))
    for family in families:
        with shielded("metrics"):
            _drop_unreadable(family)
    return families


def _final(family: Metric, *, exemplars: Exemplars, summarise: Summarise) -> list[Metric]:
    """Return what is scraped of a counted family."""
    if family.name == names.MOMENTS:
        return [*_windowed(family, summarise), _missing(family), _uncovered(family)]
    if family.name == names.PAIRS:
        return _agreement(family)
    if family.name == names.SCORE_HISTOGRAM:
        return [_with_exemplars(family, exemplars)]
    return [_without_created(family)]


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


def described(counted: Iterable[Metric]) -> list[Metric]:
    """Return every family that may ever be scraped, without samples."""
    families = [family for family in counted if family.name not in _HIDDEN]
    empty = Metric(names.MOMENTS, "", "gauge")
    families += [*_windowed(empty, lambda _: None), _missing(empty)]
    families += [*_agreement(empty), _uncovered(empty), _build("", "")]
    return families


_FIELDS = {
    "": ("mean", ""),
    "_lower": ("lower", "Lower end of the 95 % interval; what was not observed counts as 0."),
    "_upper": ("upper", "Upper end of the 95 % interval; what was not observed counts as 1."),
    "_effective_n": ("effective_n", "Answers, drawn at random and judged, that tell as much."),
}
"""By suffix: the field of an `Estimate`, and what it means."""
_COVERAGE = "_coverage_ratio"


class _Windowed:
    """A mean and what goes with it, as gauges."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], *suffixes: str, root: str = ""
    ) -> None:
        self.coverage = GaugeMetricFamily(
            f"{root or name}{_COVERAGE}",
            "Share of the window's answers that were observed; the mean is shown from half on.",
            labels=labels,
        )
        self.families = {
            suffix: GaugeMetricFamily(
                f"{root or name}{suffix}" if suffix else name,
                _FIELDS[suffix][1] or text,
                labels=labels,
            )
            for suffix in ("", *suffixes)
        }

    def add(
        self, labels: tuple[str, ...], coverage: float | None, estimate: Estimate | None
    ) -> None:
        """Show one series' coverage, and its mean if there is one."""
        if coverage is not None:
            self.coverage.add_metric(labels, coverage)
        if estimate is None:
            return
        for suffix, family in self.families.items():
            family.add_metric(labels, getattr(estimate, _FIELDS[suffix][0]))


def _windowed(family: Metric, summarise: Summarise) -> list[Metric]:
    interval = ("_lower", "_upper", "_effective_n")
    mean = _Windowed(
        names.SCORE_MEAN,
        "Mean score over the window, unbiased whatever was sampled.",
        _WINDOWED,
        *interval,
        root=names.SCORE_HISTOGRAM,
    )
    group = _Windowed(
        names.GROUP_HALLUCINATION_RATE,
        "Share of answers with an unsupported sentence, of a part of the traffic.",
        (*_RATED, "dimension", "group"),
        *interval,
    )
    rates = {
        HALLUCINATION: _Windowed(
            names.HALLUCINATION_RATE,
            "Share of answers with an unsupported sentence, of those that claim something.",
            _RATED,
            *interval,
        ),
        REFUSAL: _Windowed(
            names.REFUSAL_RATE, "Share of answers that decline to answer.", _RATED, *interval
        ),
    }
    inputs = {
        "empty_retrieval": _Windowed(
            names.EMPTY_RETRIEVAL_RATIO, "Share of answers without any chunk.", _COUNTED
        ),
        "weak_retrieval": _Windowed(
            names.WEAK_RETRIEVAL_RATIO,
            "Share of answers whose best chunk is weaker than nearly all of the reference's.",
            _COUNTED,
        ),
        "new_question": _Windowed(
            names.NEW_QUESTION_RATIO,
            "Share of questions that are unlike nearly all of the reference's.",
            _COUNTED,
        ),
    }
    efficiency = GaugeMetricFamily(
        names.SAMPLING_EFFICIENCY,
        "Judged answers needed for the interval, relative to a plain random sample.",
        labels=("service", "signal", "judge", "window"),
    )
    for (service, signal, judge, window, dimension, part), moments in _moments(family).items():
        estimate: Estimate | None = None
        with shielded("estimate"):
            estimate = summarise(moments)
        coverage = moments.coverage
        if dimension:
            group.add((service, judge, window, dimension, part), coverage, estimate)
            continue
        if signal in inputs:
            inputs[signal].add((service, window), coverage, estimate)
            continue
        if signal in rates:
            rates[signal].add((service, judge, window), coverage, estimate)
        else:
            mean.add((service, signal, judge, window), coverage, estimate)
        if estimate is not None:
            efficiency.add_metric((service, signal, judge, window), estimate.efficiency)
    covered = (mean, *rates.values(), group)
    return [
        *(each for kind in (*covered, *inputs.values()) for each in kind.families.values()),
        *(kind.coverage for kind in covered),
        efficiency,
    ]


def _moments(family: Metric) -> dict[tuple[str, str, str, str, str, str], Moments]:
    found: dict[tuple[str, str, str, str, str, str], Moments] = {}
    for sample in family.samples:
        own = sample.labels
        key = (
            own["service"],
            own["signal"],
            own["judge"],
            own["window"],
            own["dimension"],
            own["group"],
        )
        moments, name = found.setdefault(key, Moments()), own["sum"]
        at = _GROUP_AT.get(name)
        if name in SUMS:
            setattr(moments, name, sample.value)
        elif at is not None:  # else of a process of another version
            if not moments.groups:
                moments.groups = [0.0] * len(GROUP_NAMES)
            moments.groups[at] = sample.value
    return found


def _missing(family: Metric) -> Metric:
    """Return the share of drawn answers that gave no verdict."""
    ratio = GaugeMetricFamily(
        names.MISSING_RATIO,
        "Share of answers drawn within the last day that gave no verdict.",
        labels=("service", "judge"),
    )
    for (service, signal, judge, window, dimension, _), moments in _moments(family).items():
        if signal == REFUSAL and window == "24h" and not dimension and moments.drawn > 0:
            ratio.add_metric((service, judge), moments.missing / moments.drawn)
    return ratio


def _uncovered(family: Metric) -> Metric:
    """Return the share of answers that had no chance to be read, of each judge that draws."""
    ratio = GaugeMetricFamily(
        names.UNCOVERED_RATIO,
        "Share of the window's answers that had no chance to be read by the sampling judge.",
        labels=("service", "judge", "window"),
    )
    for (service, signal, judge, window, dimension, _), moments in _moments(family).items():
        answers = moments.answers + moments.uncovered
        if signal == HALLUCINATION and not dimension and answers > 0:
            ratio.add_metric((service, judge, window), moments.uncovered / answers)
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
