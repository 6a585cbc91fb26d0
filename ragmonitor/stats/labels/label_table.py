"""Reads the CSV that `ragmonitor labels sample` wrote and people have filled in."""

from __future__ import annotations

import base64
import json
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.tables import Table
from ragmonitor.stats.labels.correction import Label

YES: Final = frozenset(("1", "yes", "y", "true", "t", "hallucinated", "x", "是", "有", "真"))
NO: Final = frozenset(("0", "no", "n", "false", "f", "fine", "ok", "否", "无", "假"))
UNDECIDED: Final = frozenset(("", "?", "unsure", "n/a", "na", "-", "不确定"))
HUMAN: Final = "human"
"""The column that people fill in."""
SEALED: Final = "sealed"
"""The column that holds what `seal` wrote."""
MAX_SEALED_BYTES: Final = 10_000


def seal(label: Label) -> str:
    """Return a label as a text that people cannot read at a glance, so that none follows it.

    What a spreadsheet would change, such as times and ids of digits, is safe in there, too.
    """
    values = {
        "id": label.interaction_id,
        "judged": label.judged,
        "at": label.at_s,
        "chance": label.chance,
        "drawn_from": label.drawn_from,
    }
    # Compressed, so that equal verdicts look different.
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(values).encode())).decode()


def opened(cell: str, human: bool | None = None) -> Label:
    """Return the label that `seal` wrote, with what a person says.

    Raises:
        InputError: It was not `seal` that wrote this.
    """
    try:
        packed = base64.b64decode(cell.strip(), b"-_", validate=True)
        values: Any = json.loads(zlib.decompressobj().decompress(packed, MAX_SEALED_BYTES))
        label = Label(
            interaction_id=str(values["id"]),
            judged=bool(values["judged"]),
            human=human,
            at_s=float(values["at"]),
            chance=float(values["chance"]),
            drawn_from=int(values["drawn_from"]),
        )
        if not 0 < label.chance <= 1 or label.drawn_from < 1 or not 0 <= label.at_s < 1e11:
            raise ValueError
    except (zlib.error, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InputError("not what `ragmonitor labels sample` wrote there") from error
    return label


def labels_of(rows: Iterable[Label]) -> Sequence[Label]:
    """Return the rows that people have filled in; of one id, the last."""
    return [*{row.interaction_id: row for row in rows if row.human is not None}.values()]


def read_rows(path: Path) -> Sequence[Label]:
    """Return every row of a CSV of labels.

    Needs the columns `sealed` and `human` (yes or no, true or false, 1 or 0, 是 or 否; empty or "?"
    where nobody can tell) and passes over others.

    Raises:
        InputError: The file cannot be read; a column is missing; or a cell says something else,
            with its row and column.
    """
    rows = []
    for row in Table(path, columns=(HUMAN, SEALED)):
        if row.error:
            raise InputError(f"{path}, row {row.number}: {row.error}")
        cells = row.value
        if not isinstance(cells, Mapping) or not {HUMAN, SEALED} <= cells.keys():
            raise InputError(
                f"{path}: no columns {HUMAN} and {SEALED}; `ragmonitor labels sample` writes such "
                "a file"
            )
        column = HUMAN
        try:
            human = _answer(str(cells[HUMAN]))
            column = SEALED
            rows.append(opened(str(cells[SEALED]), human))
        except InputError as error:
            raise InputError(f"{path}, row {row.number}, column {column}: {error}") from error
    return rows


def _answer(cell: str) -> bool | None:
    word = unicodedata.normalize("NFKC", cell).strip().casefold()
    if word in UNDECIDED:
        return None
    if word in YES or word in NO:
        return word in YES
    raise InputError(f"{cell[:40]!r} is neither yes (it is hallucinated) nor no")
