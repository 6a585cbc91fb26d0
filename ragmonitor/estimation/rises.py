"""Measures by how much the judged hallucination rate has risen since a moment."""

from __future__ import annotations

from collections import deque
from typing import Final

from ragmonitor.estimation.anchors import Rise

MAX_VERDICTS: Final = 5_000
"""Verdicts remembered: a day of 180 an hour, in some 400 kB."""
MIN_AFTER: Final = 10
"""Verdicts since the moment below which nothing is said of the rate since."""
MIN_BEFORE: Final = 100
"""Verdicts before it below which the rate before counts as what the objective accepts."""


class Rises:
    """The newest verdicts of this process, for the rate before a moment and since."""

    def __init__(self) -> None:
        self._verdicts: deque[tuple[float, bool, float]] = deque(maxlen=MAX_VERDICTS)

    def add(self, at_s: float, hallucinated: bool, weight: float) -> None:
        """Remember one verdict.

        Args:
            at_s: When the answer was given, in seconds since the epoch.
            hallucinated: The verdict.
            weight: 1 / inclusion probability.
        """
        self._verdicts.append((at_s, hallucinated, weight))

    def since(self, moment_s: float, *, objective: float) -> Rise | None:
        """Return the rise; None: there are too few verdicts since.

        Args:
            moment_s: In seconds since the epoch.
            objective: The rate before where too little is remembered of it; 0 to 1.
        """
        counts, bad, total = [0, 0], [0.0, 0.0], [0.0, 0.0]
        for at_s, hallucinated, weight in self._verdicts:
            side = at_s >= moment_s
            counts[side] += 1
            total[side] += weight
            bad[side] += weight * hallucinated
        if counts[True] < MIN_AFTER:
            return None
        before = objective if counts[False] < MIN_BEFORE else bad[False] / total[False]
        return Rise(before=before, after=bad[True] / total[True], verdicts=counts[True])

    def clear(self) -> None:
        """Forget every verdict."""
        self._verdicts.clear()
