"""Decides which objective holds for a stream where processes with shared evidence differ.

The strictest of those that were said within ten minutes. Evidence against a higher mean is evidence
against a lower one too: capital that grows by luck alone no faster than time where the mean may be
10 % does so the less where it may be 5 %. So going over to a stricter objective keeps all evidence,
and an alarm that is active. Going over to a looser one loses it, since evidence against 5 % is
gained at 10 % by no fault; it happens only once nobody has said the stricter one for ten minutes,
and so once in a deployment that changes the objective, and not at every turn of two processes.
"""

from __future__ import annotations

from typing import Final

LEASE_S: Final = 600.0
"""The time for which an objective holds after a process said it last."""
MAX_SAID: Final = 8
"""Different objectives of one stream that are kept; the strictest ones."""


class Objectives:
    """The objectives that processes said lately of one stream, on the scale of badness."""

    __slots__ = ("own", "said")

    def __init__(self, own: float | None) -> None:
        """Begin.

        Args:
            own: What this process was told; None: nothing, so that it has no say.
        """
        self.own = own
        self.said: dict[float, float] = {}
        """The time when a process said each objective last, in seconds since the epoch."""

    def live(self, now_s: float) -> set[float]:
        """Return those that were said within ten minutes, and this process's own."""
        live = {mean for mean, at_s in self.said.items() if abs(now_s - at_s) < LEASE_S}
        return live if self.own is None else {*live, self.own}

    def strictest(self, now_s: float) -> float | None:
        """Return the one that holds; None: nobody says any, and what was learned holds."""
        return min(self.live(now_s), default=None)

    def is_to_be_said(self, now_s: float) -> bool:
        """Return whether this process's own would be forgotten beside another, or is unknown."""
        if self.own is None or self.live(now_s) == {self.own}:
            return False
        at_s = self.said.get(self.own)
        return at_s is None or abs(now_s - at_s) >= LEASE_S / 3

    def say(self, held: float | None, now_s: float) -> None:
        """Say this process's own.

        Args:
            held: The one that holds so far. A process that says something new gives those that
                said this one the time to say it again.
            now_s: Seconds since the epoch.
        """
        live = self.live(now_s)
        if self.own is not None:
            if held in self.said and self.own not in self.said:
                live.add(held)
                self.said[held] = now_s
            self.said[self.own] = now_s
        self.said = {mean: self.said[mean] for mean in sorted(live)[:MAX_SAID]}
