"""The protocol of a part of `Statistics`: one statistic of the answers, with its gauges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    CompletedAnswer,
    Estimate,
    Example,
    GaugeValue,
    Interaction,
    Report,
    Window,
)
from ragmonitor.stats.signals import Outcomes
from ragmonitor.stats.sums import Outcome


class Answer(NamedTuple):
    """A completed answer, with what several parts need of it worked out once."""

    completed: CompletedAnswer
    interaction: Interaction
    at_s: float
    """The time when it was given, in seconds since the epoch, and never later than now."""
    builtin: Outcomes
    """The outcome of every signal by the built-in judge."""
    judged: Outcomes | None
    """The outcomes by the judge that scores a sample; None: the answer was not drawn, or there is
    no such judge. A verdict that is missing has the outcome None."""
    weight: float
    """1 / inclusion probability, and 0 where that is 0; 1 without a judge that scores a sample."""
    verdicts: Outcomes | None = None
    """The outcomes that count, which `report` holds: `judged`, or without a judge that scores a
    sample `builtin`, unless another judge stood in for the one of every answer: the two have little
    in common. None: there are none."""

    @property
    def report(self) -> Report:
        """The report of the judge that the service is measured by, or else of the other one."""
        return self.completed.judged or self.completed.builtin

    @property
    def importance_weight(self) -> float:
        """The weight of `SamplingDecision.importance_weight`; 1 where nothing is sampled."""
        decision = self.completed.decision
        return 1.0 if decision is None else decision.importance_weight

    @property
    def hallucination(self) -> Outcome | None:
        """The sampled judge's verdict; None: there is none, or it does not apply."""
        found = self.judged[0][1] if self.judged else None
        return found if found is not None and found.scored else None

    def example(self, report: Report, badness: float) -> Example:
        """Return it as an example of what is wrong, by one judge's report on it."""
        return Example(
            interaction=self.interaction,
            assessment=report.assessment,
            badness=badness,
            at_s=self.at_s,
            target=self.completed.target,
        )


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


class Means(Protocol):
    """The windowed means, for parts whose gauges rest on them."""

    @property
    def quality_judge(self) -> str:
        """The judge that quality is measured by: the one that scores a sample, if there is one."""
        ...

    def estimate(self, signal: str, window: Window = "1h") -> Estimate | None:
        """Return a signal's mean as of the last tick; None: too little is known."""
        ...


class Part:
    """One statistic. A subclass overrides the methods that it needs; the others do nothing.

    All are called from one thread, and none may wait for a network.
    """

    def add(self, answer: Answer) -> Iterable[Observation]:
        """Take in one completed answer, and return what it says of signals that need no judge."""
        return ()

    def tick(self) -> Iterable[Observation]:
        """Let time pass, every few seconds; return what became known since the last tick."""
        return ()

    def gauges(self, means: Means) -> Iterable[GaugeValue]:
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

    def clear(self) -> None:
        """Forget what belongs to the parent of a forked process."""

    def close(self) -> None:
        """Keep what outlives the process. Nothing is added afterwards."""
