"""What a store can do: the one interface of memory, SQLite and Redis.

A store holds *sums*, which are vectors by bucket and field, and *rows*, which are bytes by kind and
key. All that processes agree on is a row: the state of the evaluation, what was decided on a
record, a lease, a budget. One method changes anything, all at once, if rows still hold what they
were seen to hold; each store has its own of it, and everything else is built on that here.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Final, NamedTuple

import msgspec

from ragmonitor.runtime.errors import RagMonitorError
from ragmonitor.store.buckets import Increments, Rows, place

SCHEMA: Final = 1
"""Version of the layout. A store that a later release made is left as it is."""
LEASE_S: Final = 10.0
MAX_VALUES: Final = 20
"""Values of one dimension that are told apart."""
MAX_SLICES: Final = 100
"""Values of all dimensions together, and so series of one signal."""
MAX_ROW_BYTES: Final = 256 * 1024
MAX_ROWS: Final = 1_000
SETTLED_S: Final = 3_600
"""A record that was settled is known for so long; one that waits for its verdict for a day."""
TRIES: Final = 200
"""So often a change is tried again where another process was faster."""
RECORD: Final = "record"
"""Kind of the rows of records: the bucket of the draw, a blank, and what was decided; empty: the
record is settled."""

Key = tuple[str, str]
"""The kind of a row, and its key."""
STATE: Final[Key] = ("state", "all")
State = dict[str, int | float]
"""The document of an evaluation."""


class StoreUnavailableError(RagMonitorError):
    """The store cannot be used now, or at all; the message says why, without credentials."""

    quotes_no_text = True


class Settlement(NamedTuple):
    """What became of a record."""

    id: str
    """Of the record; of two settlements of one id one is added."""
    entry: str = ""
    """Its number on the stream of records, which is acknowledged; empty: it is on none."""
    decision: str = ""
    """Of a record that was drawn and waits for its verdict: what was decided, for whoever takes it
    over. Empty: the record is settled."""


class Added(NamedTuple):
    """The outcome of `Store.add`."""

    bucket: int
    """The bucket that draws went to, in seconds; a verdict names it. -1: nothing was added."""
    refused: frozenset[str] = frozenset()
    """Ids of records that somebody else settled or drew. If there are any nothing was added."""
    late: int = 0
    """Bets that came after their bucket was closed, and were left out."""


class Decision(NamedTuple):
    """What was decided on a record that was drawn."""

    bucket: int
    """The bucket of its draw."""
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """What is changed at once."""

    expected: Mapping[Key, bytes | None] = field(default_factory=dict)
    """What rows have to hold, None for nothing; else nothing is changed."""
    increments: Increments = field(default_factory=dict)
    """Sums that are added."""
    rows: Mapping[Key, bytes | None] = field(default_factory=dict)
    """Rows that are written; None: it is deleted."""
    moves: Collection[tuple[str, str]] = ()
    """Buckets that are added to others."""
    drops: Collection[str] = ()
    """Buckets that end."""
    acknowledged: Collection[str] = ()
    """Entries of the stream of records that are done."""
    most: int = MAX_ROWS
    """So many rows are kept of each kind that is written, the ones written last; of records those
    of the last hours."""


NO_CHANGE: Final = Change()


class Store(abc.ABC):
    """Where sums and rows are kept. Every method may raise `StoreUnavailableError`.

    Safe to call from any thread; a forked child may go on calling it.
    """

    place: str
    """Where it is, for people; without credentials."""

    # --- what each store has of its own ---------------------------------------------------------

    @abc.abstractmethod
    def peek(self, keys: Sequence[Key] = ()) -> tuple[float, list[bytes | None]]:
        """Return the time that orders everything, in seconds since the epoch, and some rows."""

    @abc.abstractmethod
    def change(self, change: Change) -> bool:
        """Change everything in one transaction, or nothing; return whether it was changed."""

    @abc.abstractmethod
    def names(self, kind: str) -> list[int]:
        """Return the seconds at which the buckets of a kind begin, oldest first."""

    @abc.abstractmethod
    def read(self, name: str) -> Rows:
        """Return the sums of a bucket; empty: there are none."""

    @abc.abstractmethod
    def rows(self, kind: str) -> dict[str, bytes]:
        """Return the rows of a kind by key, in the order of their last writing."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of files and connections; a later call opens them again."""

    # --- sums -----------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time that orders everything, in seconds since the epoch."""
        return self.peek()[0]

    def add(self, increments: Increments, settlements: Sequence[Settlement] = ()) -> Added:
        """Add everything in one transaction, or nothing.

        Args:
            increments: Sums by bucket.
            settlements: What became of the records that they are of.
        """
        keys = [STATE, *((RECORD, each.id) for each in settlements)]
        for _ in range(TRIES):
            now_s, found = self.peek(keys)
            known = dict(zip(settlements, found[1:], strict=True))
            # A decision may still be settled; it is empty once it was.
            refused = [e for e, row in known.items() if row == b"" or (row and e.decision)]
            if refused:
                # An entry that is settled was put twice by its producer.
                done = [each.entry for each in refused if each.entry and not known[each]]
                if done:
                    self.change(Change(acknowledged=done))
                return Added(-1, frozenset(each.id for each in refused))
            placed = place(increments, now_s, int(_state_of(found[0])[1].get("closed", -1)))
            change = Change(
                expected=dict(zip(keys, found, strict=True)),
                increments=placed.increments,
                rows={
                    (RECORD, e.id): f"{placed.bucket} {e.decision}".encode() if e.decision else b""
                    for e in settlements
                },
                acknowledged=[e.entry for e in settlements if e.entry and not e.decision],
            )
            if self.change(change):
                return Added(placed.bucket, late=placed.late)
        raise StoreUnavailableError("too many processes evaluate at once")

    def decision(self, id_: str) -> Decision | None:
        """Return what was decided on a record that waits for its verdict; None: nothing."""
        row = self.row(RECORD, id_)
        if not row:
            return None
        bucket, _, text = row.decode().partition(" ")
        return Decision(int(bucket), text)

    # --- the tick -------------------------------------------------------------------------------

    def state(self) -> tuple[int, State]:
        """Return the version and the document of the newest commit; 0 and {} before the first."""
        return _state_of(self.row(*STATE))

    def commit(self, version: int, state: State, change: Change = NO_CHANGE) -> bool:
        """Change everything at once if the version is still the newest; return whether it was.

        Args:
            version: As `state` returned it.
            state: The new document; its `closed` is the last bucket whose bets were evaluated.
            change: What else is changed; nothing is expected of rows.
        """
        known = self.row(*STATE)
        if _state_of(known)[0] != version:
            return False
        rows = {STATE: msgspec.json.encode([version + 1, state]), **change.rows}
        return self.change(replace(change, expected={STATE: known}, rows=rows))

    # --- small histories ------------------------------------------------------------------------

    def row(self, kind: str, key: str) -> bytes | None:
        """Return one row; None: there is none."""
        return self.peek([(kind, key)])[1][0]

    def keep(
        self,
        kind: str,
        key: str,
        row: bytes | None,
        *,
        expected: bytes | EllipsisType | None = ...,
        most: int = MAX_ROWS,
    ) -> bool:
        """Write one row, as `keep_all`, if it holds what is expected.

        Args:
            kind: `incident`, `feedback`, `golden`, `reference`, `budget`, ...
            key: Of the row.
            row: None: it is deleted.
            expected: What it has to hold now, None for nothing; `...`: whatever it holds.
            most: So many are kept of the kind, the ones written last.
        """
        known = {} if isinstance(expected, EllipsisType) else {(kind, key): expected}
        return self._keep(Change(known, rows={(kind, key): row}, most=most))

    def keep_all(
        self, kind: str, rows: Mapping[str, bytes | None], *, most: int = MAX_ROWS
    ) -> None:
        """Write rows of a small history in one transaction.

        Args:
            kind: Of the history.
            rows: By key, each at most `MAX_ROW_BYTES`; None: it is deleted.
            most: So many are kept of the kind, the ones written last.

        Raises:
            ValueError: A row is too large.
        """
        self._keep(Change(rows={(kind, key): row for key, row in rows.items()}, most=most))

    def _keep(self, change: Change) -> bool:
        size = max((len(row) for row in change.rows.values() if row is not None), default=0)
        if size > MAX_ROW_BYTES:
            raise ValueError(f"a row of {size} bytes; at most {MAX_ROW_BYTES} are kept")
        return self.change(change)


def _state_of(row: bytes | None) -> tuple[int, State]:
    """Return the version and the document of a state; one that cannot be read begins anew."""
    try:
        return msgspec.json.decode(row or b"[0, {}]", type=tuple[int, State])
    except (msgspec.MsgspecError, ValueError):
        return 0, {}
