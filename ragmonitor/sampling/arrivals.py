"""Measures how many answers come in per second, over a while."""

from __future__ import annotations

import math


class Arrivals:
    """An exponentially weighted rate of events. Three floats; a lost update is a lost event."""

    __slots__ = ("_fading_per_s", "_per_s", "_since", "seen_at")

    def __init__(self, half_life_s: float) -> None:
        self._fading_per_s = math.log(2) / half_life_s
        self._per_s = 0.0
        self.seen_at = -math.inf
        """The time when the last one came, in seconds of the caller's clock; minus infinity: none
        did."""
        self._since = math.inf

    def note(self, now: float) -> None:
        """Take one more event in."""
        # Written out: this runs for every answer, several times.
        since_s = now - self.seen_at
        if since_s > 0:
            self._per_s *= math.exp(-self._fading_per_s * since_s)
        self._per_s += self._fading_per_s
        self.seen_at = now
        if now < self._since:  # noqa: PLR1730 - `min` takes as long as the rest
            self._since = now

    def per_s(self, now: float) -> float:
        """Return the rate as of now; too low until a few half-lives have been seen."""
        # A clock that was put back lets nothing fade.
        return self._per_s * math.exp(-self._fading_per_s * max(0.0, now - self.seen_at))

    def per_s_since_first(self, now: float) -> float:
        """Return the rate over the time since the first event; 0 before there is such a time."""
        seen_s = now - self._since
        if seen_s <= 0:
            return 0.0
        seen = -math.expm1(-self._fading_per_s * seen_s)
        # A time too short for a float to tell from none.
        return self.per_s(now) / seen if seen > 0 else 0.0
