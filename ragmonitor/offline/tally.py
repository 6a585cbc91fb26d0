"""Sums over many answers: scored, unscored by cause, mean and interval, per evaluator and judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ragmonitor.estimation import summarise
from ragmonitor.records import Estimate, Evaluation, Moments, Scored, evaluator_name


@dataclass(slots=True, kw_only=True)
class Row:
    """One evaluator's outcomes by one judge."""

    evaluator: str
    judge: str
    scored: int = 0
    unscored: Counter[str] = field(default_factory=Counter)
    """By cause."""
    moments: Moments = field(default_factory=Moments)

    @property
    def estimate(self) -> Estimate | None:
        """The mean with its 95 % interval; None where nothing was scored."""
        return summarise(self.moments)

    def as_json(self) -> dict[str, Any]:
        """Return the row as an object for JSON; nulls where nothing was scored."""
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
        self._rows: dict[tuple[str, str], Row] = {}

    def add(self, evaluations: Iterable[Evaluation], chance: float = 1.0) -> None:
        """Take one answer's evaluations in; a score weighs 1 / chance."""
        for evaluation in evaluations:
            name, judge = evaluator_name(evaluation.evaluator), evaluation.judge.name
            row = self._rows.get((name, judge))
            if row is None:
                row = self._rows[name, judge] = Row(evaluator=name, judge=judge)
            if not isinstance(evaluation, Scored):
                row.unscored[evaluation.cause.value] += 1
                continue
            row.scored += 1
            if chance > 0:
                row.moments += Moments.of(evaluation.score, 1 / chance)

    @property
    def rows(self) -> tuple[Row, ...]:
        """One per evaluator and judge, in the order they were met."""
        return tuple(self._rows.values())

    @property
    def scored(self) -> int:
        """Scores, over all evaluators and judges."""
        return sum(row.scored for row in self.rows)

    @property
    def unscored(self) -> dict[str, int]:
        """Missing scores by cause, over all evaluators and judges."""
        causes: Counter[str] = Counter()
        for row in self.rows:
            causes.update(row.unscored)
        return dict(sorted(causes.items()))

    def as_json(self) -> list[dict[str, Any]]:
        """Return the rows as objects for JSON."""
        return [row.as_json() for row in self.rows]
