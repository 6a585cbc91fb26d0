"""The sums over a run, or over any answers: scored, unscored by cause, mean and interval."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ragmonitor.offline.bottleneck import Bottleneck, bottleneck_of
from ragmonitor.records import Cause, Estimate, JudgeUsage, Report, Scored, evaluator_name
from ragmonitor.stats.interval import mean_of_scores


@dataclass(slots=True, kw_only=True)
class EvaluatorSummary:
    """One evaluator's outcomes by one judge, over all records."""

    evaluator: str
    judge: str
    scored: int = 0
    unscored: Counter[str] = field(default_factory=Counter)
    """The number of unscored answers, by cause."""
    total: float = 0.0
    """The sum of the scores."""
    squares: float = 0.0

    @property
    def estimate(self) -> Estimate | None:
        """The mean with its 95 % interval; None where nothing was scored."""
        return mean_of_scores(self.scored, self.total, self.squares)

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


@dataclass(slots=True, kw_only=True)
class Summary:
    """The sums over a run. Its size does not grow with the lines."""

    judge: str = ""
    lines: int = 0
    bad_lines: int = 0
    is_interrupted: bool = False
    """Whether further lines were not begun."""
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    evaluators: dict[str, EvaluatorSummary] = field(default_factory=dict)
    """By name, in the order they were met."""
    bottlenecks: Counter[Bottleneck] = field(default_factory=Counter)
    """The bottlenecks of the answers that have the three scores it takes."""

    def add(self, report: Report | None) -> None:
        """Take one line in; None: it could not be read."""
        self.lines += 1
        if report is None:
            self.bad_lines += 1
            return
        for evaluation in report.evaluations:
            name = evaluator_name(evaluation.evaluator)
            fresh = EvaluatorSummary(evaluator=name, judge=evaluation.judge.name)
            row = self.evaluators.setdefault(name, fresh)
            if isinstance(evaluation, Scored):
                row.scored += 1
                row.total += evaluation.score
                row.squares += evaluation.score**2
            else:
                row.unscored[evaluation.cause.value] += 1
        bottleneck = bottleneck_of(report.evaluations)
        if bottleneck is not None:
            self.bottlenecks[bottleneck] += 1

    def unscored(self, cause: Cause) -> int:
        """Return the number of scores that are missing for a cause, over all evaluators."""
        return sum(row.unscored[cause.value] for row in self.evaluators.values())

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        usage = self.usage
        return {
            "lines": self.lines,
            "bad_lines": self.bad_lines,
            "judge_cache_hits": usage.cache_hits,
            "interrupted": self.is_interrupted,
            "judge": self.judge,
            "judge_calls": usage.calls,
            "judge_tokens": usage.input_tokens + usage.output_tokens,
            "judge_cost_usd": round(usage.cost_usd, 6),
            "evaluators": [row.as_json() for row in self.evaluators.values()],
            "bottlenecks": {
                name.value: self.bottlenecks[name] for name in Bottleneck if self.bottlenecks[name]
            },
        }
