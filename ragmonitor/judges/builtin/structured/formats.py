"""Structured parts of a chunk, parsed into rows of cells.

JSON and Python's `repr` of it, YAML's plain subset, key-value lists, CSV, TSV, Markdown tables and
HTML tables. A part that does not parse is prose. Every pattern looks at a bounded neighbourhood or
never backtracks, no attempt is repeated over the same text, and nothing recurses: the time is
linear in the text's length.
"""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragmonitor.patterns import lazy_pattern

Scalar = str | bool | None
"""A cell's value; numbers keep their text."""

MAX_KEYS: Final = 4
"""Innermost keys of a place that are kept."""
MAX_KEY: Final = 60
"""Characters of a key."""
MAX_ATTEMPTS: Final = 4
"""Brackets of one chunk that are tried in vain before the rest is taken for prose."""


@dataclass(slots=True)
class Row:
    """One object: what stands together under one place."""

    parent: int
    """Position of the object around it; -1: none."""
    keys: tuple[str, ...]
    """Keys that lead to it, the outermost first; positions in lists are left out."""
    cells: list[tuple[str, Scalar]] = field(default_factory=list)
    is_listed: bool = False
    """Whether it is one of the rows of a table or the items of a list."""


_FIELD: Final = frozenset(
    ["field", "key", "attribute", "property", "parameter", "specification", "spec", "item", "name"]
).union(["字段", "属性", "项目", "参数", "规格", "名称"])
_VALUE: Final = frozenset(["value", "values", "detail", "details", "值", "数值", "内容", "取值"])
"""Heads of a table of two columns that is one record, a field in each of its lines."""


@dataclass(slots=True)
class Records:
    """The rows of a chunk, and how many items its lists have."""

    rows: list[Row] = field(default_factory=list)
    counts: dict[tuple[int, tuple[str, ...]], int] = field(default_factory=dict)
    """Maps the row that holds a list, and the list's keys, to the number of its items."""

    def add_row(self, parent: int = -1, keys: tuple[str, ...] = (), *, listed: bool = False) -> int:
        """Add an empty row; return its position."""
        self.rows.append(Row(parent, keys[-MAX_KEYS:], is_listed=listed))
        return len(self.rows) - 1

    def add_value(self, value: Any, keys: tuple[str, ...] = (), parent: int = -1) -> None:
        """Add what a JSON parser returned."""
        waiting = [(value, keys, parent, False)]
        while waiting:
            value, keys, parent, listed = waiting.pop()
            if isinstance(value, dict):
                row = self.add_row(parent, keys, listed=listed)
                inner = [(each, (*keys, str(key)[:MAX_KEY])) for key, each in value.items()]
            else:
                row = self.add_row() if parent < 0 else parent
                self.counts[row, keys[-MAX_KEYS:]] = len(value)
                inner = [(each, keys) for each in value]
            nested = []
            for each, place in inner:
                unwrapped = _unwrapped(each)
                if isinstance(unwrapped, dict | list):
                    nested.append((unwrapped, place[-MAX_KEYS:], row, isinstance(value, list)))
                else:
                    self.rows[row].cells.append((place[-1] if place else "", unwrapped))
            waiting += reversed(nested)

    def add_table(self, table: Sequence[Sequence[str]]) -> None:
        """Add a table whose first row is its head."""
        head = [" ".join(cell.split())[:MAX_KEY] for cell in table[0]]
        if len(head) == 2 and head[0].lower() in _FIELD and head[1].lower() in _VALUE:
            pairs = [(*cells, "", "")[:2] for cells in table[1:]]
            self.rows[self.add_row()].cells += [(key[:MAX_KEY], value) for key, value in pairs]
            return
        for cells in table[1:]:
            row = self.add_row(listed=True)
            self.rows[row].cells += zip(head, map(str.strip, cells), strict=False)
        for column, name in enumerate(head):
            values = {cells[column] for cells in table[1:] if column < len(cells)}
            is_kind = not any(map(_BEGINS_FIGURE.match, values))
            if is_kind and len(values) == len(table) - 1:  # one row for each
                self.counts[-1, (name,)] = len(values)


@dataclass(slots=True)
class Structured:
    """A chunk with structured parts."""

    records: Records
    parts: list[tuple[int, int]]
    """Offsets of the structured parts, ascending; the rest of the chunk is prose."""


def structured(chunk: str) -> Structured | None:
    """Return the structured parts of a chunk; None for prose. Linear in its length."""
    if not _may_be_structured(chunk):
        return None
    records = Records()
    parts = list(_bracketed(chunk, records)) or list(_html_tables(chunk, records))
    parts = parts or list(_lines_of(chunk, records))
    has_keys = any(_LETTER.search(key) for row in records.rows for key, _ in row.cells)
    return Structured(records, parts) if parts and has_keys else None


