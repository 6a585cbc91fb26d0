"""The state of a running monitor, service by service, and what would follow of other budgets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from ragmonitor import metrics as names
from ragmonitor.cli.monitor_client import why_no_numbers
from ragmonitor.errors import InputError
from ragmonitor.estimation.alarm_streams import MAX_IMPORTANCE_WEIGHT
from ragmonitor.estimation.planning import (
    Watched,
    delay_hours,
    design_effect,
    half_width,
    judged_in,
    share_of,
)
from ragmonitor.estimation.signals import HALLUCINATION, NO_JUDGE, NO_VERDICT
from ragmonitor.records import BUILTIN, Cause, is_builtin
from ragmonitor.sampling.budget import DAY_BURST_SHARE, DAY_S, HOUR_BURST_SHARE, HOUR_S, Bucket

WINDOWS: Final = {"1h": 1.0, "24h": 24.0}
"""Label and hours."""
BUDGET_FACTORS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
JUMP_FACTORS: Final = (2.0, 4.0)
"""Times the objective: the rates for which a planning row says how long an alarm would take."""
_SLACK: Final = 0.9
"""A sampling rate below this share of `judge_rate` is the budget's doing."""
_SCORED: Final = "scored"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCounts:
    """Counts the answers since the process, or the fleet, began by what became of them."""

    answers: int
    scored: int
    """Scored by the judge, and the hallucination rate applies to them."""
    predicted: int
    """Not drawn: they enter the mean by their predictions."""
    not_applicable: Mapping[str, int]
    """The signal does not apply to them: by cause."""
    without_verdict: Mapping[str, int]
    """The judge was asked, or would have been, and gave no verdict: by cause."""
    missing_ratio: float | None
    """The share of those drawn within a day, each for 1 / its inclusion probability."""
    uncovered_ratio: float | None
    """The share of the last hour's answers that had no chance to be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimit:
    """One limit of the budget, in the budget's unit."""

    per: str
    limit: float
    level: float
    """May be spent at once now."""
    sustained_per_hour: float
    """May be spent per hour, hour after hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Says how answers are drawn now, and what that costs."""

    rate: float
    boost: float
    arrivals_per_hour: float
    judge_rate: float
    """The setting."""
    bound_by: Literal["judge_rate", "budget"]
    judged_per_hour: float
    expected_cost: float | None
    """The cost of one reading, in the budget's unit."""
    unit: str
    cost_per_hour: float | None
    """At the rate, traffic and cost of now."""
    spent_usd: float
    """Since the process began."""
    budget: tuple[BudgetLimit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Says how long an alarm would take if the mean jumped."""

    times: float
    """The multiple of the objective."""
    mean: float
    hours: float | None
    """Until the alarm, on average; None: it would not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningRow:
    """Says what to expect at another budget, all else as it is now."""

    budget: str
    """`x2`, `unlimited`, `every answer`."""
    rate: float
    judged_per_hour: float
    cost_per_hour: float | None
    half_width_1h: float
    half_width_24h: float
    delays: tuple[Delay, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Says what predictions of the judge's verdicts have learned from them."""

    verdicts: float
    """Remembered; older ones count less."""
    trust: float
    """Weight of what was learned in the next prediction, 0 to 1."""
    saved: float | None
    """Share of the judge's verdicts that learning saves at equal width of the interval, against
    predictions by the risk alone; below 0 it costs some. None: not known yet."""
    coefficients: Mapping[str, float]
    """The largest by feature, the largest first: what one unit of it adds to the log odds."""


class ServiceState:
    """The state of one service, as its monitor serves it, with what follows from it."""

    def __init__(
        self,
        record: Mapping[str, Any],
        *,
        answers_per_hour: float | None = None,
    ) -> None:
        """Take the record of one service.

        Args:
            record: As `PrometheusExporter.state` returns it.
            answers_per_hour: For planning; None: as many as now.

        Raises:
            InputError: It is no such record.
        """
        try:
            self.service = str(record["service"])
            self.version = str(record["version"])
            self.processes = int(record["processes"])
            self.why_no_numbers = why_no_numbers(record)
            """Empty: the numbers are here. Else what this process is, and who has them."""
            self.alarms: list[dict[str, Any]] = record["alarms"]
            self.threshold_days: float | None = record["threshold_days"]
            self._numbers: list[dict[str, Any]] = record["numbers"]
            self._series: dict[str, list[tuple[dict[str, str], float]]] = {}
            for each in record["series"]:
                series = self._series.setdefault(each["name"], [])
                series.append((each["labels"], float(each["value"])))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"no state of a monitor of this version: {error!r}") from error
        # The sampled judge, else an encoder that reads every answer, else the rules.
        readers = [labels["judge"] for labels, _ in self.each(names.HALLUCINATION_RATE)]
        sampled = [labels["judge"] for labels, _ in self.each(names.SAMPLING_RATE)]
        encoders = [name for name in readers if is_builtin(name) and name != BUILTIN]
        self.judge = next(iter((*sampled, *encoders)), BUILTIN)
        self.is_judged = names.SAMPLING_RATE in self._series
        self.sampling = self._sampling() if self.is_judged else None
        if answers_per_hour is None and self.sampling is not None:
            answers_per_hour = self.sampling.arrivals_per_hour
        self.answers_per_hour = answers_per_hour

    def each(self, name: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """Yield labels and value of the series of that name with these labels."""
        for own, value in self._series.get(name, ()):
            if labels.items() <= own.items():
                yield own, value

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of the first such series; None: there is none."""
        return next((value for _, value in self.each(name, **labels)), None)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a counter over all such series."""
        return math.fsum(value for _, value in self.each(f"{name}_total", **labels))

    @property
    def means(self) -> list[dict[str, Any]]:
        """The windowed means of the whole traffic by the judge, or by the built-in one alone."""
        return [
            {name: value for name, value in each.items() if name not in ("dimension", "group")}
            for each in self._numbers
            if each["judge"] == self.judge and not each["dimension"]
        ]

    def mean_of_input(self, signal: str) -> float | None:
        """Return the last day's mean of a signal that needs no judge; None: there is none."""
        of_signal = (each for each in self._numbers if each["signal"] == signal)
        return next((each["mean"] for each in of_signal if each["window"] == "24h"), None)

    @property
    def hallucination_alarm(self) -> dict[str, Any] | None:
        """The alarm on the hallucination rate; None: there is none."""
        return next((each for each in self.alarms if each["signal"] == HALLUCINATION), None)

    def as_json(self) -> dict[str, Any]:
        """Return everything as an object for JSON."""
        return {
            "service": self.service,
            "version": self.version,
            "processes": self.processes,
            "why_no_numbers": self.why_no_numbers or None,
            "judge": self.judge,
            "is_judged": self.is_judged,
            "means": self.means,
            "answers": self.answers and dataclasses.asdict(self.answers),
            "sampling": self.sampling and dataclasses.asdict(self.sampling),
            "learned": self.learned and dataclasses.asdict(self.learned),
            "alarms": self.alarms,
            "threshold_days": self.threshold_days,
            "answers_per_hour": self.answers_per_hour,
            "planning": [dataclasses.asdict(row) for row in self.planning],
            "series": [
                {"name": name, "labels": labels, "value": value}
                for name, series in self._series.items()
                for labels, value in series
            ],
        }

    @cached_property
    def answers(self) -> AnswerCounts | None:
        """The outcomes of the answers; None: there was none."""
        outcomes: dict[str, dict[str, int]] = {}
        for labels, value in self.each(f"{names.EVALUATIONS}_total", judge=self.judge):
            outcomes.setdefault(labels["evaluator"], {})[labels["outcome"]] = round(value)
        if not outcomes:
            return None
        # All evaluators see the same answers; an outcome of one may not apply to another.
        preferred = [name for name in (HALLUCINATION, "faithfulness") if name in outcomes]
        counts = outcomes[preferred[0] if preferred else min(outcomes)]
        answers = sum(counts.values())
        scored, predicted = counts.pop(_SCORED, 0), counts.pop(Cause.NOT_SAMPLED.value, 0)
        without_verdict = {cause: n for cause, n in counts.items() if cause in NO_VERDICT}
        return AnswerCounts(
            answers=answers,
            scored=scored,
            predicted=predicted,
            not_applicable={c: n for c, n in counts.items() if c not in NO_VERDICT},
            without_verdict=without_verdict,
            missing_ratio=self.value(names.MISSING_RATIO, judge=self.judge),
            uncovered_ratio=self.value(names.UNCOVERED_RATIO, judge=self.judge, window="1h"),
        )

    @property
    def learned(self) -> Learned | None:
        """The coefficients that were learned from verdicts; None: there are none."""
        verdicts = self.value(names.LEARNED_VERDICTS, judge=self.judge)
        if not verdicts or self.sampling is None:
            return None
        errors = [
            self.value(names.PREDICTION_ERROR, judge=self.judge, score=score)
            for score in ("untrained", "learned")
        ]
        rate = self.sampling.rate
        # The variance of a mean of pseudo-outcomes, as `planning.design_effect` has it.
        before, now = (None if each is None else rate + (1 - rate) * each for each in errors)
        coefficients = [
            (labels["feature"], value)
            for labels, value in self.each(names.LEARNED_COEFFICIENT, judge=self.judge)
        ]
        return Learned(
            verdicts=verdicts,
            trust=self.value(names.LEARNED_TRUST, judge=self.judge) or 0.0,
            saved=1 - now / before if before and now is not None else None,
            coefficients=dict(sorted(coefficients, key=lambda each: -abs(each[1]))),
        )

    def _sampling(self) -> Sampling:
        rate = self.value(names.SAMPLING_RATE) or 0.0
        boost = self.value(names.SAMPLING_BOOST) or 1.0
        judged_per_hour = rate * (self.value(names.ARRIVALS) or 0.0) * HOUR_S
        cost = self.value(names.EXPECTED_COST)
        limits = tuple(self.each(names.BUDGET_LIMIT))
        units = (*self.each(names.EXPECTED_COST), *limits)
        most = self.value(names.MAX_SAMPLING_RATE) or 1.0
        decides = rate >= _SLACK * min(1.0, boost * most)
        return Sampling(
            rate=rate,
            boost=boost,
            arrivals_per_hour=(self.value(names.ARRIVALS) or 0.0) * HOUR_S,
            judge_rate=most,
            bound_by="judge_rate" if decides else "budget",
            judged_per_hour=judged_per_hour,
            expected_cost=cost,
            unit=units[0][0]["unit"] if units else "",
            cost_per_hour=None if cost is None else judged_per_hour * cost,
            spent_usd=self.total(names.JUDGE_COST_USD),
            budget=tuple(
                _budget_limit(
                    labels["per"], limit, self.value(names.BUDGET_LEVEL, per=labels["per"]) or 0.0
                )
                for labels, limit in limits
            ),
        )

    # --- planning -------------------------------------------------------------------------------

    @cached_property
    def planning(self) -> tuple[PlanningRow, ...]:
        """The intervals and delays to expect at other budgets; empty while nothing arrives."""
        arrivals, sampling = self.answers_per_hour, self.sampling
        if not arrivals:
            return ()
        if sampling is None:
            return (self._row("every answer", 1.0, arrivals),)
        most = sampling.judge_rate
        rates: list[tuple[str, float]] = []
        if sampling.budget and sampling.expected_cost:
            sustained = min(limit.sustained_per_hour for limit in sampling.budget)
            paid = sustained / sampling.expected_cost / arrivals
            rates = [(f"x{factor:g}", min(most, factor * paid)) for factor in BUDGET_FACTORS]
        rates.append(("unlimited", most))
        if most < 1:
            rates.append(("every answer", 1.0))
        return tuple(self._row(budget, rate, arrivals) for budget, rate in rates)

    def _row(self, budget: str, rate: float, arrivals: float) -> PlanningRow:
        judged = rate * arrivals
        missing = (self.answers.missing_ratio if self.answers is not None else None) or 0.0
        verdicts = judged * self._applicable_share * (1 - missing)
        rates = {each["window"]: each for each in self.means if each["signal"] == HALLUCINATION}
        cost = None if self.sampling is None else self.sampling.expected_cost
        return PlanningRow(
            budget=budget,
            rate=rate,
            judged_per_hour=judged,
            cost_per_hour=None if cost is None else cost * judged,
            half_width_1h=self._half_width("1h", rates.get("1h"), rate, verdicts),
            half_width_24h=self._half_width("24h", rates.get("24h"), rate, verdicts),
            delays=tuple(self._delays(rates.get("24h"), verdicts)),
        )

    def _half_width(
        self, window: str, number: Mapping[str, Any] | None, rate: float, verdicts: float
    ) -> float:
        if number is None:
            return half_width(0.0, judged_in(WINDOWS[window], verdicts))
        effect = 1.0
        if self.sampling is not None:
            effect = design_effect(rate, seen=number["efficiency"], seen_at=self.sampling.rate)
        return half_width(number["mean"], judged_in(WINDOWS[window], verdicts) / effect)

    def _delays(self, day: Mapping[str, Any] | None, verdicts: float) -> Iterator[Delay]:
        alarm = self.hallucination_alarm
        if alarm is None or alarm["objective"] is None or self.threshold_days is None:
            return
        objective = alarm["objective"]
        watched = Watched(
            objective=objective,
            # Where it is bad already, a jump from the objective is what is asked about.
            mean=min(0.0 if day is None else day["mean"], objective),
            threshold_days=self.threshold_days,
            share=share_of(
                HALLUCINATION, {each["signal"] for each in self.alarms if each["kind"] != "slice"}
            ),
            evidence_days=0.0 if alarm["active"] else alarm["evidence_days"],
            max_importance_weight=1.0
            if is_builtin(alarm["judge"]) or alarm["judge"] == NO_JUDGE
            else MAX_IMPORTANCE_WEIGHT,
        )
        for times in JUMP_FACTORS:
            mean = times * objective
            if mean <= 1:
                hours = delay_hours(watched, mean=mean, bets_per_hour=verdicts)
                yield Delay(times=times, mean=mean, hours=hours if math.isfinite(hours) else None)

    @property
    def _applicable_share(self) -> float:
        """The share of the judged answers to which the hallucination rate applies."""
        labels = {"judge": self.judge, "signal": HALLUCINATION}
        answers = self.total(names.ANSWERS, **labels)
        applicable = self.total(names.ESTIMATE_COUNT_POSITIVE, **labels) - self.total(
            names.ESTIMATE_COUNT_NEGATIVE, **labels
        )
        return min(1.0, max(0.0, applicable / answers)) if answers > 0 else 1.0


def _budget_limit(per: str, limit: float, level: float) -> BudgetLimit:
    window_s, burst_share = (DAY_S, DAY_BURST_SHARE) if per == "day" else (HOUR_S, HOUR_BURST_SHARE)
    bucket = Bucket(
        name="day" if per == "day" else "hour",
        limit=limit,
        window_s=window_s,
        burst_share=burst_share,
    )
    return BudgetLimit(
        per=per, limit=limit, level=level, sustained_per_hour=bucket.refill_per_s * HOUR_S
    )
