"""Traditional Chinese as simplified Chinese, in which all lists of the judge are written."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

TABLE: Final = "simplified.txt"


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
    """Return a pattern of the traditional characters and their simplified ones; read once."""
    text = resources.files(__package__).joinpath(TABLE).read_text("utf-8")
    traditional, plain = [line for line in text.splitlines() if not line.startswith("#")]
    pairs = dict(zip(map(ord, traditional), plain, strict=True))
    return re.compile(f"[{traditional}]"), pairs
