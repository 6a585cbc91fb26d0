"""Hides the secrets of addresses in texts that people read."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit, urlunsplit

from ragmonitor.runtime.patterns import lazy_pattern

HIDDEN = "***"
_ADDRESS = lazy_pattern(r"(?:\b[A-Za-z][A-Za-z0-9+.-]{0,31}+:)?//[^\s\"'<>]+")
_HARMLESS = frozenset({"api-version", "deployment", "limit", "model", "page", "region", "version"})
"""Query parameters whose values are shown; any other may be a key."""


def shown(text: str) -> str:
    """Return a text in which no address has a user name, a password or values in its query."""
    return _ADDRESS.sub(lambda match: _shown(match[0]), text)


def secrets_of(text: str) -> list[str]:
    """Return the user names, passwords and query values that `shown` hides in a text."""
    secrets: list[str] = []
    for match in _ADDRESS.finditer(text):
        parts = _split(match[0])
        if parts is not None:
            secrets += _user(parts).split(":", 1)
            secrets += [value for name, value in _query(parts) if not _is_harmless(name, value)]
            secrets.append(parts.fragment)
    return [each for each in secrets if each]


def _shown(address: str) -> str:
    parts = _split(address)
    if parts is None:  # it cannot be parsed, so all of it is hidden
        return f"{address.partition('//')[0]}//{HIDDEN}"
    if "@" in parts.netloc:
        parts = parts._replace(netloc=f"{HIDDEN}@{parts.netloc.rpartition('@')[2]}")
    if parts.query:
        pairs = (
            f"{name}={value if _is_harmless(name, value) else HIDDEN}" if name else HIDDEN
            for name, value in _query(parts)
        )
        parts = parts._replace(query="&".join(pairs))
    return urlunsplit(parts._replace(fragment=HIDDEN if parts.fragment else ""))


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:
        return None


def _user(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[0]


def _query(parts: SplitResult) -> list[tuple[str, str]]:
    """Return names and values; a part that is no pair is a value without a name."""
    pairs = [part.partition("=") for part in parts.query.split("&") if part]
    return [(name, value) if equals else ("", name) for name, equals, value in pairs]


def _is_harmless(name: str, value: str) -> bool:
    is_placeholder = value.startswith("{") and value.endswith("}")
    return name.lower() in _HARMLESS or is_placeholder
