"""The cost of the judges in the last hour and day."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ragmonitor.records import Report

SLOT_S: Final = 300.0
WINDOWS_S: Final = {"hour": 3_600.0, "day": 86_400.0}


@dataclass(slots=True, kw_only=True)
class _Slot:
    began_s: float
    usd: float = 0.0
    tokens: float = 0.0
    calls: float = 0.0


class Spending:
    """Sums over slots of five minutes, for a day: bounded, and as exact as people need."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin with nothing spent; `now` is in seconds since the epoch."""
        self._now = now
        self._slots: deque[_Slot] = deque(maxlen=int(WINDOWS_S["day"] / SLOT_S) + 1)

    def add(self, report: Report) -> None:
        """Add what judging one answer used, with a verdict or without."""
        usage = report.usage
        if usage is None and report.assessment is not None:
            usage = report.assessment.usage
        if usage is None or not (usage.calls or usage.input_tokens or usage.cost_usd):
            return
        slot = self._slot()
        slot.usd += usage.cost_usd
        slot.tokens += usage.input_tokens + usage.output_tokens
        slot.calls += usage.calls

    def sums(self) -> dict[str, dict[str, float]]:
        """Return the sums by window and unit."""
        now_s = self._now()
        sums: dict[str, dict[str, float]] = {}
        for window, length_s in WINDOWS_S.items():
            slots = [slot for slot in self._slots if slot.began_s > now_s - length_s]
            sums[window] = {
                unit: sum(getattr(slot, unit) for slot in slots)
                for unit in ("usd", "tokens", "calls")
            }
        return sums

    def _slot(self) -> _Slot:
        began_s = self._now() // SLOT_S * SLOT_S
        # A clock that was put back goes on in the slot that is open.
        if not self._slots or self._slots[-1].began_s < began_s:
            self._slots.append(_Slot(began_s=began_s))
        return self._slots[-1]
