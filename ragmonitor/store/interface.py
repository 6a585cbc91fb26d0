"""What a store can do: the one interface of memory, SQLite and Redis."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import EllipsisType
from typing import Any, Final, NamedTuple, Protocol

from ragmonitor.runtime.errors import RagMonitorError
from ragmonitor.store.buckets import Increments, Rows

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
"""A record that was settled is known for so long."""


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


class Store(Protocol):
    """Where sums and small histories are kept. Every method may raise `StoreUnavailableError`.

    Safe to call from any thread; a forked child may go on calling it.
    """

    place: str
    """Where it is, for people; without credentials."""

    def now(self) -> float:
        """Return the time that orders everything, in seconds since the epoch."""

    def add(self, increments: Increments, settlements: Sequence[Settlement] = ()) -> Added:
        """Add everything in one transaction, or nothing.

        Args:
            increments: Sums by bucket.
            settlements: What became of the records that they are of.
        """

    def decision(self, id_: str) -> Decision | None:
        """Return what was decided on a record that waits for its verdict; None: nothing."""

    def names(self, kind: str) -> list[int]:
        """Return the seconds at which the buckets of a kind begin, oldest first."""

    def read(self, name: str) -> Rows:
        """Return the sums of a bucket; empty: there are none."""

    def state(self) -> tuple[int, dict[str, Any]]:
        """Return the version and the document of the newest commit; 0 and {} before the first."""

    def commit(
        self,
        version: int,
        state: Mapping[str, Any],
        *,
        moves: Collection[tuple[str, str]] = (),
        drops: Collection[str] = (),
        increments: Increments | None = None,
        rows: Mapping[str, bytes] | None = None,
    ) -> bool:
        """Change everything at once if the version is still the newest; return whether it was.

        Args:
            version: As `state` returned it.
            state: The new document; its `closed` is the last bucket whose bets were evaluated.
            moves: Buckets that are added to others, within the store.
            drops: Buckets that end.
            increments: Sums that are added.
            rows: Rows of the kind `tick`, by key.
        """

    def rows(self, kind: str) -> dict[str, bytes]:
        """Return the rows of a kind by key, in the order of their last writing."""

    def row(self, kind: str, key: str) -> bytes | None:
        """Return one row; None: there is none."""

    def keep(
        self,
        kind: str,
        key: str,
        row: bytes | None,
        *,
        expected: bytes | EllipsisType | None = ...,
        most: int = MAX_ROWS,
    ) -> bool:
        """Write one row, as `keep_all`."""
        return self.keep_all(kind, {key: row}, expected=expected, most=most)

    def keep_all(
        self,
        kind: str,
        rows: Mapping[str, bytes | None],
        *,
        expected: bytes | EllipsisType | None = ...,
        most: int = MAX_ROWS,
    ) -> bool:
        """Write rows of a small history in one transaction, and return whether they were written.

        Args:
            kind: `incident`, `feedback`, `golden`, `reference`, `budget`, ...
            rows: By key, each at most `MAX_ROW_BYTES`; None: it is deleted.
            expected: What each has to hold now, None for nothing; else nothing is written. `...`:
                whatever it holds.
            most: So many are kept of the kind, the ones written last.

        Raises:
            ValueError: A row is too large.
        """

    def close(self) -> None:
        """Let go of files and connections; a later call opens them again."""


def decision_of(row: bytes | None) -> Decision | None:
    """Return the decision that a row holds: the draw's bucket, a blank, and the text."""
    if not row:
        return None
    bucket, _, text = row.decode().partition(" ")
    return Decision(int(bucket), text)


def check_rows(rows: Mapping[str, bytes | None]) -> None:
    """Raise `ValueError` where a row is too large to be kept."""
    size = max((len(row) for row in rows.values() if row is not None), default=0)
    if size > MAX_ROW_BYTES:
        raise ValueError(f"a row of {size} bytes; at most {MAX_ROW_BYTES} are kept")
