"""Waiting for a condition, with a deadline, rather than sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

PAUSE_S = 0.05


def until(what: str, look: Callable[[], Found | None], *, within_s: float = 30.0) -> Found:
    """Return the first truthy answer of `look`.

    Raises:
        AssertionError: There was none in time; the last exception of `look` is its cause.
    """
    deadline = time.monotonic() + within_s
    while True:
        failure: Exception | None = None
        try:
            found = look()
        except Exception as error:  # noqa: BLE001 - the server is not up yet, or not that far
            found, failure = None, error
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what}") from failure
        time.sleep(PAUSE_S)
