"""Scores Arrow tables of recorded answers, for Spark, Ray and whatever else speaks Arrow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from ragmonitor.offline.evaluating import RunOptions, scorer_of
from ragmonitor.offline.shapes import LISTS, Columns, Line, columns_named, read_record
from ragmonitor.records import JudgeUsage
from ragmonitor.runtime.apart import EXECUTOR, call_apart, is_on_a_loop
from ragmonitor.runtime.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchScorer", "score"]

ROWS_AT_ONCE: Final = 256
"""Rows that are Python objects at any time, whatever the table's size."""


def score(
    table: pa.Table | pa.RecordBatch, *, prefix: str = "", **options: Unpack[RunOptions]
) -> pa.Table:
    """Return the table with the scores of its answers in further columns.

    One call is one run: a judge is made for it, and a budget holds for it. To score many tables
    with one judge and one budget use a `BatchScorer`.

    Args:
        table: Recorded answers, in columns of our format, of RAGAS' or of RAGChecker's.
        prefix: Put before the name of each new column.
        options: As of `ragmonitor.evaluate`.

    Raises:
        InputError: A column is missing, is of the wrong type, or has the name of a new one.
        SettingsError: An evaluator is unknown, or a budget is missing.
        MissingExtraError: pyarrow, or what the judge needs, is not installed.

    Example:
        ```python
        from pyarrow import parquet
        from ragmonitor import batch

        parquet.write_table(batch.score(parquet.read_table("answers.parquet")), "scored.parquet")
        ```
    """
    with BatchScorer(prefix=prefix, **options) as scorer:
        return scorer(table)


class BatchScorer:
    """Scores one table after the other, with one judge and within one budget.

    Ray Data's `map_batches` takes the class as it is. Not for several threads at once.
    """

    def __init__(self, *, prefix: str = "", **options: Unpack[RunOptions]) -> None:
        """Make the judge.

        Args:
            prefix: Put before the name of each new column.
            options: As of `ragmonitor.evaluate`; a budget is for all tables together.

        Raises:
            SettingsError: An evaluator is unknown, or a budget is missing.
            MissingExtraError: pyarrow, or what the judge needs, is not installed.
        """
        _arrow_library()
        self._prefix = prefix
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

        Rows and their order stay. A row that cannot be read has the reason under `error`, and no
        scores. An empty table gives an empty one with the columns and types of any other.

        Args:
            table: Recorded answers.

        Raises:
            InputError: A column is missing, is of the wrong type, or has the name of a new one.
            SettingsError: The judge cannot read; says what to do.
        """
        import pyarrow as pa

        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        columns = _checked(table.schema)
        has_reference = any(name in table.column_names for name in columns.reference)
        fields = self._fields(has_reference=has_reference)
        for name in fields.names:
            if name in table.column_names:
                raise InputError(
                    f"table: the column {name!r} is there already, and scores are to go there; "
                    "drop it, rename it, or give prefix='new_'"
                )
        scored = pa.Table.from_batches(self._run(self._scored(table, columns, fields)), fields)
        for field in fields:
            table = table.append_column(field, scored.column(field.name))
        return table

    def close(self) -> None:
        """Close the judge's connections. The last thing to be called."""
        self._run(self._scorer.close())
        self._runner.close()

    def _run(self, work: Any) -> Any:
        self._runner.get_loop().set_default_executor(EXECUTOR)
        return call_apart(self._runner.run, work) if is_on_a_loop() else self._runner.run(work)

    def _fields(self, *, has_reference: bool) -> pa.Schema:
        """Return the new columns, the same for all tables with the same columns."""
        import pyarrow as pa

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
        return pa.schema([(f"{self._prefix}{name}", kind) for name, kind in types.items()])

    async def _scored(
        self, table: pa.Table, columns: Columns, fields: pa.Schema
    ) -> list[pa.RecordBatch]:
        import pyarrow as pa

        if not self._is_prepared:
            await self._scorer.prepare()
            self._is_prepared = True
        batches: list[pa.RecordBatch] = []
        rows: list[dict[str, Any]] = []
        async with aclosing(self._scorer.outcomes(_lines(table, columns))) as outcomes:
            async for outcome in outcomes:
                # What has no column is left out, and what is left out of it is null.
                row = outcome.as_row()
                rows.append({f"{self._prefix}{name}": value for name, value in row.items()})
                if len(rows) == ROWS_AT_ONCE:
                    batches.append(pa.RecordBatch.from_pylist(rows, fields))
                    rows = []
        return [*batches, pa.RecordBatch.from_pylist(rows, fields)]


def _lines(table: pa.Table, columns: Columns) -> Iterator[Line]:
    """Yield the rows as the engine takes them; a vector beside each chunk is not looked at."""
    known = table.select([name for name in table.column_names if name in columns.known])
    for start in range(0, table.num_rows, ROWS_AT_ONCE):
        rows = known.slice(start, ROWS_AT_ONCE).to_pylist()
        for number, row in enumerate(rows, start + 1):
            empty: dict[str, Any] = {name: [] for name in LISTS & row.keys() if row[name] is None}
            try:
                yield Line(number=number, interaction=read_record(row | empty, [columns], number))
            except InputError as error:
                yield Line(number=number, error=str(error))


def _checked(schema: pa.Schema) -> Columns:
    """Return the columns of the table's format. Raises `InputError`."""
    columns = columns_named(schema.names, source="table")
    for name in columns.known:
        n = schema.names.count(name)
        if n > 1:
            raise InputError(f"table: {n} columns are called {name!r}; drop or rename all but one")
        problem = _problem(schema.field(name).type, name, columns) if n else ""
        if problem:
            raise InputError(f"table: the column {name!r} is {schema.field(name).type}, {problem}")
    return columns


def _problem(kind: pa.DataType, name: str, columns: Columns) -> str:
    """Return what a column should be instead; empty: it is fine."""
    from pyarrow import types

    if name in (columns.question, columns.answer):
        return "" if _is_text(kind) else "expected string; cast it first"
    if name in LISTS and name not in columns.reference:
        listed = "list<string> or list<struct<text: string, id: string>>"
        remedy = "make a list of the chunks first (of one text: a list of one)"
        return "" if _is_list(kind) else f"expected {listed}; {remedy}"
    if name in columns.reference:
        is_fine = _is_text(kind) or _is_list(kind)
        return "" if is_fine else "expected string; cast it first, or drop it"
    if name == columns.id:
        is_fine = _is_text(kind) or types.is_integer(kind)
        return "" if is_fine else "expected string or an integer; cast it first, or drop it"
    return ""


def _is_text(kind: pa.DataType) -> bool:
    """Return whether values are texts; a column of nulls alone, too: its rows say what is wrong."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    is_a = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(each(kind) for each in is_a)


def _is_list(kind: pa.DataType) -> bool:
    """Return whether values are lists of texts, or of objects with one under `text`."""
    from pyarrow import types

    lists = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
    )
    if not any(each(kind) for each in lists):
        return str(kind) == "null"
    item = kind.value_type
    if types.is_struct(item):
        at = item.get_field_index("text")
        return at >= 0 and _is_text(item.field(at).type)
    return _is_text(item)


def _arrow_library() -> None:
    try:
        import pyarrow as pa  # noqa: F401 - looked for, before anything is promised
    except ImportError as error:
        raise MissingExtraError("pyarrow, which holds the tables,", "datasets") from error
