"""`ragmonitor compare`: the scores of two versions of an application on the same questions."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragmonitor.cli.options import CompareOptions
from ragmonitor.cli.score import (
    BAD_LINES_SHOWN,
    cost_text,
    load_plugins_and_embedding,
    scorer_for,
)
from ragmonitor.cli.score_files import Written, read_back
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    figures_table,
    new_console,
    print_json,
    progress,
    say,
)
from ragmonitor.offline.scoring import PASSING, Outcome, Scorer, unread_because
from ragmonitor.offline.shapes import read_file
from ragmonitor.records import Cause, JudgeUsage, Scored, evaluator_name
from ragmonitor.runtime.errors import InputError
from ragmonitor.stats.paired import Difference, paired_difference

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The scores of one answer."""

    id: str
    question: str | None
    """None: unknown; an output of `score` has none."""
    scores: Mapping[str, float | None]
    """The score of each evaluator; None: there is none."""


@dataclass(slots=True, kw_only=True)
class Side:
    """One of the two files."""

    path: str
    judge: str = ""
    scoring_version: str = ""
    """The versions of the judge and of every evaluator; empty: unknown."""
    answers: list[Answer] = field(default_factory=list)
    bad_lines: int = 0
    unread: list[str] = field(default_factory=list)
    """The reason for each answer on which the judge gave nothing."""

    @property
    def is_unscored(self) -> bool:
        """Whether the judge gave nothing on any answer."""
        scores = (score for answer in self.answers for score in answer.scores.values())
        return bool(self.unread) and all(score is None for score in scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The answers that belong together."""

    by: str
    """`id` or `question`."""
    pairs: Sequence[tuple[Answer, Answer]]
    only_first: int
    only_second: int

    def differences(self) -> dict[str, Difference | None]:
        """Return the difference of each evaluator's means, the second less the first."""
        names = dict.fromkeys(
            name for first, second in self.pairs for name in (*first.scores, *second.scores)
        )
        return {
            name: paired_difference(
                [
                    (before, after)
                    for first, second in self.pairs
                    if (before := first.scores.get(name)) is not None
                    and (after := second.scores.get(name)) is not None
                ]
            )
            for name in names
        }


def run(options: CompareOptions) -> int:
    """Compare two files, scoring them first if needed, and return the exit code.

    Raises:
        RagMonitorError: A file or a setting is wrong; or the two were scored by different judges,
            or have no question in common.
    """
    load_plugins_and_embedding(options)
    scorer = scorer_for(options)
    first, second = asyncio.run(_sides(scorer, options))
    _check_versions(first, second)
    pairing = pair(first.answers, second.answers)
    if not pairing.pairs:
        raise InputError(f"{first.path} and {second.path} have no id and no question in common")
    if options.json_output:
        print_json(_as_json(first, second, pairing, scorer.usage))
    else:
        _show(first, second, pairing, scorer, options)
    for side in (first, second):
        if (n := len(side.unread)) > 0:
            say(f"{side.path}: {n} answers were not judged, such as: {side.unread[0]}")
    is_wrong = any(side.bad_lines or side.is_unscored for side in (first, second))
    return SOMETHING_WRONG if is_wrong else FINE


def pair(first: Sequence[Answer], second: Sequence[Answer]) -> Pairing:
    """Return the answers to the same questions, or with the same ids where questions are unknown.

    Of records that share a question the first belongs to the first, the second to the second.
    """
    has_questions = all(each.question is not None for each in (*first, *second))
    left, right = _keyed(first, has_questions), _keyed(second, has_questions)
    pairs = [(before, right[name]) for name, before in left.items() if name in right]
    return Pairing(
        by="question" if has_questions else "id",
        pairs=pairs,
        only_first=len(first) - len(pairs),
        only_second=len(second) - len(pairs),
    )


def _keyed(answers: Sequence[Answer], has_questions: bool) -> dict[tuple[str, int], Answer]:
    met: Counter[str] = Counter()
    keyed: dict[tuple[str, int], Answer] = {}
    for answer in answers:
        name = _normal(answer.question or "") if has_questions else answer.id
        keyed[name, met[name]] = answer
        met[name] += 1
    return keyed


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()


async def _sides(scorer: Scorer, options: CompareOptions) -> list[Side]:
    try:
        return [await _side(scorer, options, file) for file in (options.before, options.after)]
    finally:
        await scorer.close()


async def _side(scorer: Scorer, options: CompareOptions, file: str) -> Side:
    if (scored := _scored(file)) is not None:
        return scored
    side = Side(path=file, judge=str(scorer.judge.identity), scoring_version=scorer.scoring_version)
    records = read_file(file)
    title = f"scoring {Path(file).name}"
    with progress(title, None, quiet=options.quiet) as advance:
        await scorer.prepare()
        async with contextlib.aclosing(scorer.outcomes(records)) as outcomes:
            async for outcome in outcomes:
                _take(side, outcome, options)
                advance(len(side.answers))
    return side


def _take(side: Side, outcome: Outcome, options: CompareOptions) -> None:
    if outcome.report is None:
        side.bad_lines += 1
        if not options.quiet and side.bad_lines <= BAD_LINES_SHOWN:
            say(f"{side.path}, line {outcome.line.number}: {outcome.line.error}")
        return
    if reason := unread_because(outcome.report):
        side.unread.append(reason)
    side.answers.append(
        Answer(
            id=outcome.report.interaction.id,
            question=outcome.report.interaction.query,
            scores={
                evaluator_name(evaluation.evaluator): evaluation.score
                if isinstance(evaluation, Scored)
                else None
                for evaluation in outcome.report.evaluations
            },
        )
    )


def _scored(file: str) -> Side | None:
    """Return the scores in an output of `score`; None: the file is not such an output.

    Raises:
        InputError: It cannot be read, or several judges scored it.
    """
    path = Path(file)
    # Of a pipe nothing is looked at beforehand: what has been read there is gone.
    records = read_back(path) if path.is_file() else None
    if records is None:
        return None
    side: Side | None = None
    for written in records:
        if side is None:
            side = Side(path=file, judge=written.judge, scoring_version=written.scoring_version)
        elif _scored_by(side) != _scored_by(written):
            raise InputError(
                f"{file} was scored by several judges, or versions of evaluators: {side.judge} and "
                f"{written.judge}; score it anew by one of them"
            )
        if reason := _unread_because(written):
            side.unread.append(reason)
        side.answers.append(_answer(written))
    return side


def _scored_by(scores: Side | Written) -> tuple[str, str]:
    """Return the judge and the versions of everything that scored.

    An assessment's own identity differs by record: with a reference answer, by another form of
    reply, with findings that are minor. So it counts only where there is no scoring version.
    """
    judge, version = scores.judge, scores.scoring_version
    return (judge.rpartition("@")[0] if version else judge), version


def _unread_because(written: Written) -> str:
    """Return why the judge gave nothing on an answer; empty: it gave a verdict or needed none."""
    causes = [each for each in written.scores.values() if isinstance(each, Cause)]
    is_read = len(causes) < len(written.scores)
    return "" if is_read else next((str(each) for each in causes if each in PASSING), "")


def _answer(written: Written) -> Answer:
    return Answer(
        id=written.id,
        question=None,
        scores={
            name: None if isinstance(score, Cause) else score
            for name, score in written.scores.items()
        },
    )


def _check_versions(first: Side, second: Side) -> None:
    is_known = bool(first.scoring_version and second.scoring_version)
    judges = [_scored_by(side)[0] if is_known else side.judge for side in (first, second)]
    if judges[0] != judges[1]:
        raise InputError(
            f"{first.path} was scored by {first.judge}, {second.path} by {second.judge}: that "
            "would compare judges; score both by one"
        )
    if is_known and first.scoring_version != second.scoring_version:
        raise InputError(
            f"{first.path} and {second.path} were scored by different evaluators, or different "
            "versions of them or of the judge; score both with the same --judge and --evaluators"
        )


def _as_json(first: Side, second: Side, pairing: Pairing, usage: JudgeUsage) -> dict[str, Any]:
    return {
        "first": first.path,
        "second": second.path,
        "judge": first.judge,
        "paired_by": pairing.by,
        "pairs": len(pairing.pairs),
        "only_first": pairing.only_first,
        "only_second": pairing.only_second,
        "bad_lines": first.bad_lines + second.bad_lines,
        "judge_calls": usage.calls,
        "judge_cost_usd": round(usage.cost_usd, 6),
        "evaluators": [
            {"evaluator": name, "pairs": 0} if each is None else _row(name, each)
            for name, each in pairing.differences().items()
        ],
    }


def _row(name: str, paired: Difference) -> dict[str, Any]:
    means = ("first_mean", "second_mean", "difference", "lower", "upper")
    rounded = {mean: round(getattr(paired, mean), 4) for mean in means}
    is_told_apart = {"is_told_apart": paired.is_told_apart}
    return {"evaluator": name, "pairs": paired.pairs} | rounded | is_told_apart


def _show(
    first: Side, second: Side, pairing: Pairing, scorer: Scorer, options: CompareOptions
) -> None:
    console = new_console()
    console.print(_table(pairing))
    if options.quiet:
        return
    beside = new_console(err=True)
    beside.print(
        f"before: {first.path}; after: {second.path}; judge {first.judge}\n"
        f"{len(pairing.pairs)} pairs by {pairing.by}; without a partner: {pairing.only_first} "
        f"before, {pairing.only_second} after\n* more than chance: the interval leaves out 0"
    )
    if scorer.budget is not None:
        beside.print(cost_text(scorer, scorer.budget))


def _table(pairing: Pairing) -> Table:
    table = figures_table("evaluator", "pairs", "before", "after", "difference", "95 % interval")
    for name, paired in pairing.differences().items():
        if paired is None:
            table.add_row(name, "0", "-", "-", "-", "-")
            continue
        table.add_row(
            name,
            str(paired.pairs),
            f"{paired.first_mean:.3f}",
            f"{paired.second_mean:.3f}",
            f"{paired.difference:+.3f}",
            f"{paired.lower:+.3f} to {paired.upper:+.3f} {'*' if paired.is_told_apart else ' '}",
        )
    return table
