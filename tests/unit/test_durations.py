"""Durations as people write them."""

import pytest

from ragmonitor.runtime.durations import duration_s
from ragmonitor.runtime.errors import SettingsError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("30m", 1_800.0), ("1h30m", 5_400.0), ("0s", 0.0), (" 2w ", 1_209_600.0)],
)
def test_durations(text: str, seconds: float) -> None:
    """Numbers with units, one after the other."""
    assert duration_s(text, "--every") == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "1h 30m", "-5m", "1y"])
def test_what_is_no_duration(text: str) -> None:
    """It is refused, with what it was given for."""
    with pytest.raises(SettingsError, match="--every"):
        duration_s(text, "--every")
