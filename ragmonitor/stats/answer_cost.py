"""Estimates what a good answer costs: all answers' cost, divided by the number of good ones."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ragmonitor.records import GaugeValue, Window
from ragmonitor.runtime.protocols import Clock, Cost
from ragmonitor.semconv import metrics
from ragmonitor.stats.beta import t_quantile
from ragmonitor.stats.parts import Answer, Means, Observation, Part
from ragmonitor.stats.signals import HALLUCINATION
from ragmonitor.stats.sums import Outcome
from ragmonitor.store import DAY_S, HOUR_S, MEAN_S, Rows, merge

GROUPS: Final = 16
"""Random groups of answers; those of one session are in one."""
LEAST_GROUPS: Final = 8
"""With an answer in them; fewer say too little of the variance."""
LEAST_JUDGED: Final = 20
MAX_MODELS: Final = 20
ALL: Final = ""
"""The model's name in the series of all answers."""
OTHER: Final = "other"
_NOTHING: Final = (0.0, 0.0)


class CostPerGood(NamedTuple):
    """A mean cost with its 95 % interval, in US dollars."""

    mean: float
    lower: float
    upper: float


WIDTH: Final = 4 * GROUPS + 1
"""Of each group the number of answers, their cost, and two pseudo-outcomes; then verdicts."""
SPANS: Final[dict[Window, int]] = {"1h": HOUR_S, "24h": DAY_S}


def cost_per_good(row: Sequence[float]) -> CostPerGood | None:
    """Return the cost of all answers / the number of good ones; None: too few were judged.

    The estimate is (C / N) / (G / O): the mean cost over the share of good answers among those
    whose verdict comes, where G and O are sums of pseudo-outcomes as in `stats.sums`, unbiased
    whatever was sampled. The interval is that of its logarithm, with the variance by the
    delete-a-group jackknife over random groups of sessions and Student's t at one degree of freedom
    less than there are groups with an answer.

    Args:
        row: Of `WIDTH` sums, of a window.

    Source:
        Wolter, "Introduction to Variance Estimation" (2007), chapter 4, for the jackknife of a
        function of totals; Saerndal, Swensson & Wretman (1992), section 5.6, for the ratio.
    """
    groups = [row[at : at + 4] for at in range(0, 4 * GROUPS, 4)]
    used = sum(1 for group in groups if group[0] > 0)
    if row[-1] < LEAST_JUDGED or used < LEAST_GROUPS:
        return None
    totals = [math.fsum(column) for column in zip(*groups, strict=True)]
    whole = _ratio(totals)
    parts = [
        _ratio([total - own for total, own in zip(totals, group, strict=True)]) for group in groups
    ]
    if whole is None or None in parts:
        return None
    logs = [math.log(each) for each in parts if each is not None]
    centre = math.fsum(logs) / GROUPS
    variance = (GROUPS - 1) / GROUPS * math.fsum((each - centre) ** 2 for each in logs)
    factor = math.exp(t_quantile(used - 1) * math.sqrt(variance))
    return CostPerGood(whole, whole / factor, whole * factor)


def _ratio(sums: Sequence[float]) -> float | None:
    answers, cost, observed, good = sums
    if min(answers, cost, observed, good) <= 0:
        return None
    return cost / answers * observed / good


class AnswerCost(Part):
    """Sums up what answers cost beside whether they are good, by model.

    A good answer claims something, and nothing in it is hallucinated. An answer whose cost is not
    known, or that had no chance to be judged, is left out of both.
    """

    def __init__(self, cost_usd: Cost, *, reader: str, judge: str | None, clock: Clock) -> None:
        """Begin without an answer.

        Args:
            cost_usd: What an answer cost.
            reader: Name of the judge that scores every answer.
            judge: The one that scores a sample; None: there is none.
            clock: For the windows.
        """
        self._cost_usd = cost_usd
        self._reader = reader
        self._judge = judge
        self._clock = clock
        self._sums: dict[int, Rows] = {}
        """Sums by model, in buckets of five minutes."""
        self._models: set[str] = set()

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in one completed answer."""
        cost_usd = self._cost_usd(answer.interaction)
        found = None if cost_usd is None else self._pseudo_outcomes(answer)
        if cost_usd is not None and found is not None:
            observed, good, is_judged = found
            interaction = answer.interaction
            name = interaction.session_id or interaction.id
            at = 4 * (zlib.crc32(name.encode("utf-8", "replace")) % GROUPS)
            row = [0.0] * WIDTH
            row[at : at + 4] = 1.0, cost_usd, observed, good
            row[-1] = float(is_judged)
            bucket = self._sums.setdefault(int(self._clock() // MEAN_S), {})
            merge(bucket, {self._named(interaction.model): row})
        return ()

    def _named(self, model: str) -> str:
        if model not in self._models:
            if len(self._models) >= MAX_MODELS:
                return OTHER
            self._models.add(model)
        return model or OTHER

    def _pseudo_outcomes(self, answer: Answer) -> tuple[float, float, bool] | None:
        """Return those of being observed and of being good, and whether a verdict is there.

        None: it had no chance to be judged.
        """
        if self._judge is None:
            is_read = answer.completed.builtin.judge.name == self._reader
            verdict = answer.builtin[0][1] if is_read else None
            return (0.0, 0.0, False) if verdict is None else (1.0, _good(verdict), True)
        if answer.weight <= 0:
            return None
        scored, mean = answer.completed.prediction.expected.get(HALLUCINATION, _NOTHING)
        expected = scored * (1.0 - mean)
        if not answer.judged:
            return 1.0, expected, False
        verdict = answer.judged[0][1]
        weight = answer.weight
        if verdict is None:
            return 1.0 - weight, expected - weight * expected, False
        return 1.0, expected + weight * (_good(verdict) - expected), True

    def tick(self) -> Sequence[Observation]:
        """Forget what is older than a day."""
        oldest = int((self._clock() - DAY_S) // MEAN_S)
        self._sums = {at: rows for at, rows in self._sums.items() if at >= oldest}
        return ()

    def _rows(self) -> Iterator[tuple[str, Window, Sequence[float]]]:
        """Yield the model, the window and its sums: of all answers, and of each model."""
        for window, length_s in SPANS.items():
            oldest = int((self._clock() - length_s) // MEAN_S)
            models: Rows = {}
            for at, rows in self._sums.items():
                if at >= oldest:
                    merge(models, rows)
            if models:
                yield ALL, window, [sum(column) for column in zip(*models.values(), strict=True)]
            for model, row in models.items():
                yield model, window, row

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return the cost per good answer, of all and by model, where enough was judged."""
        for model, window, row in self._rows():
            found = cost_per_good(row)
            if found is not None:
                labels = {"judge": means.quality_judge, "window": window, "model": model}
                yield from GaugeValue.interval(metrics.COST_PER_GOOD_ANSWER, *found, **labels)

    def records(self) -> Mapping[str, Any]:
        """Return the same for /metrics.json and the page."""
        found = [
            {"model": model, "window": window, "answers": sum(row[: 4 * GROUPS : 4])}
            | cost._asdict()
            for model, window, row in self._rows()
            if (cost := cost_per_good(row)) is not None
        ]
        return {"cost_per_good_answer_usd": found} if found else {}

    def clear(self) -> None:
        """Forget what belongs to the parent of a forked process."""
        self._sums.clear()
        self._models.clear()


def _good(verdict: Outcome) -> float:
    return 1.0 if verdict.scored and not verdict.value else 0.0
