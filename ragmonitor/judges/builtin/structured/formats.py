"""Structured parts of a chunk as rows of cells.

They are JSON and its Python form, tables, lists of keys and values: each is read as a value of JSON
first, and what that holds as rows.
"""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from ragmonitor.runtime.patterns import lazy_pattern

Scalar = str | bool | None
MAX_KEYS, MAX_KEY, MAX_ATTEMPTS, MAX_VALUE, MAX_RENDERED = 4, 60, 4, 120, 3

Part = tuple[int, int, Any]
"""Where a structured part begins and ends, and its value of JSON, numbers as text."""


class Row(NamedTuple):
    """One object. Its keys lead to it, the outermost first."""

    parent: int
    keys: tuple[str, ...]
    cells: list[tuple[str, Scalar]]
    is_listed: bool


class Records:
    """The rows of a chunk."""

    def __init__(self, parts: Sequence[Part]) -> None:
        """Read the rows of all parts, an object each, and the counts of their lists."""
        self.rows: list[Row] = []
        self.counts: dict[tuple[int, tuple[str, ...]], int] = {}
        """Maps the row that holds a list, and the list's keys, to how many items it has."""
        self.parts = [(start, end) for start, end, _ in parts]
        waiting: list[tuple[Any, tuple[str, ...], int, bool]]
        """What is still to be read, its keys, the row around it, and whether it is of a list."""
        waiting = [(value, (), -1, False) for _, _, value in reversed(parts)]
        while waiting:
            holder, keys, parent, is_listed = waiting.pop()
            is_list = isinstance(holder, list)
            row = parent
            if not is_list or parent < 0:
                row = len(self.rows)
                self.rows.append(Row(parent, keys, [], is_listed))
            cells = self.rows[row].cells
            if is_list:
                self.counts |= {(row, name): n for name, n in _counts(holder, keys)}
            items = [("", each) for each in holder] if is_list else holder.items()
            nested: list[tuple[Any, tuple[str, ...], int, bool]] = []
            for key, each in items:
                place = keys if is_list else (*keys, str(key)[:MAX_KEY])[-MAX_KEYS:]
                is_literal = isinstance(each, str) and each[:1] in {"{", "["}
                inner = _decoded(each) if is_literal else each
                if isinstance(inner, dict | list):
                    nested.append((inner, place, row, is_list))
                else:
                    cells.append((place[-1] if place else "", each))
            waiting += reversed(nested)


