"""One release's answers to golden questions, asked and scored, and the file that keeps them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from ragmonitor.goldens.asking import Ask, Asker, ask_each
from ragmonitor.goldens.golden import Golden, GoldensError, golden_id
from ragmonitor.offline.scoring import scorer_of, unread_because
from ragmonitor.offline.shapes import Line
from ragmonitor.records import Interaction, Report, Scored, evaluator_name
from ragmonitor.runtime.apart import run
from ragmonitor.runtime.printable import encodable
from ragmonitor.runtime.protocols import Judge
from ragmonitor.runtime.tables import owners_alone
from ragmonitor.semconv.metrics import GOLDEN_EVALUATORS

DOCUMENT_EVALUATORS: Final = ("document_recall", "document_precision")
"""Retrieved chunks beside the golden's own, by ids or texts; texts need rapidfuzz."""


class ScoredGolden(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One golden question with the answer that it got."""

    id: str
    question: str
    asked: str
    """The hash of what was asked and of what is right, which a review may change."""
    answer: str = ""
    scores: dict[str, float] = {}
    """The score of each evaluator, 0 to 1."""
    unread: str = ""
    """Why the judge gave nothing: `cause: detail`."""
    error: str = ""
    """Why there is no answer; empty: there is one."""
    shortcomings: tuple[str, ...] = ()
    """The faults of the answer, a line each: the sentence and its chunk."""


class ScoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, by one judge."""

    scored_by: tuple[str, ...]
    """The judge, its prompts, the least severity and every evaluator, with their versions.

    They must be equal to be compared.
    """
    goldens: tuple[ScoredGolden, ...]


def golden_evaluators(goldens: Iterable[Golden]) -> tuple[str, ...]:
    """Return the evaluators that these questions can be scored by, in the order of files."""
    chunks = [chunk for golden in goldens for chunk in golden.chunks]
    by_ids = all(chunk.id for chunk in chunks)
    if chunks and (by_ids or find_spec("rapidfuzz") is not None):
        return (*GOLDEN_EVALUATORS, *DOCUMENT_EVALUATORS)
    return GOLDEN_EVALUATORS


def ask_and_score(
    goldens: Iterable[Golden],
    ask: Ask,
    *,
    judge: Judge | str | None = None,
    timeout_s: float = 60.0,
    concurrency: int = 4,
    **scoring: Any,
) -> ScoredRun:
    """Return what an application answers to golden questions, scored.

    Blocks; on a running event loop it works on a thread of its own meanwhile.

    Args:
        goldens: The questions.
        ask: The application: a callable, or `HttpAsk`.
        judge: As of `ragmonitor.evaluate`; None: the built-in one.
        timeout_s: For one question.
        concurrency: Questions under way at once.
        scoring: Further options of `ragmonitor.evaluate`: `budget_usd`, `evaluators`, ...

    Raises:
        SettingsError: The judge is unknown, or needs a budget.
    """
    questions = list(goldens)
    scoring.setdefault("evaluators", golden_evaluators(questions))
    scorer = scorer_of(judge=judge, **scoring)
    asked: list[Interaction] = []

    async def work() -> ScoredRun:
        async with scorer:
            asker = Asker(ask, timeout_s=timeout_s)
            await ask_each(asker, questions, asked.append, concurrency=concurrency)
            lines = [Line(number=n, interaction=x) for n, x in enumerate(asked) if not x.error]
            outcomes = {each.line.number: each.report async for each in scorer.outcomes(lines)}
        answers = {
            each.probe.golden: (each, outcomes.get(n)) for n, each in enumerate(asked) if each.probe
        }
        evaluations = [e for each in outcomes.values() if each for e in each.evaluations]
        return ScoredRun(
            scored_by=(
                str(scorer.judge.identity),
                *dict.fromkeys(e.evaluator for e in evaluations),
            ),
            goldens=tuple(_scored(golden, *answers[golden.id]) for golden in questions),
        )

    return run(work())


def _scored(golden: Golden, answer: Interaction, report: Report | None) -> ScoredGolden:
    evaluations = () if report is None else report.evaluations
    return ScoredGolden(
        id=golden.id,
        question=golden.question,
        asked=_asked(golden),
        answer=answer.answer,
        scores={
            evaluator_name(each.evaluator): each.score
            for each in evaluations
            if isinstance(each, Scored)
        },
        unread="" if report is None else encodable(unread_because(report)),
        error=answer.error,
        # Names of chunks stand in them, and no file holds half of a character.
        shortcomings=() if report is None else (*map(encodable, shortcomings(report)),),
    )


def _asked(golden: Golden) -> str:
    # Without the chunks: with another cut of the documents, the answers are compared all the same.
    right = [] if golden.expects_refusal else [golden.answer]
    texts = [golden_id(golden.question), *right]
    return hashlib.sha256(msgspec.json.encode(texts)).hexdigest()[:16]


def shortcomings(report: Report) -> list[str]:
    """Return what is wrong with an answer: unsupported sentences, and how it misses a reference."""
    lines = [
        f"{each.verdict}: {each.text.strip()!r} ({report.evidence(each)})"
        for each in report.unsupported
    ]
    assessment = report.assessment
    if assessment is None or assessment.reference is None:
        return lines
    claims, reading = assessment.claims or (), assessment.reference
    lines += [
        f"not in the reference answer: {claim.text.strip()!r}"
        for claim, is_right in zip(claims, reading.answer_claims, strict=False)
        if not is_right
    ]
    lines += [
        f"missing from the answer: {each.text.strip()!r}"
        for each in reading.sentences
        if not each.in_answer
    ]
    return lines


def write_scored_run(path: str | os.PathLike[str], run: ScoredRun) -> None:
    """Write it as JSON, for its owner alone. Raises `OSError`."""
    with open(path, "wb", opener=owners_alone) as file:
        file.write(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


def read_scored_run(path: str | os.PathLike[str]) -> ScoredRun:
    """Return what `write_scored_run` wrote.

    Raises:
        GoldensError: The file cannot be read, or `ragmonitor gate --save` wrote no such file.
    """
    name = os.fspath(path)
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=ScoredRun)
    except OSError as error:
        raise GoldensError(f"{name}: {error.strerror or error}") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise GoldensError(
            f"{name} is no baseline: {error}; `ragmonitor gate GOLDENS --save {name}` writes one"
        ) from error
