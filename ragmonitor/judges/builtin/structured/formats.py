"""Structured parts of a chunk as rows of cells.

They are JSON and its Python form, tables, lists of keys and values: each is read as a value of JSON
first, and what that holds as rows.
"""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate, chain, groupby
from operator import itemgetter, methodcaller
from typing import Any, Final, NamedTuple

from ragmonitor.runtime.patterns import lazy_pattern

MAX_KEYS, MAX_KEY, MAX_ATTEMPTS, MAX_VALUE, MAX_RENDERED, MAX_DEPTH = 4, 60, 4, 120, 3, 4

Part = tuple[int, int, Any]
"""Where a structured part begins and ends, and its value of JSON, numbers as text."""


class Count(int):
    """The number of items of a list; numbers of JSON are text."""


Scalar = str | bool | Count | None


@dataclass(eq=False, slots=True)
class Row:
    """One object, known by itself: equal ones are told apart."""

    keys: tuple[str, ...] = ()
    """They lead to it, the outermost first."""
    around: tuple[Row, ...] = ()
    """The rows around it, from the inside."""
    is_listed: bool = False
    """Whether it is one of a list."""
    cells: list[tuple[str, Scalar]] = field(default_factory=list)


class Records:
    """The rows of a chunk."""

    def __init__(self, parts: Sequence[Part]) -> None:
        """Read the rows of all parts, an object each; lists belong to the row around them."""
        self.parts = [(start, end) for start, end, _ in parts]
        self.rows = [Row() for _ in parts]
        waiting = [(part[2], row, row.keys) for part, row in zip(parts, self.rows, strict=True)]
        while waiting:
            holder, row, keys = waiting.pop()
            is_list = isinstance(holder, list)
            if is_list:
                row.cells += _counts(holder, keys)
                holder = enumerate(holder)
            of_list = keys[-1] if keys else ""
            for key, each in holder if is_list else holder.items():
                name = of_list if is_list else key[:MAX_KEY]
                is_literal = isinstance(each, str) and each[:1] in {"{", "["}
                value = _decoded(each) if is_literal else each
                if not isinstance(value, dict | list):
                    row.cells.append((name, each))
                    continue
                place = keys if is_list else (*keys, name)[-MAX_KEYS:]
                if isinstance(value, dict):
                    self.rows.append(Row(place, (row, *row.around)[:MAX_DEPTH], is_list))
                    waiting.append((value, self.rows[-1], place))
                else:
                    waiting.append((value, row, place))


def _counts(items: Sequence[Any], keys: tuple[str, ...]) -> Iterator[tuple[str, Scalar]]:
    """Yield how many items a list has, by its key; without one, by columns that name them."""
    yield keys[-1] if keys else "", Count(len(items))
    if keys or not items or not all(isinstance(each, dict) for each in items):
        return
    for column in items[0]:
        # Only as far as items have it: all columns times all items would be quadratic.
        if not all(isinstance(each.get(column), str) for each in items):
            continue
        values = {each[column] for each in items}
        if len(values) == len(items) and not any(map(_NUMBERED.match, values)):
            yield column[:MAX_KEY], Count(len(items))


_NUMBERED: Final = lazy_pattern(r"\W{0,2}\d")
_QUOTED_KEY: Final = ('":', "':", '" :', "' :")
_HAS_WORD: Final = lazy_pattern(r"[^\W\d_]")


def records_of(chunk: str) -> Records | None:
    """Return the structured parts of a chunk; None for prose. Linear in its length."""
    holds = chunk.__contains__
    lines, colons = chunk.count("\n"), chunk.count(":") + chunk.count("：")
    parts: list[Part] = []
    if "{" in chunk or (colons > 2 and any(map(holds, _QUOTED_KEY))):
        parts = _bracketed(chunk)
    if not parts and "<" in chunk:
        parts = list(_html_tables(chunk))
    is_table = "\t" in chunk or "|" in chunk or 1 < lines <= chunk.count(",")
    is_list = colons > 2 and (lines > 1 or ";" in chunk or "；" in chunk)
    if not parts and (is_table or is_list):
        parts = _lines_of(chunk)
    if not parts:
        return None
    found = Records(parts)
    cells = chain.from_iterable(row.cells for row in found.rows)
    is_named = any(_HAS_WORD.search(key) for key, each in cells if not isinstance(each, Count))
    return found if is_named else None


