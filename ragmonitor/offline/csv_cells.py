"""Texts in the cells of a CSV, which spreadsheets would take for formulas."""

from __future__ import annotations

import re
from typing import Final

_FORMULA: Final = re.compile("'* *(?:[\t\r\n]|\\s*[-=+@\uff1d\uff0b\uff0d\uff20])")
"""The beginning of a cell that would be computed, guarded or not; signs of full width are computed,
too, where such are written."""


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
