"""Hides the secrets of addresses in texts that people read."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ragmonitor.runtime.patterns import lazy_pattern

UNIX: Final = "unix:"
"""Begins the address of a worker that all processes of a machine share."""
HIDDEN = "***"
_ADDRESS = lazy_pattern(r"(?:\b[A-Za-z][A-Za-z0-9+.-]{0,31}+:)?//[^\s\"'<>]+")


def shown(text: str) -> str:
    """Return a text in which no address has a user name, a password or a query."""
    return _ADDRESS.sub(lambda match: _shown(match[0]), text)


def secrets_of(text: str) -> list[str]:
    """Return the user names, passwords and query values that `shown` hides in a text."""
    secrets: list[str] = []
    for match in _ADDRESS.finditer(text):
        parts = _split(match[0])
        if parts is not None:
            secrets += parts.netloc.rpartition("@")[0].split(":", 1)
            secrets += [part.partition("=")[2] or part for part in parts.query.split("&")]
            secrets.append(parts.fragment)
    return [each for each in secrets if each]


def _shown(address: str) -> str:
    parts = _split(address)
    if parts is None:  # it cannot be parsed, so all of it is hidden
        return f"{address.partition('//')[0]}//{HIDDEN}"
    if "@" in parts.netloc:
        parts = parts._replace(netloc=f"{HIDDEN}@{parts.netloc.rpartition('@')[2]}")
    hidden = {name: HIDDEN for name in ("query", "fragment") if getattr(parts, name)}
    return urlunsplit(parts._replace(**hidden))


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None
