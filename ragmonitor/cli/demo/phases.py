"""Times the spoiling of the demo's answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal["before", "during", "after"]
PHASES: tuple[Phase, ...] = ("before", "during", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A spike, recovery, and, if `again_s` is given, a spike again and again."""

    before_s: float = 60.0
    spike_s: float = 45.0
    again_s: float | None = 180.0
    """The time for which it stays well between two spikes; None: there is one spike only."""

    @classmethod
    def within(cls, seconds: float) -> Schedule:
        """Return the schedule of a demo that ends: 40 % before, 30 % spike, 30 % after."""
        return cls(before_s=0.4 * seconds, spike_s=0.3 * seconds, again_s=None)

    def phase(self, elapsed_s: float) -> Phase:
        """Return the phase, so many seconds after the start."""
        if elapsed_s < self.before_s:
            return "before"
        since_s = elapsed_s - self.before_s
        if self.again_s is not None:
            since_s %= self.spike_s + self.again_s
        return "during" if since_s < self.spike_s else "after"
