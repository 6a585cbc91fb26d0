"""Finds the cause of an alarm: where the rise concentrates, what it rests on, and since when."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ragmonitor.causes.answer_slices import SERVICE_VERSION
from ragmonitor.causes.documents import SOURCE, Documents
from ragmonitor.causes.explanation import Explanation, NamedPart, largest_shift, mean_of
from ragmonitor.causes.history import Event, History
from ragmonitor.causes.versions import Versions
from ragmonitor.export.content import ContentPolicy
from ragmonitor.stats.parts import Part
from ragmonitor.stats.service import Watching
from ragmonitor.stats.signals import HALLUCINATION
from ragmonitor.stats.tick import Tick
from ragmonitor.store import DAY_S, OTHER, Rows, Store

BEFORE_S: Final = 900.0
"""An event that was so long before a rise began may be its cause."""
NEAR_S: Final = 300.0
"""When a rise began is known to some minutes."""
MAX_NAMED: Final = 6
MIN_SHIFT: Final = 0.2
"""The share of a rise below which the mix of the traffic is not worth a line."""


class Causes(Part):
    """What may be the cause of an alarm: slices, documents, versions and events.

    Everything rests on the sums in the store, which slices of the answers are part of. A process
    adds what is not summed up there: the evidence of documents, events, and when versions answered.
    """

    def __init__(
        self,
        store: Store,
        watching: Watching,
        *,
        service_version: str = "",
        policy: ContentPolicy,
    ) -> None:
        """Touch nothing yet.

        Args:
            store: Where sums and histories are kept.
            watching: What is watched of the service.
            service_version: The setting, where an interaction names no other.
            policy: Says what a document may be called.
        """
        self._store = store
        # It evaluates nothing: it reads sums.
        self._tick = tick = Tick(store)
        self._series = {signal: series for series, signal in watching.compared.items()}
        self.documents = Documents(policy, store, tick, series=self._series[HALLUCINATION])
        self.history = History(store, watching, version=service_version)
        self.versions = Versions(store, tick, self.history, watching)
        self.event = self.history.note
        """Takes note of an event of the application's; from any thread, without waiting."""
        self.parts = (self, self.documents, self.history, self.versions)
        """All that see answers, in their order."""

    # --- of an alarm ----------------------------------------------------------------------------

    def explain(self, signal: str, since_s: float) -> Explanation:
        """Return what is known of why a signal is worse since a time.

        Slices have sums of hallucination and refusal; what made another signal worse is looked for
        in hallucination.

        Args:
            signal: One that answers are judged by.
            since_s: When its rise began.

        Raises:
            StoreUnavailableError: Nothing is known now.
        """
        before, now = self._tick.sums(since_s - DAY_S, since_s), self._tick.sums(since_s)
        series = self._series[HALLUCINATION]
        if any(each.startswith(f"{self._series.get(signal)}|") for each in now):
            series = self._series[signal]
        named = self._tick.named(series, since_s, self.documents.ahead(since_s))
        names = [each for each in named if not each.endswith(f"={OTHER}")]
        near = (
            replace(each, name=_told(each))
            for each in self.history.events
            if since_s - BEFORE_S <= each.at_s <= since_s + NEAR_S
        )
        shift = largest_shift(series, before, now)
        compared = self._store.state()[1].get("compared", -1)
        return Explanation(
            parts=[self._part(series, each, before, now) for each in names[:MAX_NAMED]],
            is_everywhere=not names and compared >= since_s,
            shift=shift if shift is not None and shift.share >= MIN_SHIFT else None,
            events=sorted(near, key=lambda each: abs(each.at_s - since_s)),
        )

    def _part(self, series: str, name: str, before: Rows, now: Rows) -> NamedPart:
        dimension, _, value = name.partition("=")
        if dimension == SOURCE:
            return NamedPart(kind="document", name=value)
        is_version = self.versions.is_version(name)
        of = "version" if dimension == SERVICE_VERSION else dimension
        return NamedPart(
            kind="version" if is_version else "slice",
            name=f"{of} {value}" if is_version else name,
            now=mean_of(now.get(f"{series}|{name}")),
            before=mean_of(before.get(f"{series}|{name}")),
        )


def _told(event: Event) -> str:
    """Return an event as people read it: `reindexed (index=v7)`."""
    known = ", ".join(f"{key}={value}" for key, value in event.attributes.items())
    return f"{event.name} ({known})" if known else event.name
