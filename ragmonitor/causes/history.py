"""Keeps what happened to the application: deployments, changes of the judge, events it reports."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the application."""

    kind: EventKind
    name: str
    """`reindexed`, a version, a judge."""
    at_s: float
    """Seconds since the epoch."""
    attributes: Mapping[str, str]


class Seen(NamedTuple):
    """When a version answered, in seconds since the epoch."""

    first_s: float
    last_s: float


class History(Part):
    """Keeps events, and when each version answered, in the store.

    A deployment is the first answer of a version; a judge change is another identity of the judge;
    the application says the rest by `Monitor.event`.
    """

    def __init__(self, store: Store, watching: Watching, *, version: str = "") -> None:
        """Touch nothing yet.

        Args:
            store: Where they are kept.
            watching: Names the judge, and the attributes whose values are versions.
            version: The setting `service_version`, where an interaction names no other.
        """
        self._store = store
        self._version = version
        self._watching = watching
        self._told: deque[tuple[str, Mapping[str, str], float, Clean]] = deque(maxlen=MAX_WAITING)
        self._seen: dict[str, float] = {}
        self._judge = self._known_judge = ""
        self._read_s = -math.inf
        self.events: Sequence[Event] = ()
        """As of the last tick, in the order of time."""
        self.versions: Mapping[str, Seen] = {}
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
        self._told.append((str(name)[:MAX_TOLD], texts, at_s, clean))

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
        now_s = self._store.now()
        is_due = not 0 <= now_s - self._read_s < READ_S
        is_due = is_due or any(each not in self.versions for each in self._seen)
        while self._told:
            name, texts, at_s, clean = self._told.popleft()
            cleaned = {
                clean(key, "")[:MAX_LENGTH]: clean(value, key)[:MAX_LENGTH]
                for key, value in texts.items()
            }
            self._keep("event", clean(name, "")[:MAX_LENGTH], at_s, cleaned)
            is_due = True
        if self._judge != self._known_judge:
            name = self._judge[:MAX_LENGTH]
            before = self._store.row("judge", "last")
            if before != name.encode():
                self._store.keep("judge", "last", name.encode())
            if before not in (None, name.encode()):
                self._keep("judge_change", name, now_s, {})
            self._known_judge = self._judge
        if not is_due:
            return
        for version, last_s in self._seen.items():
            row = self._store.row("version", version)
            first_s = last_s if row is None else msgspec.json.decode(row)[0]
            self._store.keep("version", version, msgspec.json.encode([first_s, last_s]))
        self._read_s, self._seen = now_s, {}
        self._read()

    def _keep(self, kind: EventKind, name: str, at_s: float, attributes: Mapping[str, str]) -> None:
        event = Event(kind=kind, name=name, at_s=at_s, attributes=attributes)
        key = f"{kind}: {name}"
        self._store.keep("event", key, msgspec.json.encode(event), most=MAX_EVENTS)

    def _read(self) -> None:
        events: list[Event] = []
        for row in self._store.rows("event").values():
            try:
                events.append(msgspec.json.decode(row, type=Event))
            except msgspec.MsgspecError as error:
                record_problem("causes", f"an event in the store cannot be read: {error!r}")
        rows = self._store.rows("version")
        seen = {version: msgspec.json.decode(row, type=Seen) for version, row in rows.items()}
        # Of two that came at the same time the later name is the newer version.
        order = sorted(seen, key=lambda version: (seen[version].first_s, version))
        self.versions = {version: seen[version] for version in order}
        for version, found in self.versions.items():
            by, _, value = version.partition("=")
            name = value if by == SERVICE_VERSION else f"{by} {value}"
            events.append(Event(kind="deployment", name=name, at_s=found.first_s, attributes={}))
        self.events = sorted(events, key=lambda each: each.at_s)[-MAX_EVENTS:]

    def gauges(self) -> Iterator[GaugeValue]:
        """Return when each event was last."""
        for each in self.events:
            yield GaugeValue.of(metrics.EVENT_TIMESTAMP, each.at_s, kind=each.kind, name=each.name)

    def records(self) -> Mapping[str, object]:
        """Return the events, newest last; without their attributes, which may be texts."""
        told = [{"kind": each.kind, "name": each.name, "at_s": each.at_s} for each in self.events]
        return {"events": told} if told else {}
