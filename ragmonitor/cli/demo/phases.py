"""Times the spoiling of the demo's answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

Phase = Literal["before", "during", "after"]
PHASES: tuple[Phase, ...] = ("before", "during", "after")
SLOWEST: Final = 1 / 3
"""The pace to which a demo slows down, at most: it takes three times as long as it was told."""
SLACK_S: Final = 0.5
"""By how much the demo's time may be ahead of its askers."""


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

    @property
    def spike(self) -> tuple[float, float]:
        """When the first spike begins and ends, in seconds from the start on."""
        return self.before_s, self.before_s + self.spike_s

    def phase(self, elapsed_s: float) -> Phase:
        """Return the phase, so many seconds after the start."""
        if elapsed_s < self.before_s:
            return "before"
        since_s = elapsed_s - self.before_s
        if self.again_s is not None:
            since_s %= self.spike_s + self.again_s
        return "during" if since_s < self.spike_s else "after"


class DemoClock:
    """The time of the demo: real time, which slows down while the askers are behind.

    What a demo shows needs a number of questions. On a machine that cannot ask them at the rate, it
    takes longer instead of showing less.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        slowest: float = SLOWEST,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin at 0.

        Args:
            schedule: Says what happens when.
            slowest: The share of the real pace that it always keeps, from 0 to 1; 1: real time.
            now_s: Real time, in seconds.
        """
        self._schedule = schedule
        self._slowest = slowest
        self._now_s = now_s
        self.began_s = self._seen_s = now_s()
        self._elapsed_s = 0.0
        self._limits: dict[str, float] = {}
        self._spike: list[float] = []
        self._lock = threading.Lock()

    @property
    def real_s(self) -> float:
        """The seconds since the start, by real time."""
        return self._now_s() - self.began_s

    @property
    def elapsed_s(self) -> float:
        """The seconds since the start, by the demo's time."""
        with self._lock:
            return self._advanced()

    @property
    def phase(self) -> Phase:
        """The phase of the demo."""
        return self._schedule.phase(self.elapsed_s)

    @property
    def spike(self) -> tuple[float, float]:
        """When the first spike began and ended, in real seconds from the start on.

        What has not happened yet is as it would be at the real pace.
        """
        with self._lock:
            behind_s = self.real_s - self._advanced()
            to_come = [end_s + behind_s for end_s in self._schedule.spike[len(self._spike) :]]
            began_s, ended_s = self._spike + to_come
            return began_s, ended_s

    def asking(self, who: str, next_s: float) -> None:
        """Take note that an asker asks, and when its next question is due, by the demo's time."""
        with self._lock:
            self._advanced()
            self._limits[who] = next_s + SLACK_S

    def stopped(self, who: str) -> None:
        """Take note that an asker asks no more."""
        with self._lock:
            self._advanced()
            self._limits.pop(who, None)

    def _advanced(self) -> float:
        now_s = self._now_s()
        passed_s = now_s - self._seen_s
        ahead_s = min(self._limits.values(), default=float("inf")) - self._elapsed_s
        self._elapsed_s += max(self._slowest * passed_s, min(passed_s, ahead_s))
        self._seen_s = now_s
        self._spike += [
            now_s - self.began_s
            for end_s in self._schedule.spike[len(self._spike) :]
            if self._elapsed_s >= end_s
        ]
        return self._elapsed_s
