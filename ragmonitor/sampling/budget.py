"""A token bucket over what judging costs."""

from __future__ import annotations

from ragmonitor.protocols import Clock

DAY_S = 86_400.0
BURST_SHARE = 1 / 12
"""Of a day's budget that may be spent at once: two hours' worth."""


class Budget:
    """At most `per_day` in any 24 hours, in dollars or tokens.

    The bucket holds two hours' worth and refills with the rest over the day, so that a full
    bucket plus a day's refill is one day's budget. It starts half full: a service that restarts
    again and again does not spend a burst each time.

    Of this process: what several worker processes spend adds up. Called from one thread, the
    worker's.
    """

    def __init__(self, per_day: float, *, clock: Clock) -> None:
        if per_day <= 0:
            raise ValueError(f"a budget is above 0, not {per_day}")
        self.capacity = per_day * BURST_SHARE
        self.refill_per_s = (per_day - self.capacity) / DAY_S
        self._clock = clock
        self._level = self.capacity / 2
        self._filled_at = clock()

    def level(self) -> float:
        """Return what may be spent now; below 0 while estimates were too low."""
        return self._refilled()

    def reserve(self, amount: float) -> bool:
        """Take `amount` out if it is there."""
        if self._refilled() < amount:
            return False
        self._level -= amount
        return True

    def settle(self, reserved: float, spent: float) -> None:
        """Put back what was reserved and not spent, or take what was spent beyond it."""
        self._level = min(self.capacity, self._refilled() + reserved - spent)

    def _refilled(self) -> float:
        now = self._clock()
        # Clocks that jump back refill nothing and lose nothing.
        elapsed_s = max(0.0, now - self._filled_at)
        self._filled_at = now
        self._level = min(self.capacity, self._level + elapsed_s * self.refill_per_s)
        return self._level
