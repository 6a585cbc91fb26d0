"""Removes keys from a provider's error messages: those the process holds, and their shapes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ragmonitor.patterns import lazy_pattern

MARK: Final = "[key]"
_MIN_CHARACTERS: Final = 6
"""Shorter values are not looked for as they are: they stand in any text."""
_MAX_CHARACTERS: Final = 100_000
_NAMED: Final = lazy_pattern(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTHORIZATION", re.IGNORECASE
)
"""Names of variables in which litellm and its clients find their keys."""
_PLAIN: Final = frozenset({"none", "true", "false", "default", "dummy"})
_SHAPES: Final = lazy_pattern(
    r"\b(?:sk|pk|rk|gsk|xai|hf|pplx)[-_][\w.*-]{6,}"
    r"|\b(?:AKIA|AIza)\w{12,}"
    r"|(?<=Bearer )[^\s\"',;]+|(?<=Basic )[^\s\"',;]+"
    r"|(?:(?<=key=)|(?<=token=)|(?<=sig=)|(?<=secret=)|(?<=password=))[^\s&\"']+"
    r"|(?<=://)[^\s/@]+(?=@)",
    re.IGNORECASE,
)


def scrubbed(text: str, *, known: Iterable[str | None] = (), address: str | None = None) -> str:
    """Return a provider's words without keys.

    Args:
        text: The message; of a long one the beginning is returned.
        known: Keys that the provider was sent.
        address: The provider's; its query and what stands before its `@` are removed too.
    """
    text = text[:_MAX_CHARACTERS]
    values = {value for value in (*known, *_of_address(address), *_of_process()) if value}
    spelled = {form for value in values for form in (value, quote(value, safe=""))}
    # The longest first: one may begin as another does.
    for value in sorted(spelled, key=len, reverse=True):
        is_word = value.isdigit() or value.lower() in _PLAIN
        if len(value) >= _MIN_CHARACTERS and not is_word:
            text = text.replace(value, MARK)
    return _SHAPES.sub(MARK, text)


def _of_address(address: str | None) -> Iterator[str]:
    if not address:
        return
    try:
        parts = urlsplit(address)
        login = parts.netloc.rpartition("@")[0]
    except ValueError:  # no address
        return
    yield from (value for _, value in parse_qsl(parts.query))
    yield from (login, *login.split(":"), *map(unquote, login.split(":")))


def _of_process() -> Iterator[str]:
    """Yield what litellm may have taken as a key: from the environment, and set on it."""
    yield from (value for name, value in os.environ.items() if _NAMED.search(name))
    litellm: Any = sys.modules.get("litellm")
    for name, value in tuple(vars(litellm).items()) if litellm is not None else ():
        if isinstance(value, str) and name.endswith(("api_key", "_key", "_token")):
            yield value
    headers = getattr(litellm, "headers", None)
    if isinstance(headers, dict):
        for value in headers.values():
            if isinstance(value, str):
                yield value
                yield value.rpartition(" ")[2]