# --- JSON ---------------------------------------------------------------------------------------

_TEXT = r"\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)"
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_OPENING = lazy_pattern(r"\{\s*+[\"'}]|\[\s*+[{\"']")
_CELL = lazy_pattern(
    rf"[{{}}]|(?P<key>[\"'])(?P<name>[^\"'\\\n]{{1,{MAX_KEY}}})(?P=key)\s{{0,8}}:\s{{0,8}}"
    r"(?P<value>\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|[\w.+-]+)?"
)
_PYTHON = lazy_pattern(
    rf"(?:\b[uU])?(?P<text>{_TEXT})|(?P<word>\b(?:True|False|None)\b)", re.DOTALL
)


def _bracketed(chunk: str) -> list[Part]:
    """Return the JSON of a chunk, or Python's literals; or what is left of one that is cut off."""
    if _OPENING.search(chunk):
        parts = list(_values(chunk)) or list(_values(_from_python(chunk)))
        if parts:
            return parts
    cells = list(_CELL.finditer(chunk))
    depth, pairs = 0, list[Pair]()
    for cell in cells:
        depth += (cell[0] == "{") - (cell[0] == "}")
        if cell["name"]:
            indent = max(-MAX_DEPTH, min(depth, MAX_DEPTH))
            pairs.append(Pair(indent, cell["name"], _decoded(cell["value"] or "")))
    if len({pair.key for pair in pairs if pair.value != ""}) < 3:
        return []
    return [(cells[0].start(), cells[-1].end(), _objects(pairs))]


def _values(text: str) -> Iterator[Part]:
    """Yield the objects and lists of JSON in a text, up to one that is cut off."""
    at = failed = 0
    while failed < MAX_ATTEMPTS and (opening := _OPENING.search(text, at)):
        at = opening.start()
        try:
            value, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            return
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated") or error.pos >= len(text):
                return
            failed, at = failed + 1, at + 1
        else:
            yield at, end, value
            at = end


def _decoded(text: str) -> Any:
    """Return what JSON or Python holds, numbers as text; a text that is neither as it is."""
    for convert in (str, _from_python):
        try:
            return _DECODER.decode(convert(text))
        except (ValueError, RecursionError):
            continue
    return text


def _from_python(text: str) -> str:
    """Return a text with Python's literals, from the first bracket on, as JSON's."""
    opening = _OPENING.search(text)
    at = opening.start() if opening else 0
    return text[:at] + _PYTHON.sub(_json_of, text[at:])


