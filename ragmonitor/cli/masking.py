"""Removes the keys in environment variables from texts for people."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from ragmonitor.export.content import mapped
from ragmonitor.redaction import without_secrets
from ragmonitor.runtime.addresses import HIDDEN, secrets_of, shown

MIN_CHARACTERS = 8
"""Minimum length of a key; a shorter text would match ordinary words."""
_NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|HEADERS")


def masked(text: str) -> str:
    """Return a text without any key in a variable: a server may quote the one that it refuses."""
    for secret in sorted({*_of_variables()}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return without_secrets(shown(text))


def masked_value(value: Any) -> Any:
    """Return a value for JSON in which no text has a key."""
    return mapped(value, lambda each: masked(each) if isinstance(each, str) else each)


def _of_variables() -> Iterator[str]:
    for name, value in os.environ.items():
        secrets = secrets_of(value) if "//" in value else []
        if _NAMED.search(name):
            secrets.append(value)
            if "HEADERS" in name:  # `authorization=Bearer%20key,x-api-key=key`
                values = (pair.partition("=")[2] for pair in value.split(","))
                secrets += [part for each in values for part in re.split(r"\s|%20", each)]
        yield from (secret for secret in secrets if len(secret) >= MIN_CHARACTERS)