_SIGNS: Final = "{<|\t:：;；"
_LIST: Final = lazy_pattern(r"\[\s*[\"'{]")


def _may_be_structured(chunk: str) -> bool:
    """Return whether a chunk has one of the signs of which every structured text has one."""
    if any(map(chunk.__contains__, _SIGNS)) or ("[" in chunk and _LIST.search(chunk)):
        return True
    below = chunk.find("\n")
    return below >= 0 and chunk.find(",", below) >= 0  # rows below a head


_LETTER: Final = lazy_pattern(r"[^\W\d_]")

# --- JSON -----------------------------------------------------------------------------------

_TEXT: Final = r"\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)"
_BRACKET: Final = lazy_pattern(rf"{_TEXT}|[{{}}\[\]]", re.DOTALL)
_OPENING: Final = lazy_pattern(r"\{\s*+[\"'}]|\[\s*+[{\"']")
_CELL: Final = lazy_pattern(
    rf"[{{}}]|(?P<key>[\"'])(?P<name>[^\"'\\\n]{{1,{MAX_KEY}}})(?P=key)\s{{0,8}}:\s{{0,8}}"
    r"(?P<value>\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|[\w.+-]+)"
)
_MIN_CELLS: Final = 3


def _bracketed(chunk: str, records: Records) -> Iterator[tuple[int, int]]:
    """Yield the offsets of JSON values, and of a value that is cut off."""
    at = failed = 0
    while failed < MAX_ATTEMPTS and (opening := _OPENING.search(chunk, at)):
        start = opening.start()
        end = _closing(chunk, start)
        value = _parsed(chunk[start:end]) if end else None
        if isinstance(value, dict | list) and value:
            records.add_value(value)
            yield start, end
            at = end
        elif not end:
            break
        else:
            failed += 1
            at = start + 1
    if not records.rows:
        yield from _cut_off(chunk, records)


def _closing(chunk: str, start: int) -> int:
    """Return the offset after the bracket that closes the one at `start`; 0: there is none."""
    depth = 0
    for token in _BRACKET.finditer(chunk, start):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
            if not depth:
                return token.end()
    return 0


def _cut_off(chunk: str, records: Records) -> Iterator[tuple[int, int]]:
    """Yield the offsets of what is JSON but for its beginning or its end."""
    row = -1
    found: list[re.Match[str]] = []
    for cell in _CELL.finditer(chunk):
        if not cell["name"]:
            row = -1
            continue
        if row < 0:
            row = records.add_row()
        value = _parsed(cell["value"])
        value = value if isinstance(value, str | bool | None) else cell["value"]
        records.rows[row].cells.append((cell["name"], value))
        found.append(cell)
    if len(found) >= _MIN_CELLS:
        yield found[0].start(), found[-1].end()
    else:
        records.rows.clear()


def _parsed(text: str) -> Any:
    """Return a JSON value, or a Python literal's; numbers as text; `...`: it is neither."""
    for form in (text, None):
        try:
            return json.loads(
                _PYTHON.sub(_json_of, text) if form is None else form,
                parse_int=str,
                parse_float=str,
                parse_constant=str,
            )
        except (ValueError, RecursionError):
            continue
    return ...


_PYTHON: Final = lazy_pattern(
    rf"(?:\b[uU])?(?P<text>{_TEXT})|(?P<word>\b(?:True|False|None)\b)", re.DOTALL
)
_PYTHON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}