def _json_of(token: re.Match[str]) -> str:
    text = token["text"]
    if not text:
        return {"True": "true", "False": "false", "None": "null"}[token["word"]]
    if text[0] == '"':
        return text
    return '"' + text[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'


# --- tables -------------------------------------------------------------------------------------

_HTML_TABLE = lazy_pattern(r"<table\b.*?(?:</table>|\Z)", re.IGNORECASE | re.DOTALL)
_ROW_TAG = lazy_pattern(r"<tr\b[^<>]*+>", re.IGNORECASE)
_CELL_TAG = lazy_pattern(r"<t[dh]\b[^<>]*+>", re.IGNORECASE)
_TAG = lazy_pattern(r"<[^<>]*+>")
_FIGURE = lazy_pattern(
    r"\W{0,2}\d[\d.,:/-]{0,20}\s?\S{0,4}\Z|(?:yes|no|true|false|是|否)\Z", re.IGNORECASE
)
_VALUE = frozenset(["value", "values", "detail", "details", "值", "数值", "内容", "取值"])
_MAX_LINE: Final = 100_000
"""Characters of a line of a table."""


def _table(rows: Sequence[Sequence[str]]) -> Any:
    """Return a table, whose first line names the columns, as a value of JSON."""
    head = [" ".join(cell.split()) for cell in rows[0]]
    if len(head) == 2 and head[1].lower() in _VALUE:
        return {cells[0]: cells[1] for cells in rows[1:] if len(cells) > 1}
    return [dict(zip(head, map(str.strip, cells), strict=False)) for cells in rows[1:]]


def _has_figures(table: Sequence[Sequence[str]]) -> bool:
    """Return whether below the head some column holds nothing but numbers, or yes and no."""
    return any(
        all(_FIGURE.match(row[at].strip()) for row in table[1:])
        for at in range(min(map(len, table)))
    )


def _html_tables(chunk: str) -> Iterator[Part]:
    for place in _HTML_TABLE.finditer(chunk):
        rows = [_CELL_TAG.split(row)[1:] for row in _ROW_TAG.split(place[0])[1:]]
        table = [
            [" ".join(html.unescape(_TAG.sub(" ", cell)).split()) for cell in cells]
            for cells in rows
            if cells
        ]
        if len(table) < 2:
            continue
        if {len(cells) for cells in table} == {2} and not _has_figures(table):
            table.insert(0, ["field", "value"])
        yield *place.span(), _table(table)


def _ruled(lines: Sequence[str]) -> tuple[int, Any] | None:
    """Return where among lines with bars a table of Markdown begins, a rule below its head."""
    for at in range(1, len(lines) - 1):
        is_rule = "-" in lines[at] and set(lines[at]) <= set("|:- \t")
        if is_rule and "|" in lines[at - 1].strip("| \t"):
            rows = [line.strip(" \t|").split("|") for line in (lines[at - 1], *lines[at + 1 :])]
            return at - 1, _table([[cell.strip(" \t*`") for cell in row] for row in rows])
    return None


def _separated(sign: str, lines: Sequence[str]) -> tuple[int, Any] | None:
    """Return the table of lines with a sign between cells; with commas it must hold figures."""
    if len(lines) < 2 or max(map(len, lines)) > _MAX_LINE:
        return None
    table = [next(csv.reader([line], delimiter=sign)) for line in lines]
    head = {cell.strip() for cell in table[0]}
    is_named = all(0 < len(cell) <= 40 and not _FIGURE.match(cell) for cell in head)
    is_table = is_named and {len(row) for row in table} == {len(head)}
    has_data = sign == "\t" or (len(table) > 2 and _has_figures(table))
    return (0, _table(table)) if is_table and has_data else None


def _commas(line: str) -> int:
    """Return how many commas separate cells; in quotes none does."""
    return (_QUOTED.sub("", line) if '"' in line else line).count(",")


_QUOTED: Final = lazy_pattern('"[^"]*+"')
_QUOTED_CELL: Final = lazy_pattern(r'"(?<![^,\t\n]")(?:[^"]|"")*+"(?![^,\t\r\n])')
"""A cell of a table, over several lines perhaps."""


# --- keys and values ----------------------------------------------------------------------------

_PAIR = lazy_pattern(
    r"(?P<indent>[ \t]{0,40}(?:[-*•+][ \t]{1,4})?)(?:\*\*|__|[\"'])?"
    r"(?P<key>[^\W\d_][^:：\n*\"'|.?!。？！]{0,40}?)(?:\*\*|__|[\"'])?[ \t]?"
    r"(?::(?=[\s*]|\Z)|(?<!\d)：)(?:\*\*|__)?[ \t]*(?P<value>.*)"
)
_ITEM = lazy_pattern(r"(?P<indent>[ \t]{0,40}[-*•+][ \t]{1,4})(?P<key>)(?P<value>\S.*)")
_INLINE: Final = lazy_pattern("[|;；]")
_ENDS: Final = frozenset(".!?。！？,，")


class Pair(NamedTuple):
    """A line of a list: a key and its value, or an item without a key."""

    indent: int
    key: str
    value: Any


def _pair(text: str) -> Pair | None:
    found = _PAIR.fullmatch(text) if ":" in text or "：" in text else None
    if found is None or len(found["key"].split()) > 5:
        found = _ITEM.fullmatch(text)
    if found is None or len(found["value"]) > MAX_VALUE:
        return None
    value = found["value"].strip(" \t*`").strip("\"'")
    return Pair(len(found["indent"]), found["key"].strip(), value)


def _listed(lines: Sequence[str]) -> tuple[int, Any] | None:
    """Return what a list of keys and values says, a line each, if they are no statements."""
    pairs = [_pair(line) for line in lines]
    first = next((at for at, pair in enumerate(pairs) if pair and pair.key), len(pairs))
    found = [pair for pair in pairs[first:] if pair]
    statements = sum(pair.value[-1:] in _ENDS or len(pair.value) > 60 for pair in found)
    is_list = sum(bool(pair.key) for pair in found) >= 3 and 3 * statements <= len(found)
    return (first, _objects(found)) if is_list and len(found) == len(pairs) - first else None


def _objects(lines: Sequence[Pair]) -> Any:
    """Return the lines of a list as a value of JSON.

    What is indented below a key without a value belongs to it, as do items; a key that comes again
    begins the next object.
    """
    objects: list[dict[str, Any]] = [{}]
    at = 0
    while at < len(lines):
        first, at, inner = lines[at], at + 1, list[Pair]()
        while at < len(lines) and (
            not lines[at].key or (not first.value and lines[at].indent > first.indent)
        ):
            inner.append(lines[at])
            at += 1
        value: Any = first.value
        if any(pair.key for pair in inner):
            value = _objects(inner)
        elif inner:
            value = [pair.value for pair in (first, *inner) if pair.value]
        name = first.key or "items"
        if name in objects[-1]:
            objects.append({})
        if value != "":
            objects[-1][name] = value
    return objects if len(objects) > 1 else objects[0]


def _listed_inline(lines: Sequence[str]) -> tuple[int, Any] | None:
    """Return what a line says that is several keys and values from its beginning."""
    found = _listed(_pairs_of(lines[0]))
    return found if found and found[0] == 0 else None


def _pairs_of(line: str) -> list[str]:
    """Return the parts of a line that may be several keys and values: `price: 5 | wifi: no`."""
    is_list = line.count(":") + line.count("：") > 2
    return [part.strip() for part in _INLINE.split(line) if part.strip()] if is_list else []


# --- line by line -------------------------------------------------------------------------------

_Form = tuple[str, Callable[[str], object], Callable[[Sequence[str]], tuple[int, Any] | None]]
_FORMS: Final[Sequence[_Form]] = (
    ("|", methodcaller("__contains__", "|"), _ruled),
    ("\t", methodcaller("count", "\t"), partial(_separated, "\t")),
    (",", _commas, partial(_separated, ",")),
    (":：", _pairs_of, _listed_inline),
    (":：", lambda line: _pair(line) is not None, _listed),
)
"""Each form's signs, of which a chunk holds one; what lines of one table share; how it is read."""


def _lines_of(chunk: str) -> list[Part]:
    """Return the tables and the lists of keys and values that are written line by line."""
    on_lines = _QUOTED_CELL.sub(lambda cell: cell[0].replace("\n", " "), chunk)
    lines = on_lines.replace("\r", " ").split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    places = [(at, at + len(line)) for at, line in zip(starts, lines, strict=False) if line]
    texts = [line for line in lines if line]
    parts: list[Part] = []
    for signs, kind_of, read in _FORMS:
        kinds = map(kind_of, texts) if any(sign in chunk for sign in signs) else ()
        last = 0
        for kind, run in groupby(kinds):
            first, last = last, last + len(list(run))
            found = read(texts[first:last]) if kind else None
            if found:
                first += found[0]
                parts.append((places[first][0], places[last - 1][1], found[1]))
                texts[first:last] = [""] * (last - first)
    return sorted(parts, key=itemgetter(0))


# --- as sentences -------------------------------------------------------------------------------

_WORD_BORDER: Final = lazy_pattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_|-")


@lru_cache(maxsize=4_096)
def spaced(key: str) -> str:
    """Return a key as words: `OutdoorSeating` and `outdoor_seating` are `Outdoor Seating`."""
    return _WORD_BORDER.sub(" ", key)


def rendered(found: Records, chunk: str) -> tuple[str, list[str]]:
    """Return the prose of a chunk, and its rows as sentences: `hours: Monday: 9 to 5`.

    Words of one key and its value stand together, as they would in a sentence.
    """
    ends = [0, *(end for _, end in found.parts)]
    starts = [*(start for start, _ in found.parts), len(chunk)]
    prose = "\n".join([chunk[at:start] for at, start in zip(ends, starts, strict=True)])
    rows: list[str] = []
    room = MAX_RENDERED * len(chunk)
    """Characters for keys, which a table has once for many cells."""
    for row in found.rows:
        cells: list[str] = []
        for key, value in row.cells:
            if not isinstance(value, Count):
                text = value if isinstance(value, str) else _SAID[value]
                room -= len(text) + len(key)
                cells.append(f"{spaced(key)}: {text}" if room >= 0 else text)
        head = f"{' '.join(map(spaced, row.keys[-2:]))}: " if row.keys and room > 0 else ""
        rows.append(head + "; ".join(cells))
    return prose, rows


_SAID: Final = {True: "yes", False: "no", None: ""}
