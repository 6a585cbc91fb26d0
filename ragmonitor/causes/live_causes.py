"""Finds the cause of an alarm: where the rise concentrates, what it rests on, and since when."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from ragmonitor.causes.answer_slices import SERVICE_VERSION, AnswerSlices
from ragmonitor.causes.documents import SOURCE, Documents
from ragmonitor.causes.explanation import (
    Explanation,
    NamedPart,
    largest_shift,
    mean_of,
    split,
)
from ragmonitor.causes.history import Event, History
from ragmonitor.causes.versions_now import Versions
from ragmonitor.export.content import ContentPolicy
from ragmonitor.records import AlarmEvent, AlarmState, GaugeValue, Interaction, Report
from ragmonitor.stats.interval import Estimate
from ragmonitor.stats.signals import HALLUCINATION
from ragmonitor.stats.sums import Answer, Outcome
from ragmonitor.stats.tick import Tick
from ragmonitor.store import DAY_S, Increments, Rows, Store

BEFORE_S: Final = 900.0
"""An event that was so long before a rise began may be its cause."""
NEAR_S: Final = 300.0
"""When a rise began is known to some minutes."""
MAX_NAMED: Final = 6
MIN_SHIFT: Final = 0.2
"""The share of a rise below which the mix of the traffic is not worth a line."""


class Causes:
    """What may be the cause of an alarm: slices, documents, versions and events.

    A worker tells it of each answer; `poll` is called at each tick in every process, `evaluate` by
    the one that has the lease. All but `event` is called from the worker's thread, and may raise
    `StoreUnavailableError`.
    """

    def __init__(
        self,
        store: Store,
        tick: Tick,
        *,
        service_version: str = "",
        compare_by: Collection[str] = (SERVICE_VERSION,),
        leave_out: Sequence[str] = (),
        policy: ContentPolicy,
        judge: str,
        higher_is_better: Callable[[str], bool],
        threshold_s: float,
    ) -> None:
        """Touch nothing yet.

        Args:
            store: Where sums and histories are kept.
            tick: Compares sums.
            service_version: The setting.
            compare_by: The attributes whose values are versions of the application.
            leave_out: Patterns of attributes that are not looked at.
            policy: Says what a document may be called.
            judge: The judge that quality is measured by.
            higher_is_better: Whether a signal is the better the higher it is.
            threshold_s: The evidence at which alarms are raised.
        """
        self._store = store
        self._tick = tick
        self._judge = judge
        self._slices = AnswerSlices(store, version=service_version, leave_out=leave_out)
        self._documents = Documents(policy, now=store.now)
        self._history = History(store, compare_by=compare_by, now=store.now)
        self._versions = Versions(
            store,
            tick,
            self._history,
            compare_by=compare_by,
            judge=judge,
            higher_is_better=higher_is_better,
            threshold_s=threshold_s,
        )
        self.event = self._history.note
        """Takes note of an event of the application's; from any thread, without waiting."""
        self._before: tuple[float, Rows] = (-math.inf, {})

    def clear(self) -> None:
        """Forget what belongs to the parent of a forked process."""
        for each in (self._slices, self._documents, self._history, self._versions):
            each.clear()
        self._before = (-math.inf, {})

    # --- of each answer -------------------------------------------------------------------------

    def slices(self, interaction: Interaction, builtin: Report) -> tuple[str, ...]:
        """Return the slices of an answer, for `stats.sums.Answer.slices`."""
        return self._slices.of(interaction, builtin)

    def note(self, answer: Answer, interaction: Interaction, builtin: Report) -> None:
        """Take in an answer when the ledger does; its verdict may be on its way."""
        self._history.answered(answer.slices, answer.at_s)
        self._documents.note(answer, interaction)
        if not answer.is_drawn:
            self._documents.count(interaction, builtin)

    def settle(
        self,
        answer: Answer,
        interaction: Interaction,
        report: Report,
        verdicts: Mapping[str, Outcome | None],
    ) -> None:
        """Take in the verdict of a drawn answer when the ledger does.

        Args:
            answer: As it was noted.
            interaction: The answer itself.
            report: Of the judge that quality is measured by; the built-in one's where that failed.
            verdicts: By signal.
        """
        self._documents.settle(answer, verdicts.get(HALLUCINATION))
        self._documents.count(interaction, report)
        if report.judge.name == self._judge:
            self._history.judged(str(report.judge))

    def take(self) -> Increments:
        """Return what goes to the store with the ledger's increments."""
        return self._documents.take()

    # --- at each tick ---------------------------------------------------------------------------

    def poll(self) -> None:
        """Write what was noted, and read what other processes found."""
        self._history.poll()
        self._versions.read()

    def evaluate(self) -> Sequence[AlarmEvent]:
        """Compare versions where that is due, and return the alarms; with the lease."""
        return self._versions.evaluate()

    def alarm_states(self) -> Iterator[AlarmState]:
        """Return where the alarm of versions stands."""
        return self._versions.alarm_states()

    def gauges(self) -> Iterator[GaugeValue]:
        """Return the times of events, and the differences of versions."""
        yield from self._history.gauges()
        yield from self._versions.gauges()

    def records(self) -> Mapping[str, object]:
        """Return what /metrics.json says beside the series; no texts."""
        return {**self._history.records(), **self._versions.records()}

    def views(self, means: Mapping[str, Estimate]) -> Mapping[str, Any]:
        """Return what the page shows of slices and documents, ready for JSON.

        Args:
            means: Of the last day, by series.
        """
        listed = [
            {
                "name": series.partition("|")[2],
                "judged": round(each.judged),
                "rate": {"mean": each.mean, "lower": each.lower, "upper": each.upper},
            }
            for series, each in means.items()
            if series.startswith(f"{HALLUCINATION}|")
        ]
        slices = {"slices": {"listed": listed}} if listed else {}
        return {**slices, **self._documents.views()}

    # --- of an alarm ----------------------------------------------------------------------------

    def explain(self, signal: str, since_s: float) -> Explanation:
        """Return what is known of why a signal is worse since a time.

        Args:
            signal: One that answers are judged by.
            since_s: When its rise began.
        """
        if self._before[0] != since_s:
            self._before = since_s, self._tick.sums(since_s - DAY_S, since_s)
        before, now = self._before[1], self._tick.sums(since_s)
        names = self._tick.named(signal, since_s, self._documents.ahead(since_s))
        if signal != HALLUCINATION:
            documents = self._tick.named(HALLUCINATION, since_s, self._documents.ahead(since_s))
            names += [each for each in documents if each.startswith(f"{SOURCE}=")]
        parts = [self._part(signal, each, before, now) for each in names[:MAX_NAMED]]
        shift = largest_shift(signal, before, now)
        compared = self._store.state()[1].get("compared", -1)
        return Explanation(
            parts=parts,
            is_everywhere=not names and compared >= since_s,
            mix=shift if shift is not None and shift[1].by_share >= MIN_SHIFT else None,
            events=self._near(since_s),
        )

    def _part(self, signal: str, name: str, before: Rows, now: Rows) -> NamedPart:
        dimension, _, value = name.partition("=")
        if dimension == SOURCE:
            return NamedPart(kind="document", name=value)
        is_version = self._versions.is_version(name)
        of = "version" if dimension == SERVICE_VERSION else dimension
        return NamedPart(
            kind="version" if is_version else "slice",
            name=f"{of} {value}" if is_version else name,
            now=mean_of(now.get(f"{signal}|{name}")),
            before=mean_of(before.get(f"{signal}|{name}")),
            mix=split(signal, name, before, now),
        )

    def _near(self, since_s: float) -> Sequence[Event]:
        near = [
            each
            for each in self._history.events
            if since_s - BEFORE_S <= each.at_s <= since_s + NEAR_S
        ]
        return sorted(near, key=lambda each: abs(each.at_s - since_s))

    def close(self) -> None:
        """Write what was noted."""
        self._history.poll()
