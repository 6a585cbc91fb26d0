"""Reads recorded tables row by row: JSON lines, JSON, CSV and Parquet; writes CSV for spreadsheets.

A CSV may separate its cells by commas, semicolons or tabs, and a cell that holds a list or an
object may write it as JSON, as Python does, or as numpy prints it.
"""

from __future__ import annotations

import ast
import codecs
import csv
import io
import json
import os
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from ragmonitor.runtime.errors import InputError, MissingExtraError, file_errors

MAX_CELL_BYTES: Final = 64 * 1024 * 1024
"""The size of one cell of a CSV file: all chunks of an answer."""
MAX_NESTING: Final = 8
"""The nesting of brackets in a cell: a list of objects has two."""
ROWS_AT_ONCE: Final = 256
_NO_UTF_8: Final = (
    "it is no UTF-8; save it as CSV UTF-8 in a spreadsheet, or convert it, of GBK by "
    "`iconv -f GB18030 -t UTF-8`, of PowerShell's UTF-16 by `iconv -f UTF-16 -t UTF-8`"
)
_DOCUMENT: Final = re.compile(rb'\s*(?:\[|\{\s*\Z|\{\s*"(?:results|input_data)"\s*:)')
"""The beginning of a file that is one JSON document."""
_FORMULA: Final = re.compile("'*(?: *[\t\r\n]|\\s*[-=+@\uff1d\uff0b\uff0d\uff20])")
"""The beginning of a cell that a spreadsheet would compute, guarded or not."""
_NO_LIST: Final = "expected a list as JSON or as Python writes it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record of a table: a value, or why it could not be read."""

    number: int
    """From 1; of JSON lines the line."""
    value: object = None
    error: str = ""


def table_rows(path: str | PathLike[str], *, columns: Iterable[str] = ()) -> Iterator[Row]:
    """Yield every row of a file that is not blank, as it is asked for.

    Args:
        path: A file, or `-` for standard input, which is JSON.
        columns: Those worth reading of CSV and Parquet; where it has none of them, all are.

    Raises:
        InputError: The file is not there, cannot be read, or the whole of it is broken.
        MissingExtraError: It is Parquet, and pyarrow is not installed.
    """
    name, suffix, known = str(path), Path(path).suffix.lower(), frozenset(columns)
    if name == "-":
        with file_errors("standard input"):
            yield from _json(sys.stdin.buffer, "standard input")
        return
    with file_errors(name), Path(path).open("rb") as file:
        if suffix == ".parquet":
            yield from _parquet(file, name, known)
        else:
            yield from _csv(file, name, known) if suffix in (".csv", ".tsv") else _json(file, name)


def _json(file: BinaryIO, name: str) -> Iterator[Row]:
    is_first = True
    for number, line in enumerate(file, 1):
        raw = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if not raw.strip():
            continue
        if is_first and _DOCUMENT.match(raw):  # all of it is one JSON document
            whole = _parsed(number, raw + file.read())
            if whole.error:
                raise InputError(f"{name}: {whole.error}")
            yield from _numbered(records_of(whole.value))
            return
        is_first = False
        yield _parsed(number, raw)


def _csv(file: BinaryIO, name: str, known: frozenset[str]) -> Iterator[Row]:
    # The default, 128 kB, is less than the chunks of many an answer. It is the process's own.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_BYTES))
    first = file.readline().decode("utf-8-sig", "replace").splitlines()
    delimiter = max(",;\t", key=lambda mark: len(next(csv.reader(first, delimiter=mark), [])))
    file.seek(0)
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter)
    try:
        rows = filter(any, reader)
        header = [cell.strip() for cell in next(rows, [])]
        twice = [cell for cell, n in Counter(header).items() if cell and n > 1]
        if twice:  # which of the two was meant nobody knows
            raise InputError(f"{name} has the column {twice[0]} twice; rename one")
        wanted = known.intersection(header) or frozenset(header) - {""}
        for number, cells in enumerate(rows, 1):
            if len(cells) == len(header):
                pairs = zip(header, cells, strict=True)
                value = {column: unguarded(cell) for column, cell in pairs if column in wanted}
                yield Row(number=number, value=value)
            else:
                problem = f"{len(cells)} cells; the header has {len(header)}"
                yield Row(number=number, error=problem)
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: {_NO_UTF_8}") from error
    except csv.Error as error:
        raise InputError(f"{name}, line {reader.line_num}: {error}") from error
    finally:
        text.detach()


