"""What the series of a running monitor say, service by service: figures, and what follows of them.

Everything is read off one scrape, so that it works on any process that can be reached, and on a
text that was saved.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from prometheus_client.parser import text_string_to_metric_families

from ragmonitor import metrics as names
from ragmonitor.errors import InputError
from ragmonitor.estimation.alarms import BUILTIN
from ragmonitor.estimation.planning import (
    Watched,
    delay_hours,
    design_effect,
    half_width,
    judged_in,
    share_of,
)
from ragmonitor.estimation.signals import (
    EMPTY_RETRIEVAL,
    HALLUCINATION,
    NEW_QUESTION,
    NO_JUDGE,
    NO_VERDICT,
    REFUSAL,
    WEAK_RETRIEVAL,
)
from ragmonitor.estimation.streams import STAKE_MOST
from ragmonitor.records import Cause
from ragmonitor.sampling.budget import DAY_BURST_SHARE, DAY_S, HOUR_BURST_SHARE, HOUR_S, Bucket

WINDOWS: Final = {"1h": 1.0, "24h": 24.0}
"""Label and hours."""
FACTORS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
WORSE: Final = (2.0, 4.0)
"""Times what is tolerated: the jumps of which the outlook says how long an alarm would take."""
_SLACK: Final = 0.9
"""A rate below so much of what the budget bears is not the budget's doing."""
_SCORED: Final = "scored"
_INPUTS: Final = {
    EMPTY_RETRIEVAL: names.EMPTY_RETRIEVAL_RATIO,
    WEAK_RETRIEVAL: names.WEAK_RETRIEVAL_RATIO,
    NEW_QUESTION: names.NEW_QUESTION_RATIO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """One windowed mean, as its gauges show it; None: not shown."""

    signal: str
    judge: str
    window: str
    mean: float
    lower: float | None
    upper: float | None
    effective_n: float | None
    coverage: float | None
    efficiency: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Makeup:
    """What the judged hallucination rate rests on, since the process began."""

    answers: int
    with_value: int
    """Judged, and the rate applies to them."""
    predicted: int
    """Not drawn: they enter by what was predicted of them."""
    without_value: Mapping[str, int]
    """Read or not, the signal does not apply: by cause."""
    without_verdict: Mapping[str, int]
    """By cause."""
    missing_ratio: float | None
    """Of those drawn within a day, each for 1 / chance."""
    uncovered_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """One limit of the budget."""

    unit: str
    per: str
    limit: float
    level: float
    """What may be spent at once now."""
    sustained_per_hour: float
    """What may be spent per hour, hour after hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How answers are drawn now."""

    rate: float
    boost: float
    arrivals_per_hour: float
    judge_rate: float | None
    """The setting, where it and not the budget decides; None: it cannot be seen."""
    bound_by: Literal["judge_rate", "budget"]
    readings_per_hour: float
    expected_cost: float | None
    """Of one reading, in the budget's unit."""
    unit: str
    spent_per_hour: float | None
    """At the rate, traffic and cost of now."""
    spent_usd: float
    """Since the process began."""
    budget: tuple[Money, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How good the ruler is; None: not known yet."""

    auroc: float | None
    residual: float | None
    flip_rate: float | None
    anchors: float | None
    anchor_flip_rate: float | None
    cause: str | None
    """Of an active alarm: judge, application or unknown; None: none is active."""
    reread: float | None
    flipped: float | None
    breaker: float | None
    human_labels: float | None
    corrected: float | None
    corrected_lower: float | None
    corrected_upper: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Where one alarm stands."""

    signal: str
    judge: str
    kind: str
    evidence_days: float
    line_days: float
    tolerate: float | None
    """None: it is being learned."""
    learned: float
    active: bool
    since_s: float | None
    raised: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What comes in, compared with the frozen reference; None: not known yet."""

    reference: float | None
    """Share collected; 1: it is frozen."""
    ratios: Mapping[str, float]
    """Of the last day, by signal."""
    psi: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """What an alarm would do if the mean jumped."""

    times: float
    """What is tolerated."""
    mean: float
    hours: float | None
    """Until the alarm, on average; None: it would not come, or what is tolerated is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What would happen at another budget, all else as it is now."""

    budget: str
    """`x2`, `unlimited`, `every answer`."""
    rate: float
    judged_per_hour: float
    cost_per_hour: float | None
    half_width_1h: float
    half_width_24h: float
    jumps: tuple[Jump, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Everything that is said of one service."""

    service: str
    version: str
    """Of ragmonitor."""
    judge: str
    judged: bool
    """Whether a judge reads a share; if not, every number is the built-in judge's opinion."""
    means: tuple[Mean, ...]
    makeup: Makeup | None
    sampling: Sampling | None
    health: Health | None
    alarms: tuple[Alarm, ...]
    warning_evidence_days: float | None
    input: Input
    answers_per_hour: float | None
    value_share: float
    """Of the judged answers, those to which the hallucination rate applies."""
    outlook: tuple[Row, ...]

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        return dataclasses.asdict(self)


class Scrape:
    """The samples of one scrape, by name."""

    def __init__(self, text: str) -> None:
        """Read the text that an endpoint serves.

        Raises:
            InputError: It is no exposition of Prometheus.
        """
        self._samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        try:
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name.startswith("ragmonitor_"):
                        self._samples.setdefault(sample.name, []).append(
                            (sample.labels, float(sample.value))
                        )
        except (ValueError, KeyError, IndexError) as error:
            raise InputError(f"no text of Prometheus series: {error}") from error

    @property
    def services(self) -> tuple[str, ...]:
        """Return the services there are, in order of their names."""
        return tuple(
            sorted(
                {
                    labels["service"]
                    for found in self._samples.values()
                    for labels, _ in found
                    if "service" in labels
                }
            )
        )

    def each(self, name: str, **labels: str) -> Iterator[tuple[Mapping[str, str], float]]:
        """Yield the samples of that name with these labels."""
        for own, value in self._samples.get(name, ()):
            if all(own.get(label) == wanted for label, wanted in labels.items()):
                yield own, value

    def one(self, name: str, **labels: str) -> float | None:
        """Return the first of them that is a number; None: there is none."""
        return next((v for _, v in self.each(name, **labels) if not math.isnan(v)), None)

    def total(self, name: str, **labels: str) -> float:
        """Return their sum."""
        return math.fsum(value for _, value in self.each(name, **labels))


def read(
    scrape: Scrape,
    service: str,
    *,
    judge_rate: float | None = None,
    answers_per_hour: float | None = None,
) -> Service:
    """Return what a scrape says of one service.

    Args:
        scrape: Of one endpoint.
        service: One of its services.
        judge_rate: The setting; None: as far as it can be seen.
        answers_per_hour: For the outlook; None: as many as now.
    """
    sampling = _sampling(scrape, service, judge_rate)
    judge = BUILTIN
    if sampling is not None:
        judge = next(
            labels["judge"] for labels, _ in scrape.each(names.SAMPLING_RATE, **_of(service))
        )
    means = tuple(_means(scrape, service, judge))
    alarms = tuple(_alarms(scrape, service))
    if answers_per_hour is None and sampling is not None:
        answers_per_hour = sampling.arrivals_per_hour
    value_share = _value_share(scrape, service, judge)
    said = Service(
        service=service,
        version=next(
            (
                labels.get("version", "")
                for labels, _ in scrape.each(f"{names.BUILD_INFO}_info", **_of(service))
            ),
            "",
        ),
        judge=judge,
        judged=sampling is not None,
        means=means,
        makeup=_makeup(scrape, service, judge),
        sampling=sampling,
        health=_health(scrape, service, judge) if sampling is not None else None,
        alarms=alarms,
        warning_evidence_days=scrape.one(names.EARLY_WARNING_EVIDENCE_SECONDS, **_of(service)),
        input=_input(scrape, service),
        answers_per_hour=answers_per_hour,
        value_share=value_share,
        outlook=(),
    )
    return dataclasses.replace(said, outlook=tuple(_outlook(said)))


def _of(service: str, **labels: str) -> dict[str, str]:
    return {"service": service, **labels}


# --- what is shown --------------------------------------------------------------------------------


def _means(scrape: Scrape, service: str, judge: str) -> Iterator[Mean]:
    rated = ((HALLUCINATION, names.HALLUCINATION_RATE), (REFUSAL, names.REFUSAL_RATE))
    for signal, name in rated:
        for window in WINDOWS:
            own = _of(service, judge=judge, window=window)
            value = scrape.one(name, **own)
            if value is not None:
                yield _mean(scrape, signal, name, value, own)
    for labels, value in scrape.each(names.SCORE_MEAN, service=service, judge=judge):
        yield _mean(scrape, labels["evaluator"], names.SCORE_HISTOGRAM, value, dict(labels))


def _mean(scrape: Scrape, signal: str, root: str, value: float, own: dict[str, str]) -> Mean:
    told = {key: own[key] for key in ("service", "judge", "window")}
    return Mean(
        signal=signal,
        judge=own["judge"],
        window=own["window"],
        mean=value,
        efficiency=scrape.one(names.SAMPLING_EFFICIENCY, signal=signal, **told),
        lower=scrape.one(f"{root}_lower", **own),
        upper=scrape.one(f"{root}_upper", **own),
        effective_n=scrape.one(f"{root}_effective_n", **own),
        coverage=scrape.one(f"{root}_coverage_ratio", **own),
    )


def _makeup(scrape: Scrape, service: str, judge: str) -> Makeup | None:
    outcomes: dict[str, int] = {}
    evaluators = {
        labels["evaluator"]
        for labels, _ in scrape.each(names.EVALUATIONS + "_total", service=service, judge=judge)
    }
    # All evaluators see the same answers; what does not apply to one may to another.
    if not evaluators:
        return None
    preferred = [name for name in (HALLUCINATION, "faithfulness") if name in evaluators]
    evaluator = preferred[0] if preferred else min(evaluators)
    for labels, value in scrape.each(
        names.EVALUATIONS + "_total", service=service, judge=judge, evaluator=evaluator
    ):
        outcomes[labels["outcome"]] = outcomes.get(labels["outcome"], 0) + round(value)
    missing = {cause.value for cause in NO_VERDICT} - {Cause.NOT_SAMPLED.value}
    rest = {
        cause: n
        for cause, n in outcomes.items()
        if cause not in missing and cause not in (_SCORED, Cause.NOT_SAMPLED.value)
    }
    own = _of(service, judge=judge)
    return Makeup(
        answers=sum(outcomes.values()),
        with_value=outcomes.get(_SCORED, 0),
        predicted=outcomes.get(Cause.NOT_SAMPLED.value, 0),
        without_value=rest,
        without_verdict={cause: n for cause, n in outcomes.items() if cause in missing},
        missing_ratio=scrape.one(names.MISSING_RATIO, **own),
        uncovered_ratio=scrape.one(names.UNCOVERED_RATIO, window="1h", **own),
    )


def _value_share(scrape: Scrape, service: str, judge: str) -> float:
    own = _of(service, judge=judge, signal=HALLUCINATION)
    answers = scrape.total(f"{names.ANSWERS}_total", **own)
    applies = scrape.total(f"{names.ESTIMATE_COUNT_POSITIVE}_total", **own) - scrape.total(
        f"{names.ESTIMATE_COUNT_NEGATIVE}_total", **own
    )
    return min(1.0, max(0.0, applies / answers)) if answers > 0 else 1.0


def _sampling(scrape: Scrape, service: str, judge_rate: float | None) -> Sampling | None:
    own = _of(service)
    rate = scrape.one(names.SAMPLING_RATE, **own)
    if rate is None:
        return None
    arrivals_per_hour = (scrape.one(names.ARRIVALS, **own) or 0.0) * HOUR_S
    boost = scrape.one(names.SAMPLING_BOOST, **own) or 1.0
    costs = [(labels["unit"], value) for labels, value in scrape.each(names.EXPECTED_COST, **own)]
    unit, cost = costs[0] if costs else ("", None)
    buckets = [
        _bucket(labels["per"], limit, scrape.one(names.BUDGET_LEVEL, **dict(labels)) or 0.0)
        for labels, limit in scrape.each(names.BUDGET_LIMIT, **own)
    ]
    unit = unit or next((la["unit"] for la, _ in scrape.each(names.BUDGET_LIMIT, **own)), "")
    most = judge_rate if judge_rate is not None else scrape.one(names.MAX_SAMPLING_RATE, **own)
    decides = most is not None and rate >= _SLACK * min(1.0, boost * most)
    return Sampling(
        rate=rate,
        boost=boost,
        arrivals_per_hour=arrivals_per_hour,
        judge_rate=most,
        bound_by="judge_rate" if decides else "budget",
        readings_per_hour=rate * arrivals_per_hour,
        expected_cost=cost,
        unit=unit,
        spent_per_hour=None if cost is None else rate * arrivals_per_hour * cost,
        spent_usd=scrape.total(f"{names.JUDGE_COST_USD}_total", **own),
        budget=tuple(
            Money(
                unit=unit,
                per=bucket.name,
                limit=bucket.limit,
                level=bucket.level,
                sustained_per_hour=bucket.refill_per_s * HOUR_S,
            )
            for bucket in buckets
        ),
    )


def _bucket(per: str, limit: float, level: float) -> Bucket:
    if per == "day":
        bucket = Bucket(name="day", limit=limit, window_s=DAY_S, burst_share=DAY_BURST_SHARE)
    else:
        bucket = Bucket(name="hour", limit=limit, window_s=HOUR_S, burst_share=HOUR_BURST_SHARE)
    bucket.level = level
    return bucket


def _health(scrape: Scrape, service: str, judge: str) -> Health:
    own = _of(service, judge=judge)
    return Health(
        auroc=scrape.one(names.BUILTIN_AUROC, **own),
        residual=scrape.one(names.CALIBRATION_RESIDUAL, **own),
        flip_rate=scrape.one(names.JUDGE_FLIP_RATE, **own),
        anchors=scrape.one(names.ANCHORS, **own),
        anchor_flip_rate=scrape.one(names.ANCHOR_FLIP_RATE, **own),
        cause=_cause(scrape, own),
        reread=scrape.one(names.ALARM_CAUSE_REREAD, **own),
        flipped=scrape.one(names.ALARM_CAUSE_FLIPPED, **own),
        breaker=scrape.one(names.JUDGE_BREAKER_STATE, **own),
        human_labels=scrape.one(names.HUMAN_LABELS, **_of(service)),
        corrected=scrape.one(names.CORRECTED_RATE, **own),
        corrected_lower=scrape.one(f"{names.CORRECTED_RATE}_lower", **own),
        corrected_upper=scrape.one(f"{names.CORRECTED_RATE}_upper", **own),
    )


def _cause(scrape: Scrape, own: Mapping[str, str]) -> str | None:
    """Return what is known of the active alarm's cause; None: none is active."""
    for labels, value in scrape.each(names.ALARM_CAUSE, **own):
        if value == 1:
            return dict(labels)["cause"]
    return None


def _alarms(scrape: Scrape, service: str) -> Iterator[Alarm]:
    line_days = scrape.one(names.ALARM_THRESHOLD_SECONDS, **_of(service)) or math.nan
    for labels, evidence in scrape.each(names.ALARM_EVIDENCE_SECONDS, **_of(service)):
        own = dict(labels)
        active = bool(scrape.one(names.ALARM_ACTIVE, **own))
        learned = scrape.one(names.ALARM_LEARNED_RATIO, **own)
        yield Alarm(
            signal=own["signal"],
            judge=own["judge"],
            kind=own["kind"],
            evidence_days=evidence,
            line_days=line_days,
            tolerate=scrape.one(names.ALARM_OBJECTIVE, **own),
            learned=1.0 if learned is None else learned,
            active=active,
            # With several processes it stays, at 0, when the alarm is over.
            since_s=scrape.one(names.ALARM_SINCE, **own) if active else None,
            raised=round(scrape.total(f"{names.ALARMS_RAISED}_total", **own)),
        )


def _input(scrape: Scrape, service: str) -> Input:
    own = _of(service)
    found = {signal: scrape.one(name, window="24h", **own) for signal, name in _INPUTS.items()}
    return Input(
        reference=scrape.one(names.REFERENCE_RATIO, **own),
        ratios={signal: value for signal, value in found.items() if value is not None},
        psi=scrape.one(names.QUESTION_PSI, **own),
    )


# --- what would happen ----------------------------------------------------------------------------


def _outlook(said: Service) -> Iterator[Row]:
    arrivals = said.answers_per_hour
    if not arrivals:
        return
    sampling = said.sampling
    if sampling is None:
        yield _row(said, "every answer", 1.0, arrivals)
        return
    borne = _borne(sampling)
    most = 1.0 if sampling.judge_rate is None else sampling.judge_rate
    if borne is not None:
        for factor in FACTORS:
            yield _row(said, f"x{factor:g}", min(most, factor * borne / arrivals), arrivals)
    yield _row(said, "unlimited", most, arrivals)
    if most < 1:
        yield _row(said, "every answer", 1.0, arrivals)


def _borne(sampling: Sampling) -> float | None:
    """Return how many readings per hour the budget pays, hour after hour; None: without limit."""
    if not sampling.budget or not sampling.expected_cost:
        return None
    return min(limit.sustained_per_hour for limit in sampling.budget) / sampling.expected_cost


def _row(said: Service, budget: str, rate: float, arrivals: float) -> Row:
    missing = (said.makeup.missing_ratio if said.makeup is not None else None) or 0.0
    readings = rate * arrivals
    verdicts = readings * said.value_share * (1 - missing)
    by_window = {mean.window: mean for mean in said.means if mean.signal == HALLUCINATION}
    widths = {}
    for window, hours in WINDOWS.items():
        found = by_window.get(window)
        effect = 1.0
        if found is not None and found.efficiency is not None and said.sampling is not None:
            effect = design_effect(rate, seen=found.efficiency, seen_at=said.sampling.rate)
        n = judged_in(hours, verdicts) / effect
        widths[window] = half_width(0.0 if found is None else found.mean, n)
    cost = said.sampling.expected_cost if said.sampling is not None else None
    return Row(
        budget=budget,
        rate=rate,
        judged_per_hour=readings,
        cost_per_hour=None if cost is None else cost * readings,
        half_width_1h=widths["1h"],
        half_width_24h=widths["24h"],
        jumps=tuple(_jumps(said, by_window.values(), verdicts)),
    )


def _jumps(said: Service, means: Iterable[Mean], verdicts: float) -> Iterator[Jump]:
    alarm = next((each for each in said.alarms if each.signal == HALLUCINATION), None)
    if alarm is None or alarm.tolerate is None or math.isnan(alarm.line_days):
        return
    day = {mean.window: mean.mean for mean in means}.get("24h", 0.0)
    watched = Watched(
        tolerate=alarm.tolerate,
        # Where it is bad already, a jump from what was tolerated is what is asked about.
        mean=min(day, alarm.tolerate),
        line_days=alarm.line_days,
        share=share_of(HALLUCINATION, {each.signal for each in said.alarms}),
        evidence_days=0.0 if alarm.active else alarm.evidence_days,
        max_importance_weight=1.0 if alarm.judge in (BUILTIN, NO_JUDGE) else STAKE_MOST,
    )
    for times in WORSE:
        mean = times * alarm.tolerate
        if mean <= 1:
            hours = delay_hours(watched, mean=mean, bets_per_hour=verdicts)
            yield Jump(times=times, mean=mean, hours=hours if math.isfinite(hours) else None)
