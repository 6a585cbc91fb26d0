"""Traditional Chinese as simplified Chinese, in which all lists of the judge are written."""

from __future__ import annotations

import re
from functools import cache

from ragmonitor.judges.builtin.simplified_characters import PLAIN, TRADITIONAL


def simplified(text: str) -> str:
    """Return a text with each traditional character as its simplified one; offsets stay the same.

    A text without any is returned as it is.
    """
    if text.isascii():
        return text
    traditional, table = _table()
    return text.translate(table) if traditional.search(text) else text


@cache
def _table() -> tuple[re.Pattern[str], dict[int, str]]:
    """Return a pattern of the traditional characters and their simplified ones."""
    pairs = dict(zip(map(ord, TRADITIONAL), PLAIN, strict=True))
    return re.compile(f"[{TRADITIONAL}]"), pairs
