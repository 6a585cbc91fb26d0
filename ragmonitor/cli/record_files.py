"""Files of recorded interactions: JSON, JSON lines, CSV, Parquet, Arrow, saved data sets."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ragmonitor.cli import table_files
from ragmonitor.errors import InputError, file_errors
from ragmonitor.export import is_feedback
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
        """Look for the file.

        Args:
            path: A file, a folder that the `datasets` library saved, or `-` for standard input.
            form: The format.

        Raises:
            InputError: It is not there.
        """
        self.name = "standard input" if path == "-" else path
        self.size_bytes: int | None = None
        """None: it is a pipe, which is read once, and may keep its reader waiting."""
        self.read_bytes = 0
        """The part of the file that was read for the records so far."""
        self._path = None if path == "-" else Path(path)
        self._reader = Reader(form, name=self.name)
        if self._path is not None:
            with file_errors(self.name):
                size_bytes = table_files.size_bytes(self._path)
                if self._path.is_file() or self._path.is_dir():
                    self.size_bytes = size_bytes

    def __iter__(self) -> Iterator[Line]:
        """Yield every line that is not blank, and no feedback of people.

        Raises:
            InputError: The file cannot be read, the columns of the first record belong to no format
                that we know, or the whole file is broken: one JSON document, a table.
            MissingExtraError: It is Parquet or Arrow, and pyarrow is not installed.
        """
        with file_errors(self.name):
            for number, value in self._values():
                if isinstance(value, InputError):
                    yield Line(number=number, error=str(value))
                elif not is_feedback(value):
                    yield self._reader.line(number, value)

    def _values(self) -> Iterator[tuple[int, object]]:
        """Yield the number of each record and its value, or the error that stands for it."""
        if self._path is None:
            yield from self._of_text(sys.stdin.buffer)
        elif table_files.is_table(self._path):
            for number, row in enumerate(table_files.rows(self._path), 1):
                self.read_bytes = round(row.done * (self.size_bytes or 0))
                yield number, InputError(row.error) if row.error else row.values
        else:
            with self._path.open("rb") as file:
                yield from self._of_text(file)

    def _of_text(self, file: BinaryIO) -> Iterator[tuple[int, object]]:
        started = False
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(_NO_TEXT):
                raise InputError(
                    f"{self.name} is no UTF-8 but compressed, or UTF-16; give it as UTF-8, such as "
                    "by `gzip -dc FILE | ragmonitor score -`"
                )
            self.read_bytes += len(line)
            raw = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not raw.strip():
                continue
            if not started and _begins_document(raw):
                yield from self._document(number, raw, file.read())
                return
            value = _parsed(raw)
            if not started and is_columnar(value):
                yield from self._of_document(value)
                return
            started = True
            yield number, value

    def _document(self, number: int, first: bytes, rest: bytes) -> Iterator[tuple[int, object]]:
        """Yield the records of a file that is one JSON document."""
        self.read_bytes += len(rest)
        value = _parsed(first + rest)
        if not isinstance(value, InputError):
            yield from self._of_document(value)
            return
        if isinstance(_parsed(first), InputError):
            raise InputError(f"{self.name}: {value}") from value
        # A document on its first line alone: JSON lines after all.
        for position, raw in enumerate([first, *rest.splitlines()], number):
            if raw.strip():
                yield position, _parsed(raw)

    def _of_document(self, document: object) -> Iterator[tuple[int, object]]:
        values = [*records_of(document)]
        size_bytes = self.size_bytes or self.read_bytes
        for position, value in enumerate(values, 1):
            # The document was read at once, so the share of its records is what is done of it.
            self.read_bytes = size_bytes * position // len(values)
            yield position, value


def _parsed(raw: bytes) -> object:
    """Return the value of a JSON text, or the error that stands for it."""
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        return InputError(f"no UTF-8: byte {error.start + 1} of the line")
    except json.JSONDecodeError as error:
        return InputError(
            f"no JSON: {error.msg}, column {error.colno}; each line is to be one JSON object"
        )
    except (ValueError, RecursionError):  # a number, or a nesting, beyond all measure
        return InputError("no JSON that can be read: a number or a nesting is too large")


_NO_TEXT = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"BZh", b"\xff\xfe", b"\xfe\xff")
"""The beginnings of files of gzip, zstd, zip and bzip2, and of UTF-16."""
_DOCUMENT = re.compile(rb'\s*(?:\[|\{\s*\Z|\{\s*"(?:results|input_data)"\s*:)')


def _begins_document(raw: bytes) -> bool:
    return _DOCUMENT.match(raw) is not None
