"""Reads the CSV that people fill in, and what spreadsheets make of it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ragmonitor.runtime.errors import InputError, file_errors
from ragmonitor.stats.labels.correction import Label

YES: Final = frozenset(("1", "yes", "y", "true", "t", "hallucinated", "x", "是", "有", "真"))
NO: Final = frozenset(("0", "no", "n", "false", "f", "fine", "ok", "否", "无", "假"))
UNDECIDED: Final = frozenset(("", "?", "unsure", "n/a", "na", "-", "不确定"))
SEALED: Final = "sealed"
"""The column that holds what `seal` wrote."""
_SEAL: Final = re.compile(r"v([0-9a-f]{16})((?:[0-9a-f]{2})+)", re.IGNORECASE)
_DAYS: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")


def seal(values: Mapping[str, object], salt: bytes) -> str:
    """Return columns as a text that people cannot read at a glance, so that no label follows them.

    Args:
        values: By column; what `read_rows` is to find in them.
        salt: 8 bytes, others in each row: equal verdicts then look different.
    """
    plain = json.dumps(dict(values)).encode()
    return f"v{salt.hex()}{_mixed(plain, salt).hex()}"


def opened(cell: str, where: str) -> dict[str, str]:
    """Return the columns that `seal` wrote; `where` the cell is, for the error.

    Raises:
        InputError: It was not `seal` that wrote this.
    """
    match = _SEAL.fullmatch(cell.strip())
    try:
        if match is None:
            raise ValueError
        values = json.loads(_mixed(bytes.fromhex(match[2]), bytes.fromhex(match[1])))
        return {str(name): str(value) for name, value in values.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{where}: not what `ragmonitor labels sample` wrote there") from error


def _mixed(text: bytes, salt: bytes) -> bytes:
    return bytes(
        a ^ b for a, b in zip(text, hashlib.shake_128(salt).digest(len(text)), strict=True)
    )


def read_labels(path: Path) -> Sequence[Label]:
    """Return the rows of a CSV that people have filled in; of one id, the last.

    Raises:
        InputError: As `read_rows`.
    """
    return labels_of(read_rows(path))


def labels_of(rows: Iterable[Label]) -> Sequence[Label]:
    """Return the rows that people have filled in; of one id, the last."""
    filled_in = {
        row.interaction_id or f"row {number}": row
        for number, row in enumerate(rows)
        if row.human is not None
    }
    return [*filled_in.values()]


def read_rows(path: Path) -> Sequence[Label]:
    """Return every row of a CSV of labels.

    Needs the columns `judged` (or `sealed`, which holds it unreadably), `human` (yes or no, true or
    false, 1 or 0, 是 or 否; `human` may be empty or "?") and `at` (ISO 8601, UTC if it names no
    offset, or seconds since the epoch); reads `id`, `chance` and `drawn_from`; passes over others.
    Takes what spreadsheets make of a CSV: semicolons or tabs, UTF-16, GB 18030.

    Raises:
        InputError: The file cannot be read; a column is missing; or a cell says something else,
            with its line and column.
    """
    with file_errors(path):
        text = _decoded(path.read_bytes())
    head, _, _ = text.partition("\n")
    delimiter = max(",;\t", key=head.count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        columns = [name.strip().casefold() for name in next(table, [])]
        verdict = SEALED if SEALED in columns else "judged"
        if lacking := [name for name in (verdict, "human", "at") if name not in columns]:
            raise InputError(
                f"{path}: no column {', '.join(lacking)}; `ragmonitor labels sample` writes such "
                "a file"
            )
        rows = []
        before = table.line_num
        for cells in table:
            if any(cell.strip() for cell in cells):
                # A short row is one whose last cells are empty: some programs cut them off.
                padded = [*cells, *[""] * (len(columns) - len(cells))]
                where = f"{path}, line {before + 1}"
                rows.append(_row(dict(zip(columns, padded, strict=False)), where))
            before = table.line_num
    except csv.Error as error:
        raise InputError(f"{path}, line {table.line_num}: {error}") from error
    return rows


def _decoded(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("latin-1")


def _row(cells: Mapping[str, str], where: str) -> Label:
    if SEALED in cells:
        cells = {**cells, **opened(cells[SEALED], f"{where}, column {SEALED}")}
    judged = _answer(cells.get("judged", ""), f"{where}, column judged")
    if judged is None:
        raise InputError(f"{where}, column judged: empty; the judge's verdict is needed")
    return Label(
        interaction_id=cells.get("id", "").strip(),
        judged=judged,
        human=_answer(cells["human"], f"{where}, column human"),
        at_s=_moment(cells["at"], f"{where}, column at"),
        chance=_chance(cells.get("chance", ""), f"{where}, column chance"),
        drawn_from=_count(cells.get("drawn_from", ""), f"{where}, column drawn_from"),
    )


def _answer(cell: str, where: str) -> bool | None:
    word = _plain(cell).casefold()
    if word in UNDECIDED:
        return None
    if word in YES or word in NO:
        return word in YES
    raise InputError(f"{where}: {cell[:40]!r} is neither yes (it is hallucinated) nor no")


def _moment(cell: str, where: str) -> float:
    word = _plain(cell)
    number = _number(word)
    if number is not None:
        return number
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        moment = _day(word.replace("/", "-"), where)
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


def _day(word: str, where: str) -> datetime:
    for form in _DAYS:
        try:
            return datetime.strptime(word, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise InputError(f"{where}: {word[:40]!r} is no time such as 2026-05-04T12:00:00Z")


def _chance(cell: str, where: str) -> float:
    word = _plain(cell).replace(",", ".")
    if not word:
        return 1.0
    chance = _number(word)
    if chance is None or not 0 < chance <= 1:
        raise InputError(f"{where}: {cell[:40]!r} is no chance above 0 and up to 1")
    return chance


def _count(cell: str, where: str) -> int | None:
    word = _plain(cell)
    if not word:
        return None
    count = _number(word)
    if count is None or count < 1:
        raise InputError(f"{where}: {cell[:40]!r} is no count")
    return int(count)


def _number(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _plain(cell: str) -> str:
    return unicodedata.normalize("NFKC", cell).strip()
