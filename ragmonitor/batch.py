"""Scores Arrow tables of recorded answers, for Spark, Ray and whatever else speaks Arrow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, Final, Self, Unpack

from ragmonitor.offline.scoring import RunOptions, scorer_of
from ragmonitor.offline.shapes import Line, columns_of, read_line
from ragmonitor.records import JudgeUsage
from ragmonitor.runtime.apart import EXECUTOR, is_on_a_loop
from ragmonitor.runtime.errors import InputError, MissingExtraError

try:
    import pyarrow as pa
except ImportError as error:
    raise MissingExtraError("pyarrow, which holds the tables,", "datasets") from error

__all__ = ["BatchScorer", "score"]

ROWS_AT_ONCE: Final = 256
"""Rows that are Python objects at any time, whatever the table's size."""


def score(table: pa.Table | pa.RecordBatch, **options: Unpack[RunOptions]) -> pa.Table:
    """Return the table with the scores of its answers in further columns.

    One call is one run: a judge is made for it, and a budget holds for it. To score many tables
    with one judge and one budget use a `BatchScorer`.

    Args:
        table: Recorded answers, in columns of our format, of RAGAS' or of RAGChecker's.
        options: As of `ragmonitor.evaluate`.

    Raises:
        InputError: A column is missing, is there twice, or has the name of a new one.
        SettingsError: An evaluator is unknown, or a budget is missing.
        MissingExtraError: pyarrow, or what the judge needs, is not installed.

    Example:
        ```python
        from pyarrow import parquet
        from ragmonitor import batch

        parquet.write_table(batch.score(parquet.read_table("answers.parquet")), "scored.parquet")
        ```
    """
    with BatchScorer(**options) as scorer:
        return scorer(table)


class BatchScorer:
    """Scores one table after the other, with one judge and within one budget.

    Ray Data's `map_batches` takes the class as it is. Not for several threads at once.
    """

    def __init__(self, **options: Unpack[RunOptions]) -> None:
        """Make the judge.

        Args:
                options: As of `ragmonitor.evaluate`; a budget is for all tables together.

        Raises:
            SettingsError: An evaluator is unknown, or a budget is missing.
            MissingExtraError: pyarrow, or what the judge needs, is not installed.
        """
        self._scorer = scorer_of(**options)
        self._is_prepared = False
        # One loop for all tables, so that the judge's connections outlast each.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def usage(self) -> JudgeUsage:
        """The calls, tokens and cost of the judge so far."""
        return self._scorer.usage

    def __call__(self, table: pa.Table | pa.RecordBatch) -> pa.Table:
        """Return the table with the scores of its answers in further columns. Blocks.

        Rows and their order stay. A row that cannot be read, also for the type of a column, has the
        reason under `error`, and no scores. An empty table gives an empty one with the columns and
        types of any other.

        Args:
            table: Recorded answers.

        Raises:
            InputError: A column is missing, is there twice, or has the name of a new one.
            SettingsError: The judge cannot read; says what to do.
        """
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        columns = columns_of(table.schema.names, "table")
        known = [name for name in table.schema.names if name in columns.known]
        has_reference = any(name in known for name in columns.reference)
        fields = self._fields(has_reference=has_reference)
        for name in fields.names:
            if name in table.column_names:
                raise InputError(
                    f"table: the column {name!r} is there already, and scores are to go there; "
                    "drop or rename it"
                )
        for name in known:
            if known.count(name) > 1:
                raise InputError(
                    f"table: {known.count(name)} columns are called {name!r}; rename all but one"
                )
        # A vector beside each chunk is not looked at.
        rows = self._run(self._scored(table.select(known)))
        scored = pa.Table.from_pylist(rows, fields)
        for field in fields:
            table = table.append_column(field, scored.column(field.name))
        return table

    def close(self) -> None:
        """Close the judge's connections. The last thing to be called."""
        self._run(self._scorer.judge.close())
        self._runner.close()

    def _run(self, work: Any) -> Any:
        self._runner.get_loop().set_default_executor(EXECUTOR)
        if is_on_a_loop():
            return EXECUTOR.submit(self._runner.run, work).result()
        return self._runner.run(work)

    def _fields(self, *, has_reference: bool) -> pa.Schema:
        """Return the new columns, the same for all tables with the same columns."""
        scorer = self._scorer
        entries = scorer.entries if has_reference else scorer.entries_without_reference
        names = [entry.name for entry in entries]
        types = {
            **dict.fromkeys(names, pa.float64()),
            **{f"{name}_unscored": pa.string() for name in names},
            "diagnosis": pa.string(),
            "risk": pa.float64(),
            "unsupported": pa.list_(pa.string()),
            "judge": pa.string(),
            "error": pa.string(),
        }
        return pa.schema([*types.items()])

    async def _scored(self, table: pa.Table) -> list[dict[str, Any]]:
        if not self._is_prepared:
            await self._scorer.prepare()
            self._is_prepared = True
        async with aclosing(self._scorer.outcomes(_lines(table))) as outcomes:
            # What has no column is left out, and what is left out of it is null.
            return [outcome.as_row() async for outcome in outcomes]


def _lines(table: pa.Table) -> Iterator[Line]:
    for start in range(0, table.num_rows, ROWS_AT_ONCE):
        rows = table.slice(start, ROWS_AT_ONCE).to_pylist()
        for number, row in enumerate(rows, start + 1):
            yield read_line(row, number)