def _parquet(file: BinaryIO, name: str, known: frozenset[str]) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow, which reads Parquet,", "datasets") from error
    try:
        table = parquet.ParquetFile(file)
        names = [each for each in table.schema_arrow.names if each in known]
        batches = table.iter_batches(ROWS_AT_ONCE, columns=names or None)
        yield from _numbered(row for batch in batches for row in batch.to_pylist())
    except (ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{name}: {error}") from error


def _numbered(records: Iterable[object]) -> Iterator[Row]:
    return (Row(number=number, value=value) for number, value in enumerate(records, 1))


def _parsed(number: int, raw: bytes) -> Row:
    try:
        return Row(number=number, value=json.loads(raw.decode("utf-8")))
    except UnicodeDecodeError:
        problem = _NO_UTF_8
    except json.JSONDecodeError as error:
        problem = f"no JSON: {error.msg}, column {error.colno}; each line is to be one JSON object"
    except (ValueError, RecursionError):  # a number, or a nesting, beyond all measure
        problem = "no JSON that can be read: a number or a nesting is too large"
    return Row(number=number, error=problem)


def records_of(document: object) -> Iterable[object]:
    """Return the records of one JSON document.

    They stand in a list, or in one under `results` (RAGChecker; `input_data` in its older files).
    """
    if isinstance(document, list):
        return document
    if isinstance(document, dict):
        for name in ("results", "input_data"):
            if isinstance(document.get(name), list):
                return list(document[name])
    return [document]


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
        try:
            value = ast.literal_eval(_with_commas(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError) as error:
            raise InputError(_NO_LIST) from error
    if not isinstance(value, list | tuple):
        raise InputError(_NO_LIST)
    return [*value]


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


# --- writing --------------------------------------------------------------------------------------


def owners_alone(name: str | PathLike[str], flags: int) -> int:
    """Open a file for `open(opener=...)`; one that is made is its owner's alone."""
    return os.open(name, flags, 0o600)


class CsvWriter:
    """Writes rows that spreadsheets open, Chinese too, to an open file."""

    def __init__(self, file: BinaryIO, columns: Iterable[str]) -> None:
        """Write the header.

        Args:
            file: Stays open; the caller closes it.
            columns: Those that are written; of other values of a row nothing is.
        """
        self._file = file
        self._columns = [*columns]
        file.write(codecs.BOM_UTF8)  # Excel takes UTF-8 for what it is only by this mark
        self.write({name: name for name in self._columns})

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row; what is missing is an empty cell. Raises `OSError`."""
        cells = (row.get(name) for name in self._columns)
        text = io.StringIO()
        csv.writer(text).writerow([guarded(c) if isinstance(c, str) else c for c in cells])
        self._file.write(text.getvalue().encode())


def write_csv(
    path: Path, columns: Iterable[str], rows: Iterable[Mapping[str, Any]], *, mode: str = "wb"
) -> None:
    """Write a CSV that is its owner's alone; with the mode `xb` none that is there. `OSError`."""
    with open(path, mode, opener=owners_alone) as file:
        table = CsvWriter(cast("BinaryIO", file), columns)
        for row in rows:
            table.write(row)


def guarded(text: str) -> str:
    """Return a text as it stands in a cell: it is nobody's formula, and can be written.

    Models write these texts, and applications their ids; what UTF-8 cannot hold, a lone surrogate,
    is written as an escape.
    """
    text = text.encode("utf-8", "backslashreplace").decode()
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded(cell: str) -> str:
    """Return the text of a cell that `guarded` wrote."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell
