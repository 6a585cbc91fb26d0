"""Sums over the last hour and day."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from ragmonitor.records import Report

SLOT_S: Final = 300.0
WINDOWS_S: Final = {"hour": 3_600.0, "day": 86_400.0}


class SlotSums:
    """Sums over slots of five minutes, for a day: bounded, and as exact as people need."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin with nothing; `now` is in seconds since the epoch."""
        self._now = now
        self._slots: deque[tuple[float, dict[str, float]]] = deque(
            maxlen=int(WINDOWS_S["day"] / SLOT_S) + 1
        )

    def add(self, **amounts: float) -> None:
        """Add amounts by unit; those of 0 are left out."""
        for unit, amount in amounts.items():
            if amount:
                slot = self._slot()
                slot[unit] = slot.get(unit, 0.0) + amount

    def sums(self) -> dict[str, dict[str, float]]:
        """Return the sums by window and unit."""
        now_s = self._now()
        sums: dict[str, dict[str, float]] = {window: {} for window in WINDOWS_S}
        for began_s, slot in self._slots:
            for window, length_s in WINDOWS_S.items():
                if began_s > now_s - length_s:
                    for unit, amount in slot.items():
                        sums[window][unit] = sums[window].get(unit, 0.0) + amount
        return sums

    def _slot(self) -> dict[str, float]:
        began_s = self._now() // SLOT_S * SLOT_S
        # A clock that was put back goes on in the slot that is open.
        if not self._slots or self._slots[-1][0] < began_s:
            self._slots.append((began_s, {}))
        return self._slots[-1][1]


def spending(report: Report) -> dict[str, float]:
    """Return what judging one answer used, with a verdict or without."""
    usage = report.usage
    if usage is None and report.assessment is not None:
        usage = report.assessment.usage
    if usage is None:
        return {}
    tokens = usage.input_tokens + usage.output_tokens
    return {"usd": usage.cost_usd, "tokens": tokens, "calls": usage.calls}
