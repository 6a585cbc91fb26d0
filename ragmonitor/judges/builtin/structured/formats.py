"""Structured parts of a chunk as rows of cells: JSON and its Python form, YAML, tables, lists of keys and values."""

from __future__ import annotations

import csv
import html
import json
import re
from calendar import month_name
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Scalar = str | bool | None
MAX_KEYS, MAX_KEY, MAX_ATTEMPTS, MAX_VALUE, MAX_RENDERED = 4, 60, 4, 120, 3


class Row(NamedTuple):
    """One object. Its keys lead to it, the outermost first."""

    parent: int
    keys: tuple[str, ...]
    cells: list[tuple[str, Scalar]]
    is_listed: bool


class Records:
    """The rows of a chunk, how many items its lists have, by the row that holds one and its keys, and where they stand."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.counts: dict[tuple[int, tuple[str, ...]], int] = {}
        self.parts: list[tuple[int, int]] = []

    def add(self, parent: int = -1, keys: tuple[str, ...] = (), is_listed: bool = False) -> int:
        self.rows.append(Row(parent, keys[-MAX_KEYS:], [], is_listed))
        return len(self.rows) - 1

    def add_value(self, value: Any) -> None:
        waiting: list[tuple[Any, tuple[str, ...], int, bool]] = [(value, (), -1, False)]
        while waiting:
            value, keys, parent, is_listed = waiting.pop()
            is_list = isinstance(value, list)
            row = (
                self.add(parent, keys, is_listed)
                if not is_list
                else self.add()
                if parent < 0
                else parent
            )
            if is_list:
                self.counts[row, keys[-MAX_KEYS:]] = len(value)
            nested = []
            for key, each in enumerate(value) if is_list else value.items():
                place = keys if is_list else (*keys, str(key)[:MAX_KEY])
                if (
                    isinstance(each, str)
                    and each[-1:] in "'}]"
                    and each[:1] in {"u", "'", "{", "["}
                ):
                    inner = parsed(each)  # a literal in a text
                    each = each if inner is ... else inner
                if isinstance(each, dict | list):
                    nested.append((each, place[-MAX_KEYS:], row, is_list))
                else:
                    self.rows[row].cells.append((place[-1] if place else "", each))
            waiting += reversed(nested)

    def add_table(self, table: Sequence[Sequence[str]]) -> None:
        head = [" ".join(cell.split())[:MAX_KEY] for cell in table[0]]
        if len(head) == 2 and head[1].lower() in _VALUE:
            self.rows[self.add()].cells.extend(
                (cells[0][:MAX_KEY], cells[1]) for cells in table[1:] if len(cells) > 1
            )
            return
        for cells in table[1:]:
            self.rows[self.add(is_listed=True)].cells.extend(zip(head, map(str.strip, cells)))
        for column, name in enumerate(head):
            values = {cells[column] for cells in table[1:] if column < len(cells)}
            if len(values) == len(table) - 1 and not any(
                re.match(r"\W{0,2}\d", value) for value in values
            ):
                self.counts[-1, (name,)] = len(values)


_VALUE = frozenset(["value", "values", "detail", "details", "值", "数值", "内容", "取值"])
_TEXT = r"\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)"
_BRACKET = re.compile(rf"{_TEXT}|[{{}}\[\]]", re.DOTALL)
_CELL = re.compile(
    rf"[{{}}]|(?P<key>[\"'])(?P<name>[^\"'\\\n]{{1,{MAX_KEY}}})(?P=key)\s{{0,8}}:\s{{0,8}}"
    r"(?P<value>\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|[\w.+-]+)"
)
_PYTHON = re.compile(rf"(?:\b[uU])?(?P<text>{_TEXT})|(?P<word>\b(?:True|False|None)\b)", re.DOTALL)
_TAG = re.compile(r"<(?P<close>/?)(?P<name>table|tr|t[dh]|d[td])\b[^<>]*+>", re.IGNORECASE)
_FIGURE = re.compile(
    r"\W{0,2}\d[\d.,:/-]{0,20}\s?\S{0,4}\Z|(?:yes|no|true|false|是|否)\Z", re.IGNORECASE
)
_PAIR = re.compile(
    r"(?P<indent>[ \t]{0,40}(?:[-*•+][ \t]{1,4})?)(?:\*\*|__|[\"'])?(?P<key>[^\W\d_][^:：\n*\"'|.?!。？！]{0,40}?)(?:\*\*|__|[\"'])?[ \t]?"
    r"(?::(?=[\s*]|\Z)|(?<!\d)：)(?:\*\*|__)?[ \t]*(?P<value>.*)"
)
_ITEM = re.compile(r"(?P<indent>[ \t]{0,40}[-*•+][ \t]{1,4})(?P<key>)(?P<value>\S.*)")


def records_of(chunk: str) -> Records | None:
    """Return the structured parts of a chunk; None for prose. Linear in its length."""
    found, count = Records(), chunk.count
    if (
        "{" in chunk
        or ("[" in chunk and re.search(r"\[\s*[\"'{]", chunk))
        or any(map(chunk.__contains__, ('":', "':", '" :', "' :")))
    ):
        found.parts = list(_bracketed(chunk, found))
    if not found.parts and "<" in chunk:
        found.parts = list(_html_tables(chunk, found))
    colons = count(": ") + count(":\n") + count("：") + count(":**")
    if not found.parts and (
        colons > 1
        or "\t" in chunk
        or "|-" in chunk
        or "| -" in chunk
        or "| :" in chunk
        or count(",") >= count("\n") > 1
    ):
        found.parts = list(_lines_of(chunk, found))
    has_keys = found.parts and any(
        re.search(r"[^\W\d_]", key) for row in found.rows for key, _ in row.cells
    )
    return found if has_keys else None


def _bracketed(chunk: str, found: Records) -> Iterator[tuple[int, int]]:
    at = failed = 0
    while failed < MAX_ATTEMPTS and (
        opening := re.compile(r"\{\s*+[\"'}]|\[\s*+[{\"']").search(chunk, at)
    ):
        start, end, depth = opening.start(), 0, 0
        for token in _BRACKET.finditer(chunk, start):
            depth += (token[0] in "{[") - (token[0] in "}]")
            if not depth and token[0] in "}]":
                end = token.end()
                break
        value = parsed(chunk[start:end]) if end else None
        if isinstance(value, dict | list) and value:
            found.add_value(value)
            yield start, end
            at = end
        elif not end:
            break
        else:
            failed, at = failed + 1, start + 1
    if found.rows:
        return
    row, cells = -1, []  # cut off at either end
    for cell in _CELL.finditer(chunk):
        row = -1 if not cell["name"] else found.add() if row < 0 else row
        if cell["name"]:
            value = parsed(cell["value"])
            found.rows[row].cells.append(
                (cell["name"], value if isinstance(value, str | bool | None) else cell["value"])
            )
            cells.append(cell)
    if len(cells) >= 3:
        yield cells[0].start(), cells[-1].end()
    else:
        found.rows.clear()


def parsed(text: str) -> Any:
    """Return a JSON value or a Python literal's, numbers as text; `...`: it is neither."""
    for convert in (str, lambda text: _PYTHON.sub(_json_of, text)):
        try:
            return json.loads(convert(text), parse_int=str, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError):
            continue
    return ...


