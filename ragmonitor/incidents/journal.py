"""The incidents of one service: bounded in number, bytes and age; in the state folder or memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from ragmonitor.export.content import ContentPolicy
from ragmonitor.forks import survive_forks
from ragmonitor.guard import record_problem
from ragmonitor.incidents.incident import Incident
from ragmonitor.incidents.withheld_texts import withheld
from ragmonitor.store import Kept, Memory, StoreUnavailableError

STATE_VERSION: Final = 1
MAX_INCIDENTS: Final = 100
MAX_BYTES: Final = 200_000
MAX_AGE_S: Final = 90 * 86_400.0
_STAGE: Final = "incident"
_WHAT: Final = "incidents"
_SHOWS_ALL: Final = ContentPolicy()

Change = Callable[[Sequence[Incident]], Sequence[Incident]]
"""From the incidents that are kept, the newest first, to those that are to be."""


class Journal:
    """Keeps incidents, the newest first; processes of one state folder share them.

    The worker's thread writes; any thread reads. Of incidents that a laxer content policy kept only
    what this one allows is returned; the first update takes the rest out of the file.
    """

    def __init__(self, file: Kept | None = None, policy: ContentPolicy = _SHOWS_ALL) -> None:
        """Begin with what the file holds.

        Args:
            file: Where they outlive the process; None: in memory only.
            policy: How texts may be kept.
        """
        self._file = Kept(Memory(), "incidents", version=STATE_VERSION) if file is None else file
        self._policy = policy
        self._prepare()
        survive_forks(self)

    def _prepare(self) -> None:
        self._lock = threading.Lock()
        self._memory: tuple[Incident, ...] = ()

    def after_fork_in_child(self) -> None:
        """Forget what is in memory: those incidents are the parent's."""
        self._prepare()

    def update(self, change: Change, now_s: float) -> None:
        """Put other incidents in place of those that are kept, while no other process does.

        What cannot be written is kept in memory, and reported once.

        Args:
            change: Called again where another process was faster.
            now_s: Seconds since the epoch; what is too old by then is dropped.
        """
        kept: list[tuple[Incident, ...]] = []

        def changed(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
            kept.clear()
            before = _read(state) if state else self.recent()
            kept.append(_bounded(change(self._allowed(before)), now_s))
            if kept[0] == before:
                return None
            return {"incidents": [each.model_dump(mode="json") for each in kept[0]]}

        written = self._file.update(changed, stage=_STAGE, what=_WHAT)
        if not kept:
            changed({})
        with self._lock:
            self._memory = () if written else kept[0]

    def recent(self) -> tuple[Incident, ...]:
        """Return the incidents, the newest first."""
        with self._lock:
            memory = self._memory
        if memory:
            return memory
        try:
            return self._allowed(_read(self._file.read()))
        except (StoreUnavailableError, ValueError) as error:
            record_problem(_STAGE, f"incidents cannot be read: {error}")
            return ()

    def _allowed(self, incidents: Sequence[Incident]) -> tuple[Incident, ...]:
        return tuple(withheld(each, self._policy) for each in incidents)

    def find(self, id: str) -> Incident | None:  # noqa: A002 - its name on the record
        """Return the incident of an id, or the newest one for `latest`; None: there is none."""
        incidents = self.recent()
        if id == "latest":
            return next(iter(incidents), None)
        return next((each for each in incidents if each.id == id), None)


def read_file(file: Kept) -> tuple[Incident, ...]:
    """Return the incidents of a file, the newest first; for another process than the monitor's.

    Raises:
        ValueError: It cannot be understood.
        StoreUnavailableError: It cannot be opened.
    """
    return _read(file.read())


def _read(state: Mapping[str, Any]) -> tuple[Incident, ...]:
    listed = state.get("incidents")
    found = []
    for each in listed if isinstance(listed, list) else ():
        try:
            found.append(Incident.model_validate(each))
        except ValidationError:
            # Its message quotes the record, texts included.
            record_problem(_STAGE, "an incident of the state folder cannot be read and is dropped")
    return tuple(found)


def _bounded(incidents: Sequence[Incident], now_s: float) -> tuple[Incident, ...]:
    """Return the newest that there is room for, the newest first."""
    kept: list[Incident] = []
    left = MAX_BYTES
    for each in sorted(incidents, key=lambda each: each.opened_s, reverse=True)[:MAX_INCIDENTS]:
        left -= len(json.dumps(each.model_dump(mode="json")))
        if each.opened_s < now_s - MAX_AGE_S or (left < 0 and kept):
            break
        kept.append(each)
    return tuple(kept)
