"""Removes keys from a provider's error messages: the one that it was sent, and their shapes."""

from __future__ import annotations

import re
from typing import Final

from ragmonitor.runtime.patterns import lazy_pattern

MARK: Final = "[key]"
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


def scrubbed(text: str, *, key: str | None = None) -> str:
    """Return a provider's words without keys.

    Args:
        text: The message; of a long one the beginning is returned.
        key: That the provider was sent.
    """
    text = text[:_MAX_CHARACTERS]
    if key and len(key) >= _MIN_CHARACTERS:
        text = text.replace(key, MARK)
    return _SHAPES.sub(MARK, text)