def _json_of(token: re.Match[str]) -> str:
    if token["word"]:
        return {"True": "true", "False": "false", "None": "null"}[token["word"]]
    text = token["text"]
    return (
        text if text[0] == '"' else '"' + text[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    )


def _html_tables(chunk: str, found: Records) -> Iterator[tuple[int, int]]:
    tags = list(_TAG.finditer(chunk))
    tables: list[list[list[str]]] = [[]]
    for tag, following in zip(tags, [*tags[1:], None]):
        name, end = tag["name"].lower(), following.start() if following else len(chunk)
        text = " ".join(html.unescape(re.sub(r"<[^<>]*+>", " ", chunk[tag.end() : end])).split())
        if tag["close"]:
            continue
        if name == "table":
            tables.append([])
        elif name in {"tr", "dt"}:
            tables[-1].append([text] if name == "dt" else [])
        elif name in {"td", "th", "dd"} and tables[-1]:
            tables[-1][-1].append(text)
    for table in tables:
        table = [cells for cells in table if cells]
        if len(table) > 1 and {len(cells) for cells in table} == {2} and not _has_figures(table):
            found.rows[found.add()].cells.extend((key[:MAX_KEY], value) for key, value in table)
        elif len(table) > 1 and len(table[0]) > 1:
            found.add_table(table)
    if found.rows:
        yield tags[0].start(), tags[-1].end()


def _has_figures(table: Sequence[Sequence[str]]) -> bool:
    """Return whether below the head some column holds nothing but numbers, or yes and no."""
    return any(
        all(_FIGURE.match(row[at].strip()) for row in table[1:])
        for at in range(min(map(len, table)))
    )


def _lines_of(chunk: str, found: Records) -> Iterator[tuple[int, int]]:
    lines = [match.span() for match in re.finditer(r"[^\n]+", chunk)]
    texts = [chunk[start:end].rstrip("\r") for start, end in lines]
    at, tried = 0, dict.fromkeys("\t,;:", 0)
    while at < len(texts):
        used = _table_at(texts, at, tried, found) or _pairs_at(texts, at, tried, found)
        if used:
            yield lines[at][0], lines[at + used - 1][1]
        at += used or 1


def _table_at(texts: Sequence[str], at: int, tried: dict[str, int], found: Records) -> int:
    rule, end = texts[at + 1] if at + 1 < len(texts) else "", at + 2
    if "|" in texts[at] and "-" in rule and "|" in rule and set(rule) <= set("|:- \t"):
        while end < len(texts) and "|" in texts[end]:
            end += 1
        table = [
            [cell.strip(" \t*`") for cell in texts[line].strip().strip("|").split("|")]
            for line in (at, *range(at + 2, end))
        ]
        if len(table) > 1 and len(table[0]) > 1:
            found.add_table(table)
            return end - at
    for sign in "\t,;":
        columns, end = texts[at].count(sign), at + 1
        if at < tried[sign] or not columns:
            continue
        while end < len(texts) and (
            texts[end].count(sign) == columns or ('"' in texts[end] and sign in texts[end])
        ):
            end += 1
        tried[sign] = end
        table = list(csv.reader(texts[at:end], delimiter=sign)) if end - at > 1 else [[]]
        head = [cell.strip() for cell in table[0]]
        is_named = len(set(head)) == len(head) > 0 and all(
            0 < len(cell) <= 40 and not _FIGURE.match(cell) for cell in head
        )
        if (
            is_named
            and all(len(row) == len(head) for row in table)
            and (sign == "\t" or (len(table) > 2 and _has_figures(table)))
        ):
            found.add_table(table)
            return end - at
    return 0


def _pairs_at(texts: Sequence[str], at: int, tried: dict[str, int], found: Records) -> int:
    if at < tried[":"]:
        return 0
    lines: list[re.Match[str]] = []
    while at + len(lines) < len(texts):
        text = texts[at + len(lines)]
        line = _pair(text) or (_ITEM.fullmatch(text) if lines else None)
        if line is None or len(line["value"]) > MAX_VALUE:
            break
        lines.append(line)
    tried[":"] = at + max(1, len(lines))
    statements = sum(
        line["value"].endswith((".", "!", "?", "。", "！", "？", ",", "，"))
        or len(line["value"]) > 60
        for line in lines
    )
    if sum(bool(line["key"]) for line in lines) >= 3 and 3 * statements <= len(lines):
        heading = re.match(r"[ \t]{0,3}#{1,6}[ \t]+(\S.{0,80})", texts[at - 1]) if at else None
        _add_pairs(lines, heading[1] if heading else "", found)
        return len(lines)
    for sign in "|;；":
        inline = (
            [_pair(part.strip()) for part in texts[at].split(sign) if part.strip()]
            if texts[at].count(sign) > 1
            else [None]
        )
        if all(pair and 0 < len(pair["value"]) <= 40 for pair in inline):
            _add_pairs([pair for pair in inline if pair], "", found)
            return 1
    return 0


def _pair(text: str) -> re.Match[str] | None:
    found = _PAIR.fullmatch(text)
    return found if found and len(found["key"].split()) <= 5 else None


def _add_pairs(lines: Sequence[re.Match[str]], name: str, found: Records) -> None:
    """Add the rows of a list: what is indented below a key belongs to it, a key again begins the next row."""
    row, opened = found.add(), ""
    found.rows[row].cells.extend([("name", name)] if name else [])
    frames = [(0, row, {"name"} if name else set[str]())]
    for line in lines:
        key, value, indent = line["key"].strip(), line["value"].strip(" \t*`"), len(line["indent"])
        items = (
            [value]
            if not key
            else value[1:-1].split(",")
            if value[:1] in {"[", "{"} and value[-1:] in "]}"
            else []
        )
        while key and len(frames) > 1 and frames[-1][0] > indent:
            frames.pop()
        _, row, seen = frames[-1]
        if key and opened and indent > frames[-1][0]:
            row = found.add(row, (*found.rows[row].keys, opened))
            frames.append((indent, row, seen := set()))
        elif key and key in seen:
            before = found.rows[row]
            found.rows[row] = before._replace(is_listed=True)
            found.counts[before.parent, before.keys] = (
                found.counts.get((before.parent, before.keys), 1) + 1
            )
            row = found.add(before.parent, before.keys, True)
            frames[-1] = (frames[-1][0], row, seen := set())
        seen.add(key)
        for item in items:
            place = row, (*found.rows[row].keys, key or opened)[-MAX_KEYS:]
            found.counts[place] = found.counts.get(place, 0) + 1
            found.rows[row].cells.append((key or opened, item.strip(" \t\"'")))
        if key:
            opened = "" if value else key
            found.rows[row].cells.extend([(key, value.strip("\"'"))] if value and not items else [])


def spaced(key: str) -> str:
    """Return a key as words: `OutdoorSeating` and `outdoor_seating` are `Outdoor Seating`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_|-", " ", key)


def rendered(found: Records, chunk: str) -> tuple[str, list[str]]:
    """Return the prose of a chunk, and its rows as sentences: `hours: Monday: 9 to 5; Sunday: closed`."""
    ends = [0, *(end for _, end in found.parts)]
    prose = [
        chunk[at:start]
        for at, start in zip(ends, [*(start for start, _ in found.parts), len(chunk)])
    ]
    rows: list[str] = []
    room = MAX_RENDERED * len(chunk)
    for row in found.rows:
        cells: list[str] = []
        for key, value in row.cells:
            text = value if isinstance(value, str) else {True: "yes", False: "no", None: ""}[value]
            if date := re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])-\d\d(?:[T ].{0,30})?", text):
                text = f"{text} ({month_name[int(date[1])]})"
            (rows if len(text) > 80 else cells).append(
                text if len(text) > 80 or room < 0 else f"{spaced(key)}: {text}"
            )
            room -= len(text) + len(key)
        head = f"{' '.join(map(spaced, row.keys[-2:]))}: " if row.keys and room > 0 else ""
        rows += [head + "; ".join(cells[first : first + 12]) for first in range(0, len(cells), 12)]
    return "\n".join(prose), rows
