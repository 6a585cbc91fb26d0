"""Scores of what an application answered to golden questions, by the judges of a monitor."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

from ragmonitor.apart import call_apart, is_on_a_loop, run
from ragmonitor.golden_reading import GOLDEN_EVALUATORS
from ragmonitor.goldens.asking import Ask, Asked, ask_all
from ragmonitor.goldens.golden import Golden
from ragmonitor.offline.evaluating import scorer_of
from ragmonitor.offline.scoring import Scorer, unread_because
from ragmonitor.offline.shapes import Line
from ragmonitor.protocols import Judge
from ragmonitor.records import JudgeUsage, Report, Scored, evaluator_name

DOCUMENT_EVALUATORS: Final = ("document_recall", "document_precision")
"""Retrieved chunks beside the golden's own, by ids or texts; texts need rapidfuzz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenOutcome:
    """The judge's scores of one answer to a golden question."""

    asked: Asked
    report: Report | None
    """With the sentences' verdicts; None: there was no answer, or the judge was not asked."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """The score of each evaluator, 0 to 1."""

    @property
    def golden(self) -> Golden:
        """The question."""
        return self.asked.golden


def golden_evaluators(goldens: Iterable[Golden]) -> tuple[str, ...]:
    """Return the evaluators that these questions can be scored by, in the order of files."""
    chunks = [chunk for golden in goldens for chunk in golden.chunks]
    by_ids = all(chunk.id for chunk in chunks)
    if chunks and (by_ids or find_spec("rapidfuzz") is not None):
        return (*GOLDEN_EVALUATORS, *DOCUMENT_EVALUATORS)
    return GOLDEN_EVALUATORS


async def judged(asked: Sequence[Asked], scorer: Scorer) -> AsyncGenerator[GoldenOutcome]:
    """Yield an outcome for each, in order; what got no answer has no report.

    Args:
        asked: The questions with their answers.
        scorer: As of `ragmonitor.offline.evaluating.scorer_of`, prepared; its `usage` says
            afterwards what was spent.
    """
    answered = [each for each in asked if each.interaction is not None]
    lines = (Line(number=n, interaction=each.interaction) for n, each in enumerate(answered, 1))
    async with aclosing(scorer.outcomes(lines)) as coming:
        for each in asked:
            if each.interaction is None:
                yield GoldenOutcome(asked=each, report=None)
            else:
                outcome = await anext(coming, None)
                yield _outcome(each, None if outcome is None else outcome.report)


def _outcome(asked: Asked, report: Report | None) -> GoldenOutcome:
    evaluations = () if report is None else report.evaluations
    scores = {evaluator_name(e.evaluator): e.score for e in evaluations if isinstance(e, Scored)}
    return GoldenOutcome(asked=asked, report=report, scores=scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRun:
    """The result of `ask_and_score`."""

    outcomes: tuple[GoldenOutcome, ...]
    """In the order of the questions; each stands there as often as it was asked."""
    judge: str
    """Name and version."""
    rules: tuple[str, ...]
    """As of `Scorer.rules`."""
    usage: JudgeUsage

    def unread(self) -> list[str]:
        """Return of each answer on which the judge gave nothing the reason: `cause: detail`."""
        reports = (each.report for each in self.outcomes if each.report is not None)
        return [reason for report in reports if (reason := unread_because(report))]


def ask_and_score(
    goldens: Iterable[Golden],
    ask: Ask,
    *,
    judge: Judge | str | None = None,
    repeats: int = 1,
    timeout_s: float = 60.0,
    concurrency: int = 4,
    **scoring: Any,
) -> GoldenRun:
    """Return what an application answers to golden questions, scored.

    Blocks; on a running event loop it works on a thread of its own meanwhile.

    Args:
        goldens: The questions.
        ask: The application: a callable, or `HttpAsk`.
        judge: As of `ragmonitor.evaluate`; None: the built-in one.
        repeats: How often each is asked.
        timeout_s: For one question.
        concurrency: Questions under way at once.
        scoring: Further options of `ragmonitor.evaluate`: `budget_usd`, `evaluators`, ...

    Raises:
        SettingsError: The judge is unknown, or needs a budget.
    """
    questions = list(goldens)
    scoring.setdefault("evaluators", golden_evaluators(questions))
    scorer = scorer_of(judge=judge, **scoring)

    async def work() -> GoldenRun:
        repeated = [golden for golden in questions for _ in range(repeats)]
        try:
            await scorer.prepare()
            coming = ask_all(ask, repeated, timeout_s=timeout_s, concurrency=concurrency)
            asked = [each async for each in coming]
            outcomes = tuple([each async for each in judged(asked, scorer)])
        finally:
            await scorer.close()
        return GoldenRun(
            outcomes=outcomes,
            judge=str(scorer.judge.identity),
            rules=scorer.rules,
            usage=scorer.usage,
        )

    return call_apart(run, work()) if is_on_a_loop() else run(work())
