"""Reads the labels of a live monitor from a file that people go on filling in."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from ragmonitor.records import Estimate, GaugeValue
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.guard import reason, record_problem
from ragmonitor.runtime.protocols import Clock
from ragmonitor.semconv import metrics
from ragmonitor.stats.labels.correction import Label, corrected, recent
from ragmonitor.stats.labels.label_table import read_labels
from ragmonitor.stats.parts import Means, Part
from ragmonitor.stats.signals import HALLUCINATION

LOOK_EVERY_S: Final = 60.0


class HumanLabels(Part):
    """The labels of a file that people go on filling in; never raises.

    It is looked at once a minute at most, and read when it has changed. One that cannot be read is
    an error of ours, counted once; what it said before stays.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], float] = time.time,
        clock: Clock = time.monotonic,
    ) -> None:
        """Read nothing yet.

        Args:
            path: Of the CSV.
            now: Seconds since the epoch, for the labels' age.
            clock: For looking again.
        """
        self._path = path
        self._now = now
        self._clock = clock
        self._look_at = -math.inf
        self._stamp: tuple[int, ...] | None = ()
        """Size and time of the file as it was read; None: there was none; empty: not looked yet."""
        self._labels: Sequence[Label] = ()

    @property
    def count(self) -> int:
        """The number of labels of the last 30 days."""
        return len(self._recent())

    def estimate(self, rate: Estimate) -> Estimate | None:
        """Return the corrected rate; None: there are too few labels."""
        return corrected(rate, self._recent())

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return the rate that the labels make of the judged one."""
        rate = means.estimate(HALLUCINATION, "24h")
        found = None if rate is None else self.estimate(rate)
        if found is not None:
            yield from GaugeValue.interval(
                metrics.CORRECTED_RATE,
                found.mean,
                found.lower,
                found.upper,
                judge=means.quality_judge,
            )

    def _recent(self) -> Sequence[Label]:
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._look()
        return recent(self._labels, self._now())

    def _look(self) -> None:
        stamp = None
        with contextlib.suppress(OSError):
            stat = self._path.stat()
            stamp = (stat.st_size, stat.st_mtime_ns)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._labels = read_labels(self._path)
        except InputError as error:
            # The system's own words quote no text, so that a log may always show them.
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
            record_problem(
                "estimation",
                f"estimation.human_labels {self._path} cannot be read ({reason(cause)}): what "
                "people said since does not correct the hallucination rate; name the file that "
                "`ragmonitor labels` wrote, or correct it",
            )
