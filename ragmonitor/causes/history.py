"""Keeps what happened to the application: deployments, changes of the judge, events it reports."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import msgspec

from ragmonitor.causes.answer_slices import MAX_CHARACTERS, SERVICE_VERSION
from ragmonitor.records import GaugeValue
from ragmonitor.runtime.guard import record_problem
from ragmonitor.semconv import metrics
from ragmonitor.stats.parts import Answer, Part
from ragmonitor.stats.service import Watching
from ragmonitor.store import Store

EventKind = Literal["deployment", "judge_change", "event"]
Clean = Callable[[str, str], str]
"""Redacts a text, given the name that it has, or else nothing."""

MAX_EVENTS: Final = 100
"""Newest events that are kept; of one kind and name only the newest."""
MAX_WAITING: Final = 1_000
MAX_LENGTH: Final = 120
MAX_TOLD: Final = 4_000
"""The characters of a name or a value that are looked at; of those `MAX_LENGTH` are kept."""
MAX_ATTRIBUTES: Final = 8
READ_S: Final = 10.0
EVENT: Final = "event"
VERSION: Final = "version"
"""Kinds of the rows of events, and of versions by their slices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the application."""

    kind: EventKind
    name: str
    """`reindexed`, a version, a judge."""
    at_s: float
    """Seconds since the epoch; of a version, of its first answer."""
    last_s: float = 0.0
    """When a version answered last."""
    attributes: Mapping[str, str] = field(default_factory=dict)


class History(Part):
    """Keeps events, and when each version answered, in the store.

    A deployment is the first answer of a version; a judge change is another identity of the judge;
    the application says the rest by `Monitor.event`.
    """

    def __init__(
        self,
        store: Store,
        watching: Watching,
        *,
        version: str = "",
    ) -> None:
        """Touch nothing yet.

        Args:
            store: Where they are kept.
            watching: Names the judge, and the attributes whose values are versions.
            version: The setting `service_version`, where an interaction names no other.
        """
        self._store = store
        self._version = version
        self._watching = watching
        self._told: deque[tuple[Event, Clean]] = deque(maxlen=MAX_WAITING)
        self._seen: dict[str, float] = {}
        self._judge = self._known_judge = ""
        self._read_s = -math.inf
        self.events: Sequence[Event] = ()
        """As of the last tick, in the order of time."""
        self.versions: Mapping[str, Event] = {}
        """By slice, such as `service_version=1.1`; in the order of their first answers."""

    def note(
        self,
        name: str,
        attributes: Mapping[str, str],
        at_s: float,
        clean: Clean = lambda text, _: text,
    ) -> None:
        """Take note of an event that the application tells; from any thread, without waiting.

        Args:
            name: Of the event.
            attributes: What else is known of it.
            at_s: When it happened, in seconds since the epoch.
            clean: Is called later, by the worker's thread.
        """
        kept = list(attributes.items())[:MAX_ATTRIBUTES]
        texts = {str(key)[:MAX_TOLD]: str(value)[:MAX_TOLD] for key, value in kept}
        event = Event(kind="event", name=str(name)[:MAX_TOLD], at_s=at_s, attributes=texts)
        self._told.append((event, clean))

    def add(self, answer: Answer) -> None:
        """Notice the versions of an answer, and the identity of its judge."""
        interaction, at_s, judged = answer.interaction, answer.at_s, answer.completed.judged
        own = {"model": interaction.model, SERVICE_VERSION: self._version}
        for by in {SERVICE_VERSION, *self._watching.versions_by}:
            value = interaction.attributes.get(by) or own.get(by)
            if value and len(value) <= MAX_CHARACTERS:
                version = f"{by}={value}"
                self._seen[version] = max(at_s, self._seen.get(version, 0.0))
        if judged is not None and judged.judge.name == self._watching.quality_judge:
            self._judge = str(judged.judge)

    def tick(self) -> None:
        """Write what was noted, and read what is known."""
        is_due = bool(self._told)
        while self._told:  # one that could not be written waits for the next tick
            event, clean = self._told[0]
            texts = {
                clean(key, "")[:MAX_LENGTH]: clean(value, key)[:MAX_LENGTH]
                for key, value in event.attributes.items()
            }
            self._keep(replace(event, name=clean(event.name, "")[:MAX_LENGTH], attributes=texts))
            self._told.popleft()
        self._note_judge()
        now_s = self._store.now()
        is_due = is_due or any(each not in self.versions for each in self._seen)
        if not is_due and 0 <= now_s - self._read_s < READ_S:
            return
        known = self._read(VERSION)
        for version, last_s in self._seen.items():
            first = known.get(version) or Event(kind="deployment", name=version, at_s=last_s)
            known[version] = replace(first, last_s=last_s)
            self._store.keep(VERSION, version, msgspec.json.encode(known[version]))
        self._read_s, self._seen = now_s, {}
        # Of two that came at the same time the later name is the newer version.
        versions = sorted(known.values(), key=lambda each: (each.at_s, each.name))
        self.versions = {each.name: each for each in versions}
        deployed = [replace(each, name=_version_name(each.name)) for each in versions]
        events = [*self._read(EVENT).values(), *deployed]
        self.events = sorted(events, key=lambda each: each.at_s)[-MAX_EVENTS:]

    def _keep(self, event: Event) -> None:
        key = f"{event.kind}: {event.name}"
        self._store.keep(EVENT, key, msgspec.json.encode(event), most=MAX_EVENTS)

    def _note_judge(self) -> None:
        if self._judge != self._known_judge:
            name = self._judge[:MAX_LENGTH]
            before = self._store.row("judge", "last")
            if before != name.encode():
                self._store.keep("judge", "last", name.encode())
                if before is not None:
                    self._keep(Event(kind="judge_change", name=name, at_s=self._store.now()))
            self._known_judge = self._judge

    def _read(self, kind: str) -> dict[str, Event]:
        events = {}
        for key, row in self._store.rows(kind).items():
            try:
                events[key] = msgspec.json.decode(row, type=Event)
            except msgspec.MsgspecError as error:
                record_problem("causes", f"an event in the store cannot be read: {error!r}")
        return events

    def gauges(self) -> Iterator[GaugeValue]:
        """Return when each event was last."""
        for each in self.events:
            yield GaugeValue.of(metrics.EVENT_TIMESTAMP, each.at_s, kind=each.kind, name=each.name)

    def records(self) -> Mapping[str, object]:
        """Return the events, newest last; without their attributes, which may be texts."""
        if not self.events:
            return {}
        return {
            "events": [
                {"kind": each.kind, "name": each.name, "at_s": each.at_s} for each in self.events
            ]
        }


def _version_name(slice_: str) -> str:
    """Return what a version is called among the events: `1.1`, or `prompt_version 1.1`."""
    dimension, _, value = slice_.partition("=")
    return value if dimension == SERVICE_VERSION else f"{dimension} {value}"
