"""`ragmonitor compare`: the scores of two versions of an application on the same questions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ragmonitor.cli.options import CompareOptions
from ragmonitor.cli.score import BAD_LINES_SHOWN, cost_text, load_plugins_and_embedding, scorer_for
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json, print_table, progress, say
from ragmonitor.offline.scoring import Scorer, unread_because
from ragmonitor.offline.shapes import read_file
from ragmonitor.records import Report, Scored, evaluator_name
from ragmonitor.runtime.errors import InputError
from ragmonitor.stats.paired import paired_difference

MIN_PAIRS: Final = 10

Side = tuple[list[Report], int]
"""The reports on one of the two files, and the number of its lines that cannot be read."""


def run(options: CompareOptions) -> int:
    """Score two files, compare them, and return the exit code.

    Raises:
        RagMonitorError: A file or a setting is wrong, or the two have no question in common.
    """
    load_plugins_and_embedding(options)
    scorer = scorer_for(options)
    files = options.before, options.after

    async def scored() -> list[Side]:
        async with scorer:
            return [await _side(scorer, file) for file in files]

    sides = asyncio.run(scored())
    (before, _), (after, _) = sides
    pairs = paired(before, after)
    if not pairs:
        raise InputError(f"{' and '.join(files)} have no question in common")
    without_partner = [len(reports) - len(pairs) for reports, _ in sides]
    rows = [_row(name, scores) for name, scores in pairs_of_scores(pairs).items()]
    if options.json_output:
        print_json(
            {
                "first": options.before,
                "second": options.after,
                "judge": str(scorer.judge.identity),
                "pairs": len(pairs),
                "only_first": without_partner[0],
                "only_second": without_partner[1],
                "bad_lines": sum(bad_lines for _, bad_lines in sides),
                "judge_calls": scorer.usage.calls,
                "judge_cost_usd": round(scorer.usage.cost_usd, 6),
                "evaluators": rows,
            }
        )
    else:
        columns = ("evaluator", "pairs", "before", "after", "difference", "95 % interval")
        print_table(columns, map(_cells, rows))
        say(
            f"before: {options.before}; after: {options.after}; judge {scorer.judge.identity}\n"
            f"pairs of answers to one question: {len(pairs)}; without a partner: "
            f"{without_partner[0]} before, {without_partner[1]} after\n"
            "* more than chance: the interval leaves out 0"
        )
        if len(pairs) < MIN_PAIRS:
            say(f"fewer than {MIN_PAIRS} pairs decide nothing: compare more answers")
        if scorer.budget is not None:
            say(cost_text(scorer, scorer.budget))
    is_wrong = False
    for file, (reports, bad_lines) in zip(files, sides, strict=True):
        unread = [why for report in reports if (why := unread_because(report))]
        if unread:
            say(f"{file}: {len(unread)} answers were not judged, such as: {unread[0]}")
        is_wrong |= bad_lines > 0 or (bool(unread) and not any(map(_scores, reports)))
    return SOMETHING_WRONG if is_wrong else FINE


async def _side(scorer: Scorer, file: str) -> Side:
    reports: list[Report] = []
    bad_lines = 0
    with progress(lambda: f"scoring {Path(file).name}: {len(reports)} answers") as advance:
        async with aclosing(scorer.outcomes(read_file(file))) as outcomes:
            async for outcome in outcomes:
                if outcome.report is not None:
                    reports.append(outcome.report)
                    advance()
                    continue
                bad_lines += 1
                if bad_lines <= BAD_LINES_SHOWN:
                    say(f"{file}, line {outcome.line.number}: {outcome.line.error}")
    return reports, bad_lines


def paired(before: Iterable[Report], after: Iterable[Report]) -> list[tuple[Report, Report]]:
    """Return the reports on the same questions.

    Of records that share a question the first belongs to the first, the second to the second.
    """
    left, right = _by_question(before), _by_question(after)
    return [(report, right[key]) for key, report in left.items() if key in right]


def _by_question(reports: Iterable[Report]) -> dict[tuple[str, int], Report]:
    met: Counter[str] = Counter()
    found: dict[tuple[str, int], Report] = {}
    for report in reports:
        question = " ".join(report.interaction.query.split()).casefold()
        found[question, met[question]] = report
        met[question] += 1
    return found


def pairs_of_scores(
    pairs: Sequence[tuple[Report, Report]],
) -> dict[str, list[tuple[float, float]]]:
    """Return the scores of each evaluator on both sides, where both have one."""
    scores: dict[str, list[tuple[float, float]]] = {}
    for before, after in pairs:
        first, second = _scores(before), _scores(after)
        for name in dict.fromkeys((*first, *second)):
            both = scores.setdefault(name, [])
            if name in first and name in second:
                both.append((first[name], second[name]))
    return scores


def _scores(report: Report) -> dict[str, float]:
    scored = (each for each in report.evaluations if isinstance(each, Scored))
    return {evaluator_name(each.evaluator): each.score for each in scored}


def _row(name: str, scores: Sequence[tuple[float, float]]) -> dict[str, Any]:
    paired = paired_difference(scores)
    if paired is None:
        return {"evaluator": name, "pairs": 0}
    rounded = {field: round(value, 4) for field, value in asdict(paired).items()}
    return {"evaluator": name} | rounded | {"is_told_apart": paired.is_told_apart}


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    if not row["pairs"]:
        return row["evaluator"], "0", "-", "-", "-", "-"
    return (
        row["evaluator"],
        str(row["pairs"]),
        f"{row['first_mean']:.3f}",
        f"{row['second_mean']:.3f}",
        f"{row['difference']:+.3f}",
        f"{row['lower']:+.3f} to {row['upper']:+.3f} {'*' if row['is_told_apart'] else ' '}",
    )
