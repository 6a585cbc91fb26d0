"""The sums over a run, or over any answers: scored, unscored by cause, mean and interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ragmonitor.offline.bottleneck import Bottleneck, bottleneck_of
from ragmonitor.offline.scoring import Outcome
from ragmonitor.records import (
    Estimate,
    Evaluation,
    JudgeUsage,
    Scored,
    evaluator_name,
)
from ragmonitor.stats.score_mean import ScoreMean


@dataclass(slots=True, kw_only=True)
class EvaluatorSummary:
    """One evaluator's outcomes by one judge, over all records."""

    evaluator: str
    judge: str
    scored: int = 0
    unscored: Counter[str] = field(default_factory=Counter)
    """The number of unscored answers, by cause."""
    scores: ScoreMean = field(default_factory=ScoreMean)

    @property
    def estimate(self) -> Estimate | None:
        """The mean with its 95 % interval; None where nothing was scored."""
        return self.scores.estimate

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON; nulls where nothing was scored."""
        estimate = self.estimate
        return {
            "evaluator": self.evaluator,
            "judge": self.judge,
            "scored": self.scored,
            "unscored": dict(sorted(self.unscored.items())),
            "mean": estimate and round(estimate.mean, 4),
            "lower": estimate and round(estimate.lower, 4),
            "upper": estimate and round(estimate.upper, 4),
        }


class Tally:
    """Counts evaluations. Its size does not grow with the answers."""

    def __init__(self) -> None:
        self._rows: dict[str, EvaluatorSummary] = {}

    def add(self, evaluations: Iterable[Evaluation]) -> None:
        """Take one answer's evaluations in."""
        for evaluation in evaluations:
            name = evaluator_name(evaluation.evaluator)
            fresh = EvaluatorSummary(evaluator=name, judge=evaluation.judge.name)
            row = self._rows.setdefault(name, fresh)
            if isinstance(evaluation, Scored):
                row.scored += 1
                row.scores.add(evaluation.score, 1.0)
            else:
                row.unscored[evaluation.cause.value] += 1

    @property
    def rows(self) -> tuple[EvaluatorSummary, ...]:
        """One for each evaluator, in the order they were met."""
        return tuple(self._rows.values())

    @property
    def scored(self) -> int:
        """Scores, over all evaluators."""
        return sum(row.scored for row in self.rows)

    @property
    def unscored(self) -> dict[str, int]:
        """Missing scores by cause, over all evaluators."""
        causes: Counter[str] = Counter()
        for row in self.rows:
            causes.update(row.unscored)
        return dict(sorted(causes.items()))

    def as_json(self) -> list[dict[str, Any]]:
        """Return the rows as objects for JSON."""
        return [row.as_json() for row in self.rows]


@dataclass(slots=True, kw_only=True)
class Summary:
    """The sums over a run. Its size does not grow with the lines."""

    judge: str = ""
    lines: int = 0
    bad_lines: int = 0
    is_interrupted: bool = False
    """Whether further lines were not begun."""
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    tally: Tally = field(default_factory=Tally)
    bottlenecks: Counter[Bottleneck] = field(default_factory=Counter)
    """The bottlenecks of the answers that have the three scores it takes."""

    def add(self, outcome: Outcome) -> None:
        """Take one line in."""
        self.lines += 1
        report = outcome.report
        if report is None:
            self.bad_lines += 1
            return
        self.tally.add(report.evaluations)
        bottleneck = bottleneck_of(report.evaluations)
        if bottleneck is not None:
            self.bottlenecks[bottleneck] += 1

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        usage = self.usage
        return {
            "lines": self.lines,
            "bad_lines": self.bad_lines,
            "resumed": usage.cache_hits,
            "interrupted": self.is_interrupted,
            "judge": self.judge,
            "judge_calls": usage.calls,
            "judge_tokens": usage.input_tokens + usage.output_tokens,
            "judge_cost_usd": round(usage.cost_usd, 6),
            "evaluators": self.tally.as_json(),
            "bottlenecks": {
                name.value: self.bottlenecks[name] for name in Bottleneck if self.bottlenecks[name]
            },
        }
