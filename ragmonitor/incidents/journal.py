"""The incidents of one service in its store: one that is open, and those that are over."""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import ValidationError

from ragmonitor.export.content import Content
from ragmonitor.incidents.incident import Incident
from ragmonitor.runtime.guard import record_problem
from ragmonitor.store import Store

MAX_INCIDENTS: Final = 100
MAX_AGE_S: Final = 90 * 86_400.0
KIND: Final = "incident"
OPEN: Final = "open"
"""The key of the one that is open; the others have their ids."""


class Kept(NamedTuple):
    """The open incident as it is kept."""

    row: bytes | None
    """What has to stand there still when it is replaced."""
    incident: Incident | None


class Journal:
    """Keeps incidents for all processes of a service.

    Every method may raise `StoreUnavailableError`. Incidents that a laxer content policy kept are
    not returned.
    """

    def __init__(self, store: Store, content: Content = "all") -> None:
        """Touch nothing yet.

        Args:
            store: Where they are kept.
            content: How texts may be kept.
        """
        self._store = store
        self._content: Content = content

    def open(self) -> Kept:
        """Return the open incident."""
        row = self._store.row(KIND, OPEN)
        return Kept(row, None if row is None else self._read(row))

    def replace(self, kept: Kept, incident: Incident) -> bool:
        """Put an incident in the place of the open one; False: another process was faster."""
        row = incident.model_dump_json().encode()
        if incident.is_open:
            return self._store.keep(KIND, OPEN, row, expected=kept.row)
        # Written first: if this process dies, the next one closes it once more, the same.
        self._store.keep(KIND, incident.id, row, most=MAX_INCIDENTS + 1)
        return self._store.keep(KIND, OPEN, None, expected=kept.row)

    def strip(self) -> None:
        """Take out of the store what an earlier policy kept and this one does not permit."""
        for key, row in self._store.rows(KIND).items():
            kept = self._parsed(row)
            if kept is not None and not kept.is_permitted(self._content):
                self._store.keep(KIND, key, None, expected=row)

    def recent(self) -> tuple[Incident, ...]:
        """Return the incidents, the newest first."""
        found = {
            each.id: each
            for row in self._store.rows(KIND).values()
            if (each := self._read(row)) is not None
            and each.opened_s > self._store.now() - MAX_AGE_S
        }
        return tuple(sorted(found.values(), key=lambda each: each.opened_s, reverse=True))

    def find(self, id: str) -> Incident | None:  # noqa: A002 - its name on the record
        """Return the incident of an id, or the newest one for `latest`; None: there is none."""
        incidents = self.recent()
        if id == "latest":
            return next(iter(incidents), None)
        return next((each for each in incidents if each.id == id), None)

    def _read(self, row: bytes) -> Incident | None:
        kept = self._parsed(row)
        return kept if kept is not None and kept.is_permitted(self._content) else None

    def _parsed(self, row: bytes) -> Incident | None:
        try:
            return Incident.model_validate_json(row)
        except ValidationError:
            # Its message quotes the record, texts included.
            record_problem("incident", "an incident of the store cannot be read and is left out")
            return None
