"""Windows go on in another process where they stood."""

from __future__ import annotations

import json

from ragmonitor.estimation.signals import Outcome
from ragmonitor.estimation.windows import Windows
from ragmonitor.records import SeriesKey
from ragmonitor.testing import ManualClock

KEY = SeriesKey(signal="hallucination", judge="j", dimension="route", group="a")


def filled(windows: Windows, clock: ManualClock, ticks: int) -> None:
    for at in range(ticks):
        windows.sums(KEY).add_certain(Outcome(scored=True, value=float(at % 3 == 0)), at % 7)
        clock.advance(100.0)
        windows.tick()


def test_windows_that_were_kept_slide_on():
    """As those that were never kept: over the time in between, too, and with new answers."""
    clock, other_clock = ManualClock(), ManualClock(5e6)
    windows, other = Windows(clock=clock), Windows(clock=other_clock)
    filled(windows, clock, 50)
    kept = json.loads(json.dumps(windows.dump()))
    clock.advance(600.0)
    other.load(kept, 600.0)
    filled(windows, clock, 10)
    filled(other, other_clock, 10)
    assert list(other.moments()) == list(windows.moments())
    assert list(other.totals()) == list(windows.totals())