def _counts(items: Sequence[Any], keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield how many items a list has, by its keys; without any, by columns that name them."""
    yield keys, len(items)
    if keys or not all(isinstance(each, dict) for each in items):
        return
    for column in items[0] if items else ():
        values = {each.get(column) for each in items if isinstance(each.get(column), str)}
        if len(values) == len(items) and not any(map(_NUMBERED.match, values)):
            yield (column,), len(items)


_NUMBERED: Final = lazy_pattern(r"\W{0,2}\d")
_VALUE = frozenset(["value", "values", "detail", "details", "值", "数值", "内容", "取值"])
_TEXT = r"\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)"
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_OPENING = lazy_pattern(r"\{\s*+[\"'}]|\[\s*+[{\"']")
_CELL = lazy_pattern(
    rf"[{{}}]|(?P<key>[\"'])(?P<name>[^\"'\\\n]{{1,{MAX_KEY}}})(?P=key)\s{{0,8}}:\s{{0,8}}"
    r"(?P<value>\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|[\w.+-]+)"
)
_PYTHON = lazy_pattern(
    rf"(?:\b[uU])?(?P<text>{_TEXT})|(?P<word>\b(?:True|False|None)\b)", re.DOTALL
)
_HTML_TABLE = lazy_pattern(r"<table\b.*?(?:</table>|\Z)", re.IGNORECASE | re.DOTALL)
_ROW_TAG = lazy_pattern(r"<tr\b[^<>]*+>", re.IGNORECASE)
_CELL_TAG = lazy_pattern(r"<t[dh]\b[^<>]*+>", re.IGNORECASE)
_TAG = lazy_pattern(r"<[^<>]*+>")
_FIGURE = lazy_pattern(
    r"\W{0,2}\d[\d.,:/-]{0,20}\s?\S{0,4}\Z|(?:yes|no|true|false|是|否)\Z", re.IGNORECASE
)
_PAIR = lazy_pattern(
    r"(?P<indent>[ \t]{0,40}(?:[-*•+][ \t]{1,4})?)(?:\*\*|__|[\"'])?"
    r"(?P<key>[^\W\d_][^:：\n*\"'|.?!。？！]{0,40}?)(?:\*\*|__|[\"'])?[ \t]?"
    r"(?::(?=[\s*]|\Z)|(?<!\d)：)(?:\*\*|__)?[ \t]*(?P<value>.*)"
)
_ITEM = lazy_pattern(r"(?P<indent>[ \t]{0,40}[-*•+][ \t]{1,4})(?P<key>)(?P<value>\S.*)")


_BRACKETS: Final = ("{", "['", '["', "':", '":', "' :", '" :')
_SIGNS: Final = (": ", ":\n", "：", ":**", "\t", "|-", "| -", "| :")
_HAS_WORD: Final = lazy_pattern(r"[^\W\d_]")


def records_of(chunk: str) -> Records | None:
    """Return the structured parts of a chunk; None for prose. Linear in its length."""
    holds = chunk.__contains__  # far quicker than any pattern
    parts = _bracketed(chunk) if any(map(holds, _BRACKETS)) else []
    if not parts and "<table" in chunk.lower():
        parts = list(_html_tables(chunk))
    if not parts and (any(map(holds, _SIGNS)) or chunk.count(",") >= chunk.count("\n") > 1):
        parts = list(_lines_of(chunk))
    found = Records(parts)
    has_keys = any(_HAS_WORD.search(key) for row in found.rows for key, _ in row.cells)
    return found if has_keys else None


def _bracketed(chunk: str) -> list[Part]:
    """Return the JSON of a chunk, or Python's literals; or what is left of one that is cut off."""
    parts: list[Part] = []
    for convert in (str, _from_python) if _OPENING.search(chunk) else ():
        text = convert(chunk)
        at = failed = 0
        while failed < MAX_ATTEMPTS and (opening := _OPENING.search(text, at)):
            try:
                value, end = _DECODER.raw_decode(text, opening.start())
            except RecursionError:
                break
            except json.JSONDecodeError as error:
                if error.msg.startswith("Unterminated") or error.pos >= len(text):
                    break  # it is cut off
                failed, at = failed + 1, opening.start() + 1
            else:
                parts.append((opening.start(), end, value))
                at = end
        if parts:
            return parts
    for is_brace, group in groupby(_CELL.finditer(chunk), key=lambda cell: not cell["name"]):
        if not is_brace:
            cells = list(group)
            value = {cell["name"]: _decoded(cell["value"]) for cell in cells}
            parts.append((cells[0].start(), cells[-1].end(), value))
    return parts if sum(len(value) for *_, value in parts) >= 3 else []


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
    if token["word"]:
        return {"True": "true", "False": "false", "None": "null"}[token["word"]]
    text = token["text"]
    return (
        text if text[0] == '"' else '"' + text[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    )


def _table(rows: Sequence[Sequence[str]]) -> Any:
    """Return a table, whose first line names the columns, as a value of JSON."""
    head = [" ".join(cell.split())[:MAX_KEY] for cell in rows[0]]
    if len(head) == 2 and head[1].lower() in _VALUE:
        return {cells[0]: cells[1] for cells in rows[1:] if len(cells) > 1}
    return [dict(zip(head, map(str.strip, cells), strict=False)) for cells in rows[1:]]


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


def _has_figures(table: Sequence[Sequence[str]]) -> bool:
    """Return whether below the head some column holds nothing but numbers, or yes and no."""
    return any(
        all(_FIGURE.match(row[at].strip()) for row in table[1:])
        for at in range(min(map(len, table)))
    )


def _lines_of(chunk: str) -> Iterator[Part]:
    lines = [match.span() for match in re.finditer(r"[^\n]+", chunk)]
    texts = [chunk[start:end].rstrip("\r") for start, end in lines]
    at, tried = 0, dict.fromkeys("\t,:", 0)
    while at < len(texts):
        used, value = _table_at(texts, at, tried) or _pairs_at(texts, at, tried) or (1, None)
        if value:
            yield lines[at][0], lines[at + used - 1][1], value
        at += used


def _table_at(texts: Sequence[str], at: int, tried: dict[str, int]) -> tuple[int, Any] | None:
    """Return the lines and the value of the table that begins at a line; None: none does."""
    rule, end = texts[at + 1] if at + 1 < len(texts) else "", at + 2
    is_ruled = "-" in rule and "|" in rule and set(rule) <= set("|:- \t")
    if "|" in texts[at].strip().strip("|") and is_ruled:
        while end < len(texts) and "|" in texts[end]:
            end += 1
        table = [
            [cell.strip(" \t*`") for cell in texts[line].strip().strip("|").split("|")]
            for line in (at, *range(at + 2, end))
        ]
        if len(table) > 1:
            return end - at, _table(table)
    for sign in "\t,":
        columns, end = texts[at].count(sign), at + 1
        if at < tried[sign] or not columns:
            continue
        while end < len(texts) and (
            texts[end].count(sign) == columns or ('"' in texts[end] and sign in texts[end])
        ):
            end += 1
        tried[sign] = end
        if end - at < 2:
            continue
        table = list(csv.reader(texts[at:end], delimiter=sign))
        head = {cell.strip() for cell in table[0]}
        is_named = all(0 < len(cell) <= 40 and not _FIGURE.match(cell) for cell in head)
        is_table = is_named and {len(row) for row in table} == {len(head)}
        if is_table and (sign == "\t" or (len(table) > 2 and _has_figures(table))):
            return end - at, _table(table)
    return None


def _pairs_at(texts: Sequence[str], at: int, tried: dict[str, int]) -> tuple[int, Any] | None:
    """Return the lines and the value of the list of keys and values that begins at a line."""
    if at < tried[":"]:
        return None
    lines: list[re.Match[str]] = []
    for text in texts[at : at + _MAX_LINES]:
        line = _pair(text) or (_ITEM.fullmatch(text) if lines else None)
        if line is None or len(line["value"]) > MAX_VALUE:
            break
        lines.append(line)
    tried[":"] = at + max(1, len(lines))
    statements = sum(line["value"][-1:] in _ENDS or len(line["value"]) > 60 for line in lines)
    if sum(bool(line["key"]) for line in lines) >= 3 and 3 * statements <= len(lines):
        return len(lines), _nested(lines)
    if sum(map(texts[at].count, "|;；")) < 2:
        return None
    parts = [part.strip() for part in _INLINE.split(texts[at]) if part.strip()]
    pairs = [pair for pair in map(_pair, parts) if pair]
    is_list = 2 < len(pairs) == len(parts) and all(0 < len(each["value"]) <= 40 for each in pairs)
    return (1, _nested(pairs)) if is_list else None


_MAX_LINES: Final = 2_000
_ENDS: Final = frozenset(".!?。！？,，")
_INLINE: Final = lazy_pattern("[|;；]")


def _pair(text: str) -> re.Match[str] | None:
    found = _PAIR.fullmatch(text) if ":" in text or "：" in text else None
    return found if found and len(found["key"].split()) <= 5 else None


def _nested(lines: Sequence[re.Match[str]]) -> Any:
    """Return the lines of a list as a value of JSON.

    What is indented below a key belongs to it, one level deep; a key that comes again begins the
    next object.
    """
    objects: list[dict[str, Any]] = [{}]
    inner: list[Any] = []
    """What stands below the key without a value that was read last."""
    opened, indent_opened = "", 0
    """That key, and its indent."""
    for line in lines:
        key, value = line["key"].strip(), line["value"].strip(" \t*`").strip("\"'")
        if not key:
            at = opened or next(reversed(objects[-1]), "items")
            before = objects[-1].get(at, [])
            objects[-1][at] = [*(before if isinstance(before, list) else [before]), value]
            continue
        if opened and len(line["indent"]) > indent_opened:
            if not inner or key in inner[-1]:
                inner.append({})
            inner[-1][key] = value or None
            objects[-1][opened] = inner if len(inner) > 1 else inner[0]
            continue
        if key in objects[-1]:
            objects.append({})
        if value:
            objects[-1][key] = value
        opened, indent_opened, inner = "" if value else key, len(line["indent"]), []
    return objects if len(objects) > 1 else objects[0]


_WORD_BORDER: Final = lazy_pattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_|-")


def spaced(key: str) -> str:
    """Return a key as words: `OutdoorSeating` and `outdoor_seating` are `Outdoor Seating`."""
    return _WORD_BORDER.sub(" ", key)


def rendered(found: Records, chunk: str) -> tuple[str, list[str]]:
    """Return the prose of a chunk, and its rows as sentences: `hours: Monday: 9 to 5`.

    Words of one key and its value stand together, as they would in a sentence.
    """
    prose: list[str] = []
    at = 0
    for start, end in (*found.parts, (len(chunk), len(chunk))):
        prose.append(chunk[at:start])
        at = end
    rows: list[str] = []
    room = MAX_RENDERED * len(chunk)
    for row in found.rows:
        cells: list[str] = []
        for key, value in row.cells:
            text = value if isinstance(value, str) else {True: "yes", False: "no", None: ""}[value]
            cells.append(f"{spaced(key)}: {text}" if room >= 0 else text)
            room -= len(text) + len(key)
        head = f"{' '.join(map(spaced, row.keys[-2:]))}: " if row.keys and room > 0 else ""
        rows.append(head + "; ".join(cells))
    return "\n".join(prose), rows
