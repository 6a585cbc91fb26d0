"""Chunks that are structured data: JSON, YAML, tables, lists of keys and values, as fields."""

from __future__ import annotations

from calendar import month_name
from collections.abc import Iterator, Sequence

from ragmonitor.judges.builtin.structured.clauses import Spans
from ragmonitor.judges.builtin.structured.field_reading import read_fields
from ragmonitor.judges.builtin.structured.fields import FieldTable, spaced
from ragmonitor.judges.builtin.structured.findings import FieldReading
from ragmonitor.judges.builtin.structured.formats import Records, Structured, structured
from ragmonitor.judges.builtin.text_terms import Term
from ragmonitor.judges.sentences import spans
from ragmonitor.patterns import lazy_pattern

__all__ = ["FieldReading", "Fields", "Spans", "Structured", "passages_of", "structured"]

MAX_RENDERED = 3
"""Characters of passages that are written for each character of a structured part."""
MAX_PASSAGE = 400
"""Characters of a row that are one passage."""
_SHOWN = {True: "yes", False: "no", None: ""}
_PROSE = 80
"""Characters from which a value is read as sentences."""


class Fields:
    """The fields of the structured chunks of one answer."""

    def __init__(self, parts: Sequence[Structured]) -> None:
        """Gather the fields, in time linear in their number."""
        self._table = FieldTable()
        for part in parts:
            self._table.add(part.records)

    def read(self, text: str, content: Sequence[Term]) -> FieldReading | None:
        """Return what the fields say of a sentence; None if there are none."""
        return read_fields(text, content, self._table) if self._table.rows else None


def passages_of(part: Structured, chunk: str) -> tuple[list[str], list[str]]:
    """Return a structured chunk's sentences of prose, and its rows as passages.

    A row is written as `keys: name: value; name: value`, so that words of one key and its value
    stand together, as they would in a sentence.
    """
    prose: list[str] = []
    at = 0
    for start, end in (*part.parts, (len(chunk), len(chunk))):
        between = chunk[at:start]
        prose += [between[a:b] for a, b in spans(between)]
        at = end
    return prose, list(_rows(part.records, MAX_RENDERED * len(chunk)))


def _rows(records: Records, room: int) -> Iterator[str]:
    """Yield the passages of the rows, at most `room` characters of them with their keys."""
    for row in records.rows:
        head = " ".join(spaced(key) for key in row.keys[-2:])
        cells: list[str] = []
        size = 0
        for key, value in row.cells:
            text = _dated(value) if isinstance(value, str) else _SHOWN[value]
            if len(text) > _PROSE:
                yield from (text[a:b] for a, b in spans(text))
                room -= len(text)
                continue
            shown = f"{spaced(key)}: {text}" if room > 0 else text
            room -= len(shown)
            size += len(shown)
            cells.append(shown)
            if size > MAX_PASSAGE:
                yield _passage(head, cells, room)
                room -= len(head)
                cells, size = [], 0
        if cells:
            yield _passage(head, cells, room)
            room -= len(head)


def _dated(text: str) -> str:
    """Return a text with the month of a date, `2020-03-15`, in letters besides."""
    date = _DATE.fullmatch(text)
    return f"{text} ({month_name[int(date[1])]})" if date else text


_DATE = lazy_pattern(r"\d{4}-(0[1-9]|1[0-2])-\d\d(?:[T ].{0,30})?")


def _passage(head: str, cells: Sequence[str], room: int) -> str:
    body = "; ".join(cells)
    return f"{head}: {body}" if head and room > 0 else body
