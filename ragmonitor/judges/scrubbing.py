"""Removes keys from a provider's error messages: the one that it was sent, and their shapes."""

from __future__ import annotations

import re
from typing import Final

from ragmonitor.runtime.patterns import lazy_pattern

MARK: Final = "[key]"
MAX_LINE: Final = 240
_MIN_CHARACTERS: Final = 6
"""A shorter key is not looked for as it is: it stands in any text."""
_MAX_CHARACTERS: Final = 100_000
_SHAPES: Final = lazy_pattern(
    r"\b(?:sk|pk|rk|gsk|xai|hf|pplx)[-_][\w.*-]{6,}"
    r"|\b(?:AKIA|AIza)\w{12,}"
    r"|(?<=Bearer )[^\s\"',;]+|(?<=Basic )[^\s\"',;]+"
    r"|(?:(?<=key=)|(?<=token=)|(?<=sig=)|(?<=secret=)|(?<=password=))[^\s&\"']+"
    r"|(?<=://)[^\s/@]+(?=@)",
    re.IGNORECASE,
)


def one_line_of(error: object, *, key: str | None = None) -> str:
    """Return a provider's words in a line without keys; of many the first.

    Args:
        error: The message, or what was raised with it.
        key: That the provider was sent.
    """
    text = str(error)[:_MAX_CHARACTERS]
    if key and len(key) >= _MIN_CHARACTERS:
        text = text.replace(key, MARK)
    text = " ".join(_SHAPES.sub(MARK, text).split())
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}…"