def _json_of(token: re.Match[str]) -> str:
    if token["word"]:
        return _PYTHON_WORDS[token["word"]]
    text = token["text"]
    if text[0] == '"':
        return text
    return '"' + text[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'


def _unwrapped(value: Any) -> Any:
    """Return a value, and of a text that is a whole literal itself its value: `"u'free'"`."""
    if isinstance(value, str) and value[-1:] in "'}]" and value[:1] in {"u", "'", "{", "["}:
        inner = _parsed(value)
        return value if inner is ... else inner
    return value


# --- HTML -----------------------------------------------------------------------------------

_TAG: Final = lazy_pattern(r"<(?P<close>/?)(?P<name>table|tr|t[dh]|d[td])\b[^<>]*+>", re.IGNORECASE)
_ANY_TAG: Final = lazy_pattern(r"<[^<>]*+>")


def _html_tables(chunk: str, records: Records) -> Iterator[tuple[int, int]]:
    """Yield the offsets from the first to the last tag of tables and definition lists."""
    tags = list(_TAG.finditer(chunk)) if "<" in chunk else []
    table: list[list[str]] = []
    terms: list[list[str]] = []
    for position, tag in enumerate(tags):
        name = tag["name"].lower()
        if tag["close"]:
            continue
        following = tags[position + 1].start() if position + 1 < len(tags) else len(chunk)
        text = " ".join(html.unescape(_ANY_TAG.sub(" ", chunk[tag.end() : following])).split())
        if name == "table":
            _add_html(table, records)
            table = []
        elif name == "tr":
            table.append([])
        elif name in {"td", "th"} and table:
            table[-1].append(text)
        elif name == "dt":
            terms.append([text, ""])
        elif name == "dd" and terms:
            terms[-1][1] = text
    _add_html(table, records)
    _add_html(terms, records)
    if records.rows:
        yield tags[0].start(), tags[-1].end()


def _add_html(table: list[list[str]], records: Records) -> None:
    """Add a table; one of two columns without a head is a list of keys and values."""
    table = [cells for cells in table if cells]
    if len(table) > 1 and {len(cells) for cells in table} == {2} and not _has_figures(table):
        row = records.add_row()
        records.rows[row].cells += [(key[:MAX_KEY], value) for key, value in table]
    elif len(table) > 1 and len(table[0]) > 1:
        records.add_table(table)


# --- lines ----------------------------------------------------------------------------------

_LINE: Final = lazy_pattern(r"[^\n]+")
_MAX_HEAD: Final = 40
"""Characters of a column's name."""


def _lines_of(chunk: str, records: Records) -> Iterator[tuple[int, int]]:
    """Yield the offsets of tables and of lists of keys and values."""
    lines = [match.span() for match in _LINE.finditer(chunk)]
    texts = [chunk[start:end].rstrip("\r") for start, end in lines]
    at = 0
    tried = dict.fromkeys("\t,;|:", 0)
    while at < len(texts):
        used = _table_at(texts, at, tried, records) or _pairs_at(texts, at, tried, records)
        if used:
            yield lines[at][0], lines[at + used - 1][1]
        at += used or 1


def _table_at(texts: Sequence[str], at: int, tried: dict[str, int], records: Records) -> int:
    """Return how many lines a table that begins here has; 0: none begins here."""
    if "|" in texts[at]:
        return _markdown_at(texts, at, records)
    for delimiter in "\t,;":
        if at >= tried[delimiter] and delimiter in texts[at]:
            used = _delimited_at(texts, at, delimiter, tried, records)
            if used:
                return used
    return 0


def _markdown_at(texts: Sequence[str], at: int, records: Records) -> int:
    rule = texts[at + 1] if at + 1 < len(texts) else ""
    if "-" not in rule or "|" not in rule or not set(rule) <= set("|:- \t"):
        return 0
    if len(_row_of(texts[at])) < 2:
        return 0  # before the lines below, which may begin as many such tables, are looked at
    end = at + 2
    while end < len(texts) and "|" in texts[end]:
        end += 1
    table = [_row_of(texts[line]) for line in (at, *range(at + 2, end))]
    if len(table) < 2:
        return 0
    records.add_table(table)
    return end - at


def _row_of(line: str) -> list[str]:
    return [cell.strip(" \t*`") for cell in line.strip().strip("|").split("|")]


def _delimited_at(
    texts: Sequence[str], at: int, delimiter: str, tried: dict[str, int], records: Records
) -> int:
    """Return how many lines CSV has here: short column names, as many cells in each line."""
    columns = texts[at].count(delimiter)
    end = at + 1
    while end < len(texts) and (
        texts[end].count(delimiter) == columns or ('"' in texts[end] and delimiter in texts[end])
    ):
        end += 1
    tried[delimiter] = end
    if end - at < 2:
        return 0
    try:
        table = list(csv.reader(texts[at:end], delimiter=delimiter))
    except csv.Error:
        return 0
    head = [cell.strip() for cell in table[0]]
    if len(set(head)) < len(head) or not all(0 < len(cell) <= _MAX_HEAD for cell in head):
        return 0
    if any(len(row) != len(head) for row in table) or any(_FIGURE.match(cell) for cell in head):
        return 0
    if delimiter != "\t" and not (len(table) > 2 and len(head) > 1 and _has_figures(table)):
        return 0
    records.add_table(table)
    return end - at


_BEGINS_FIGURE: Final = lazy_pattern(r"\W{0,2}\d")
_FIGURE: Final = lazy_pattern(
    r"\W{0,2}\d[\d.,:/-]{0,20}\s?\S{0,4}\Z|(?:yes|no|true|false|是|否)\Z", re.IGNORECASE
)


def _has_figures(table: Sequence[Sequence[str]]) -> bool:
    """Return whether below the head some column holds nothing but numbers, or yes and no."""
    return any(
        all(_FIGURE.match(row[column].strip()) for row in table[1:] if column < len(row))
        for column in range(min(map(len, table)))
    )


# --- keys and values ------------------------------------------------------------------------

_PAIR: Final = lazy_pattern(
    r"(?P<indent>[ \t]{0,40})(?P<dash>(?:[-*•+][ \t]{1,4})?)(?:\*\*|__|[\"'])?"
    rf"(?P<key>[^\W\d_][^:：\n*\"'|.?!。？！]{{0,{_MAX_HEAD}}}?)(?:\*\*|__|[\"'])?[ \t]?"
    r"(?::(?=[\s*]|\Z)|(?<!\d)：)(?:\*\*|__)?[ \t]*(?P<value>.*)"
)
_ITEM: Final = lazy_pattern(r"[ \t]{0,40}[-*•+][ \t]{1,4}(?P<value>\S.*)")
_MAX_VALUE: Final = 120
"""Characters of a value; longer ones are prose."""
_MAX_SHORT: Final = 60
_STOPS: Final = (".", "!", "?", "。", "！", "？", ",", "，")
_MAX_KEY_WORDS: Final = 5
_MIN_PAIRS: Final = 3
_HEADING: Final = lazy_pattern(r"[ \t]{0,3}#{1,6}[ \t]+(?P<name>\S.{0,80})")


def _pairs_at(texts: Sequence[str], at: int, tried: dict[str, int], records: Records) -> int:
    """Return how many lines a list of keys and values has here; 0: none begins here."""
    if at < tried[":"]:
        return 0
    lines: list[re.Match[str]] = []
    pairs = 0
    while at + len(lines) < len(texts):
        text = texts[at + len(lines)]
        found = _pair(text) or (_ITEM.fullmatch(text) if lines else None)
        if found is None or len(found["value"]) > _MAX_VALUE:
            break
        pairs += "key" in found.re.groupindex
        lines.append(found)
    tried[":"] = at + max(1, len(lines))
    statements = sum(
        line["value"].endswith(_STOPS) or len(line["value"]) > _MAX_SHORT for line in lines
    )
    if pairs < _MIN_PAIRS or 3 * statements > len(lines):
        return _inline_at(texts[at], records)
    heading = _HEADING.match(texts[at - 1]) if at else None
    _add_pairs(lines, heading["name"] if heading else "", records)
    return len(lines)


def _pair(text: str) -> re.Match[str] | None:
    """Return a line that gives a key a value, unless it is the beginning of a sentence."""
    found = _PAIR.fullmatch(text)
    return found if found and len(found["key"].split()) <= _MAX_KEY_WORDS else None


def _inline_at(text: str, records: Records) -> int:
    """Return 1 for a line of keys and values with bars or semicolons between them."""
    for sign in ("|", ";", "；"):
        if text.count(sign) >= _MIN_PAIRS - 1:
            pairs = [_pair(part.strip()) for part in text.split(sign) if part.strip()]
            if all(pair and 0 < len(pair["value"]) <= _MAX_HEAD for pair in pairs):
                _add_pairs([pair for pair in pairs if pair], "", records)
                return 1
    return 0


def _add_pairs(lines: Sequence[re.Match[str]], name: str, records: Records) -> None:
    """Add the rows of a list: what is indented below a key belongs to it.

    A key that a row has already begins the next row.
    """
    row = records.add_row()
    if name:
        records.rows[row].cells.append(("name", name))
    frames = [(0, row, {"name"} if name else set[str]())]
    opened = ""  # the key without a value that the next lines may belong to
    for line in lines:
        if "key" not in line.re.groupindex:
            _add_item(records, frames[-1][1], opened, line["value"])
            continue
        key, value = line["key"].strip(), line["value"].strip(" \t*`")
        indent = len(line["indent"]) + len(line["dash"])
        while len(frames) > 1 and frames[-1][0] > indent:
            frames.pop()
        _, row, seen = frames[-1]
        if opened and indent > frames[-1][0]:
            row = records.add_row(row, (*records.rows[row].keys, opened))
            frames.append((indent, row, seen := set()))
        elif key in seen:
            row = _sibling(records, row)
            frames[-1] = (frames[-1][0], row, seen := set())
        seen.add(key)
        opened = "" if value else key
        if value:
            _add_cell(records, row, key, value)


def _sibling(records: Records, row: int) -> int:
    """Add the next item of the list that a row belongs to; return its position."""
    before = records.rows[row]
    before.is_listed = True
    place = before.parent, before.keys
    records.counts[place] = records.counts.get(place, 1) + 1
    return records.add_row(before.parent, before.keys, listed=True)


def _add_item(records: Records, row: int, key: str, value: str) -> None:
    place = row, (*records.rows[row].keys, key)[-MAX_KEYS:]
    records.counts[place] = records.counts.get(place, 0) + 1
    records.rows[row].cells.append((key, value.strip()))


def _add_cell(records: Records, row: int, key: str, value: str) -> None:
    if value[0] in "[{" and value[-1] in "]}":
        for item in value[1:-1].split(","):
            _add_item(records, row, key, item.strip(" \t\"'"))
    else:
        records.rows[row].cells.append((key, value.strip("\"'")))
