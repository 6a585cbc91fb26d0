"""Numbers of a state on disk, which anything may have been written to."""

from __future__ import annotations

import math
from typing import Any


def number_or_none(told: Any) -> float | None:
    """Return a finite number that is not negative; None for None. Raises as `number`."""
    return None if told is None else number(told)


def number(told: Any) -> float:
    """Return a finite number that is not negative. Raises `ValueError`, `TypeError`."""
    found = float(told)
    if not 0 <= found < math.inf:
        raise ValueError(f"{found} cannot be part of an alarm's state")
    return found
