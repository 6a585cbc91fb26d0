"""Removes keys from a provider's error messages: the one that it was sent, and their shapes."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from ragmonitor.runtime.patterns import lazy_pattern

MARK: Final = "[key]"
_MIN_CHARACTERS: Final = 6
"""Shorter values are not looked for as they are: they stand in any text."""
_MAX_CHARACTERS: Final = 100_000
_SHAPES: Final = lazy_pattern(
    r"\b(?:sk|pk|rk|gsk|xai|hf|pplx)[-_][\w.*-]{6,}"
    r"|\b(?:AKIA|AIza)\w{12,}"
    r"|(?<=Bearer )[^\s\"',;]+|(?<=Basic )[^\s\"',;]+"
    r"|(?:(?<=key=)|(?<=token=)|(?<=sig=)|(?<=secret=)|(?<=password=))[^\s&\"']+"
    r"|(?<=://)[^\s/@]+(?=@)",
    re.IGNORECASE,
)


def scrubbed(text: str, *, key: str | None = None, address: str | None = None) -> str:
    """Return a provider's words without keys.

    Args:
        text: The message; of a long one the beginning is returned.
        key: That the provider was sent.
        address: The provider's; its query and what stands before its `@` are removed too.
    """
    text = text[:_MAX_CHARACTERS]
    values = {key or ""}
    if address:
        parts = urlsplit(address)
        login = parts.netloc.rpartition("@")[0]
        values |= {value for _, value in parse_qsl(parts.query)}
        values |= {login, *login.split(":"), *map(unquote, login.split(":"))}
    # The longest first: one may begin as another does.
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _MIN_CHARACTERS:
            text = text.replace(value, MARK)
    return _SHAPES.sub(MARK, text)
