"""The sums over many answers as a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ragmonitor.offline.summary import EvaluatorSummary
from ragmonitor.offline.summary import Tally as Sums

if TYPE_CHECKING:
    from rich.table import Table


class Tally(Sums):
    """Sums that can be shown."""

    def table(self) -> Table:
        """Return the rows as a table for people."""
        return table_of(self)


def table_of(sums: Sums, parts: Mapping[str, Sums] | None = None) -> Table:
    """Return the rows as a table for people, each followed by what the parts say of it.

    Args:
        sums: Over all answers.
        parts: Sums over some of them by a name, such as a language.
    """
    from rich import box
    from rich.table import Table

    several = len({row.judge for row in sums.rows}) > 1
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("evaluator", overflow="fold")
    if several:
        table.add_column("judge", no_wrap=True)
    table.add_column("scored", justify="right", no_wrap=True)
    table.add_column("unscored")
    table.add_column("mean", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    rows_of = {
        name: {(row.evaluator, row.judge): row for row in part.rows}
        for name, part in (parts or {}).items()
    }
    for row in sums.rows:
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
