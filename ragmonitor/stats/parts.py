"""The protocol of a part of `Statistics`: one statistic of the answers, with its gauges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    CompletedAnswer,
    GaugeValue,
    Interaction,
    Report,
)
from ragmonitor.stats.signals import HALLUCINATION, Outcomes
from ragmonitor.stats.sums import Outcome


class Answer(NamedTuple):
    """A completed answer, with what several parts need of it worked out once."""

    completed: CompletedAnswer
    at_s: float
    """The time when it was given, in seconds since the epoch, and never later than now."""
    verdicts: Outcomes
    """The outcomes by the judge that the service is measured by; empty: it did not read it."""

    @property
    def interaction(self) -> Interaction:
        """The question, the chunks and the answer."""
        return self.completed.interaction

    @property
    def report(self) -> Report:
        """The report of the judge that the service is measured by, or else of the other one."""
        return self.completed.judged or self.completed.builtin

    @property
    def hallucination(self) -> Outcome | None:
        """The verdict that counts; None: there is none, or it does not apply."""
        found = self.verdicts.get(HALLUCINATION)
        return found if found is not None and found.scored else None


class Observation(NamedTuple):
    """A value of a signal that needs no judge."""

    signal: str
    value: float
    """0 to 1, on the signal's own scale."""
    at_s: float
    """The time when the answer was given, in seconds since the epoch."""
    session: str = ""
    answer: str = ""
    """Id of the answer."""


class Part:
    """One statistic. A subclass overrides the methods that it needs; the others do nothing.

    All are called from one thread, and none may wait for a network.
    """

    def add(self, answer: Answer) -> Iterable[Observation] | None:
        """Take in one completed answer, and return what it says of signals that need no judge."""
        return None

    def tick(self) -> Iterable[Observation] | None:
        """Let time pass, every few seconds; return what became known since the last tick.

        Raises:
            StoreUnavailableError: What was to be written is tried again at the next tick.
        """
        return None

    def gauges(self) -> Iterable[GaugeValue]:
        """Return the gauges as of the last tick; their names stand in `conventions`."""
        return ()

    def views(self) -> Mapping[str, Any]:
        """Return what the page shows beside the gauges, by the name of the view, ready for JSON."""
        return {}

    def alarm_events(self) -> Iterable[AlarmEvent]:
        """Return the alarms of its own that were raised or cleared since this was last asked."""
        return ()

    def alarm_states(self) -> Iterable[AlarmState]:
        """Return where its own alarms stand: those that no observation updates."""
        return ()

    def records(self) -> Mapping[str, object]:
        """Return what /metrics.json says beside the series, by name, ready for JSON; no texts."""
        return {}

    def close(self) -> None:
        """Keep what outlives the process; nothing is added afterwards. Raises as `tick`."""
        self.tick()
