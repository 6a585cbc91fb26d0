"""Shows the scores of many answers as a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ragmonitor.cli.terminal import figures_table
from ragmonitor.offline.summary import EvaluatorSummary, Tally

if TYPE_CHECKING:
    from rich.table import Table


def scores_table(tally: Tally, parts: Mapping[str, Tally] | None = None) -> Table:
    """Return a row for each evaluator, each followed by the rows of the parts.

    Args:
        tally: Over all answers.
        parts: Over some of them, by a name, such as a language.
    """
    several = len({row.judge for row in tally.rows}) > 1
    judge = ("judge",) if several else ()
    columns = ("evaluator", *judge, "scored", "not scored", "mean", "95 % interval")
    table = figures_table(*columns, texts=["judge", "not scored"])
    rows_of = {
        name: {(row.evaluator, row.judge): row for row in part.rows}
        for name, part in (parts or {}).items()
    }
    for row in tally.rows:
        _add(table, row.evaluator, row, several=several)
        for name, rows in rows_of.items():
            if (row.evaluator, row.judge) in rows:
                part = rows[row.evaluator, row.judge]
                _add(table, f"  {name}", part, several=several, style="dim")
    return table


def _add(
    table: Table, title: str, row: EvaluatorSummary, *, several: bool, style: str | None = None
) -> None:
    estimate = row.estimate
    causes = ", ".join(f"{cause} {n}" for cause, n in sorted(row.unscored.items()))
    table.add_row(
        title,
        *([row.judge] if several else []),
        str(row.scored),
        causes or "-",
        f"{estimate.mean:.3f}" if estimate else "-",
        f"{estimate.lower:.3f} to {estimate.upper:.3f}" if estimate else "-",
        style=style,
    )
