"""Files of recorded interactions: JSON, JSON lines, CSV, Parquet, Arrow, saved data sets."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Self

from ragmonitor.cli import table_files
from ragmonitor.errors import InputError
from ragmonitor.offline.shapes import (
    COLUMNS,
    Columns,
    Format,
    Line,
    Reader,
    UnknownColumnsError,
    expected_columns,
    is_columnar,
    read_record,
    records_of,
)

__all__ = [
    "COLUMNS",
    "Columns",
    "Format",
    "Line",
    "Records",
    "UnknownColumnsError",
    "expected_columns",
    "read_record",
]


class Records:
    """The interactions of a file, read as they are asked for; to be gone through once."""

    def __init__(self, path: str, form: Format = "auto") -> None:
        """Open the file.

        Args:
            path: A file, a folder that the `datasets` library saved, or `-` for standard input.
            form: The format.

        Raises:
            InputError: It cannot be opened.
            MissingExtraError: It is Parquet or Arrow, and pyarrow is not installed.
        """
        self.name = "standard input" if path == "-" else path
        self.size_bytes: int | None = None
        self.read_bytes = 0
        self._reader = Reader(form, name=self.name)
        self._rows: Iterator[table_files.Row] | None = None
        self._file: BinaryIO | None = None
        if path == "-":
            self._file = sys.stdin.buffer
            return
        try:
            if table_files.is_table(Path(path)):
                self.size_bytes = table_files.size_bytes(Path(path))
                self._rows = table_files.rows(Path(path))
            else:
                self._file = Path(path).open("rb")  # noqa: SIM115 - closed by __exit__
                self.size_bytes = Path(path).stat().st_size
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None and self._file is not sys.stdin.buffer:
            self._file.close()

    def __iter__(self) -> Iterator[Line]:
        """Yield every line that is not blank.

        Raises:
            InputError: The columns of the first record belong to no format that we know, or the
                whole file is broken: one JSON document, a table.
        """
        if self._rows is not None:
            yield from self._of_table(self._rows)
            return
        started = False
        for number, raw in enumerate(self._lines(), 1):
            if not raw.strip():
                continue
            if not started and _begins_document(raw):
                yield from self._document(number, raw)
                return
            if not started and is_columnar(value := _parsed_or_none(raw)):
                yield from self._of_document(value)
                return
            started = True
            yield self._line(number, raw)

    def _of_table(self, rows: Iterator[table_files.Row]) -> Iterator[Line]:
        try:
            for number, row in enumerate(rows, 1):
                self.read_bytes = round(row.done * (self.size_bytes or 0))
                if row.error:
                    yield Line(number=number, error=row.error, read_bytes=self.read_bytes)
                else:
                    yield self._reader.line(number, row.values, self.read_bytes)
        except OSError as error:
            raise InputError(f"{self.name}: {error.strerror or error}") from error

    def _lines(self) -> Iterator[bytes]:
        assert self._file is not None  # noqa: S101 - for the type; a table has no lines
        try:
            for number, raw in enumerate(self._file):
                self.read_bytes += len(raw)
                yield raw.removeprefix(b"\xef\xbb\xbf") if number == 0 else raw
        except OSError as error:
            raise InputError(f"{self.name}: {error.strerror or error}") from error

    def _line(self, number: int, raw: bytes) -> Line:
        try:
            value = _parsed(raw)
        except InputError as error:
            return Line(number=number, error=str(error), read_bytes=self.read_bytes)
        return self._reader.line(number, value, self.read_bytes)

    def _document(self, number: int, first: bytes) -> Iterator[Line]:
        """Yield the records of a file that is one JSON document."""
        assert self._file is not None  # noqa: S101 - for the type; a table is no document
        rest = self._file.read()
        self.read_bytes += len(rest)
        try:
            value = _parsed(first + rest)
        except InputError as error:
            if _is_json(first):  # a document on its first line alone: JSON lines after all
                lines = [first, *rest.splitlines()]
                yield from (
                    self._line(n, raw) for n, raw in enumerate(lines, number) if raw.strip()
                )
                return
            raise InputError(f"{self.name}: {error}") from error
        yield from self._of_document(value)

    def _of_document(self, document: object) -> Iterator[Line]:
        values = [*records_of(document)]
        for position, value in enumerate(values, 1):
            line = self._reader.line(position, value)
            # The document was read at once, so the share of its records is what is done of it.
            done = (self.size_bytes or self.read_bytes) * position // len(values)
            yield replace(line, read_bytes=done)


def _parsed(raw: bytes) -> object:
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"no UTF-8: byte {error.start + 1} of the line") from error
    except json.JSONDecodeError as error:
        raise InputError(f"no JSON: {error.msg}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # a number, or a nesting, beyond all measure
        raise InputError("no JSON that can be read: a number or a nesting is too large") from error


def _parsed_or_none(raw: bytes) -> object:
    try:
        return _parsed(raw)
    except InputError:
        return None


def _is_json(raw: bytes) -> bool:
    try:
        _parsed(raw)
    except InputError:
        return False
    return True


_DOCUMENT = re.compile(rb'\s*(?:\[|\{\s*\Z|\{\s*"(?:results|input_data)"\s*:)')


def _begins_document(raw: bytes) -> bool:
    return _DOCUMENT.match(raw) is not None
