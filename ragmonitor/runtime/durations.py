"""Durations as people write them."""

from __future__ import annotations

import math
import re
from typing import Final

from ragmonitor.runtime.errors import SettingsError

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def duration_s(text: str, option: str) -> float:
    """Return the seconds of a text such as `90s`, `15m`, `1h30m`, `2d` or `4w`.

    Args:
        text: The duration.
        option: What it was given for.

    Raises:
        SettingsError: It is none.
    """
    parts = _PART.findall(text)
    if not parts or "".join(map("".join, parts)) != text.strip():
        raise SettingsError(f"{option} {text!r}: write a duration as 90s, 15m, 1h30m, 2d or 4w")
    return math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)
