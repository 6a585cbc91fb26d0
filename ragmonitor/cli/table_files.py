"""Tables of recorded interactions: CSV, Parquet, Arrow, and folders that `datasets` saved."""

from __future__ import annotations

import ast
import csv
import io
import json
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragmonitor.errors import InputError, MissingExtraError
from ragmonitor.offline.shapes import COLUMNS, LISTS

MAX_CELL_BYTES = 64 * 1024 * 1024
"""The size of one cell of a CSV file: all chunks of an answer."""
MAX_NESTING = 8
"""The nesting of brackets in a cell: a list of objects has two."""
_NO_LIST = "expected a list as JSON or as Python writes it"
ROWS_AT_ONCE = 256
_KNOWN = frozenset(
    name for choices in COLUMNS.values() for columns in choices for name in columns.known
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a table, or why it is none."""

    values: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    done: float = 0.0
    """Share of the table up to its end, 0 to 1."""


def is_table(path: Path) -> bool:
    """Return whether this is a file or folder of this module's, by its name."""
    return path.suffix.lower() in _READERS or path.is_dir()


def size_bytes(path: Path) -> int:
    """Return how large a file, or the files of a folder, are.

    Raises:
        OSError: It is not there.
    """
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def rows(path: Path) -> Iterator[Row]:
    """Return the rows of a table, with the texts of lists read as lists.

    Raises:
        InputError: It cannot be read; may come up to the last row.
        MissingExtraError: It takes pyarrow, which is not installed.
        OSError: It cannot be opened.
    """
    read = _saved if path.is_dir() else _READERS[path.suffix.lower()]
    return (_with_lists(row) for row in read(path))


def read_list(text: str) -> list[Any]:
    """Return the list in a cell's text: JSON, a Python literal, or an array as numpy prints it.

    Nothing is evaluated. A blank cell is an empty list.

    Raises:
        InputError: It shows none.
    """
    text = text.strip()
    if not text:
        return []
    if text[0] not in "[(":  # a chunk as it is; one list of it would be a guess
        raise InputError(_NO_LIST)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _literal(text)
    if not isinstance(value, list | tuple):
        raise InputError(_NO_LIST)
    return [*value]


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(_with_commas(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise InputError(_NO_LIST) from error


def _with_commas(text: str) -> str:
    """Return the literal with a comma between texts that stand side by side.

    Python would join `'a' 'b'` to one text. It never writes that itself; numpy's arrays are printed
    so, and pandas and `datasets` write them into CSV files.
    """
    parts: list[tuple[int, str]] = []
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        depth += (token.string in "[({") - (token.string in "])}") if token.string else 0
        if depth > MAX_NESTING:  # the parser's own stack has an end
            raise InputError("a list nested too deep")
        if token.string == "..." or (token.type == tokenize.OP and token.string == "."):
            raise InputError("a list with an ellipsis: numpy printed only a part of it")
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER):
            continue
        if token.type == tokenize.STRING and parts and parts[-1][0] == tokenize.STRING:
            parts.append((tokenize.OP, ","))
        parts.append((token.type, token.string))
    return " ".join(string for _, string in parts)


def _with_lists(row: Row) -> Row:
    if row.error:
        return row
    values = dict(row.values)
    for name in LISTS & values.keys():
        value = values[name]
        if value is None or value != value:  # noqa: PLR0124 - NaN: pandas' missing value
            values[name] = []
        elif isinstance(value, str):
            try:
                values[name] = read_list(value)
            except InputError as error:
                return Row(error=f"{name}: {error}", done=row.done)
    return Row(values=values, done=row.done)


def _csv(path: Path) -> Iterator[Row]:
    size = max(1, path.stat().st_size)
    # The default, 128 kB, is less than the chunks of many an answer. It is the process's own.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_BYTES))
    with (
        path.open("rb") as file,
        # Wrong bytes become what no text holds, so that they cost their own row alone.
        io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as text,
    ):
        reader = csv.reader(text)
        header: list[str] | None = None
        while True:
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise InputError(f"{path}, line {reader.line_num}: {error}") from error
            if cells is None:
                return
            if not cells:
                continue
            if header is None:
                header = [name.strip() for name in cells]
                twice = [name for name in _KNOWN if header.count(name) > 1]
                if twice:  # which of the two was meant nobody knows
                    raise InputError(f"{path} has the column {min(twice)} twice; rename one")
                continue
            yield _of_cells(header, cells, min(1.0, file.tell() / size))


def _of_cells(header: list[str], cells: list[str], done: float) -> Row:
    if len(cells) != len(header):
        return Row(error=f"{len(cells)} cells; the header has {len(header)}", done=done)
    values = dict(zip(header, cells, strict=True))
    wrong = [
        name for name, cell in values.items() if any("\udc80" <= mark <= "\udcff" for mark in cell)
    ]
    if wrong:
        return Row(error=f"{', '.join(wrong)}: no UTF-8", done=done)
    return Row(values=values, done=done)


def _parquet(path: Path) -> Iterator[Row]:
    _arrow_library()
    from pyarrow import ArrowException, parquet

    with path.open("rb") as file:
        try:
            table = parquet.ParquetFile(file)
            total = max(1, table.metadata.num_rows)
            batches = table.iter_batches(ROWS_AT_ONCE, columns=_worth_reading(table.schema_arrow))
            yield from _of_batches(batches, lambda read: read / total)
        except (ArrowException, UnicodeDecodeError) as error:
            raise InputError(f"{path}: {error}") from error


def _arrow(path: Path) -> Iterator[Row]:
    _arrow_library()
    from pyarrow import ArrowException, ipc, memory_map

    with memory_map(str(path)) as file:
        size = max(1, file.size())
        try:
            try:  # what `datasets` writes
                batches = iter(ipc.open_stream(file))
            except ArrowException:  # what others do
                whole = ipc.open_file(file)
                batches = (whole.get_batch(n) for n in range(whole.num_record_batches))
            yield from _of_batches(batches, lambda _read: min(1.0, file.tell() / size))
        except (ArrowException, UnicodeDecodeError) as error:
            raise InputError(f"{path}: {error}") from error


def _of_batches(batches: Iterator[Any], done: Callable[[int], float]) -> Iterator[Row]:
    read = 0
    for batch in batches:
        known = batch.select(_worth_reading(batch.schema))
        for start in range(0, known.num_rows, ROWS_AT_ONCE):
            for values in known.slice(start, ROWS_AT_ONCE).to_pylist():
                read += 1
                yield Row(values=values, done=done(read))


def _worth_reading(schema: Any) -> list[str]:
    """Return the columns that we know: a vector beside each chunk need not be read. Else all."""
    return [name for name in schema.names if name in _KNOWN] or [*schema.names]


def _saved(folder: Path) -> Iterator[Row]:
    """Return the rows of what `Dataset.save_to_disk` leaves; of a `DatasetDict`, its one split."""
    if (folder / "dataset_dict.json").is_file():
        splits = _described(folder / "dataset_dict.json").get("splits", [])
        if len(splits) != 1:
            raise InputError(
                f"{folder} holds the splits {', '.join(map(str, splits))}; name one, "
                f"such as {folder / str(splits[0]) if splits else folder}"
            )
        folder /= str(splits[0])
    if not (folder / "state.json").is_file():
        raise InputError(f"{folder}: Is a directory, and no data set that `datasets` saved to disk")
    files = [
        folder / Path(str(each["filename"])).name
        for each in _described(folder / "state.json").get("_data_files", [])
    ]
    for position, file in enumerate(files):
        for row in _arrow(file):
            yield Row(values=row.values, error=row.error, done=(position + row.done) / len(files))


def _described(file: Path) -> dict[str, Any]:
    try:
        description = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{file}: no JSON: {error}") from error
    if not isinstance(description, dict):
        raise InputError(f"{file}: expected an object")
    return description


def _arrow_library() -> None:
    try:
        import pyarrow as pa  # noqa: F401 - looked for, before anything is promised
    except ImportError as error:
        raise MissingExtraError("pyarrow, which reads Parquet and Arrow,", "datasets") from error


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
}
