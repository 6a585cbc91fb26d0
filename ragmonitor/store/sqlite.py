"""The store of one machine: an SQLite file that its processes share."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ragmonitor.store.buckets import Increments, Rows, packed, place, unpacked
from ragmonitor.store.interface import (
    ANY,
    LEASE_S,
    MAX_ROWS,
    SCHEMA,
    SETTLED_S,
    Added,
    Any_,
    Decision,
    Settlement,
    StoreUnavailableError,
    check_row,
    has_room,
)

BUSY_S: Final = 1.0
"""A process waits so long at most for others that write."""
SWEEP_EACH_S: Final = 600.0
APPLICATION_ID: Final = 0x5241474D
"""`RAGM`, in the header of the file."""
NETWORK_FILE_SYSTEMS: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre")
) | {f"fuse.{name}" for name in ("sshfs", "glusterfs", "s3fs", "rclone", "gcsfuse")}
"""File systems whose locks and shared memory SQLite's log cannot rely on."""
MOUNTS: Final = Path("/proc/self/mounts")

_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS sums (
  service TEXT, name TEXT, field TEXT, row BLOB, PRIMARY KEY (service, name, field)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rows (
  written INTEGER PRIMARY KEY, service TEXT, kind TEXT, key TEXT, row BLOB,
  UNIQUE (service, kind, key)
);
CREATE TABLE IF NOT EXISTS settled (
  service TEXT, id TEXT, at REAL, PRIMARY KEY (service, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta (
  service TEXT PRIMARY KEY, version INTEGER, closed INTEGER, state TEXT, holder TEXT,
  until REAL, late INTEGER
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA};
"""
_ADD: Final = (
    "INSERT INTO sums VALUES (?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET row = vector_sum(row, excluded.row)"
)
# From name to name: DISTINCT would read all of their rows.
_NAMES: Final = """
WITH RECURSIVE next(x) AS (
  SELECT (SELECT min(name) FROM sums WHERE service = :s AND name > :low AND name < :high)
  UNION ALL
  SELECT (SELECT min(name) FROM sums WHERE service = :s AND name > x AND name < :high)
  FROM next WHERE x IS NOT NULL
) SELECT x FROM next WHERE x IS NOT NULL
"""
_OPEN: Final = "open"
_ADMITTED: Final = "admitted"
MAX_OPEN: Final = 100_000
"""Writings after which a decision is forgotten whose worker died."""
_FORGET_OPEN: Final = (
    "DELETE FROM rows WHERE kind = ? AND written < (SELECT max(written) FROM rows) - ?"
)

_of_parents: list[sqlite3.Connection] = []
"""Connections that a forked child has of its parent: they are never used, nor closed."""


class Sqlite:
    """Sums that processes of one machine share, in a file in WAL mode.

    The file is opened at the first call, and again by each forked child: a connection does not
    outlive a fork (https://www.sqlite.org/howtocorrupt.html, section 2.6).
    """

    def __init__(self, path: Path, service: str, *, clock: Callable[[], float] = time.time) -> None:
        """Touch nothing yet.

        Args:
            path: The file. Its folder is there.
            service: Whose sums these are; several services may share a file.
            clock: Seconds since the epoch, the same for all processes.
        """
        self.path = path
        self._service = service
        self._clock = clock
        self._db: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._swept_s = clock()

    @property
    def place(self) -> str:
        return str(self.path)

    def now(self) -> float:
        return self._clock()

    # --- connection -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._pid:
            if self._db is not None:
                _of_parents.append(self._db)
            self._db, self._pid, self._lock = None, os.getpid(), threading.RLock()
        with self._lock:
            try:
                if self._db is None:
                    self._db = self._connect()
                yield self._db
            except (sqlite3.Error, OSError) as error:
                raise StoreUnavailableError(f"{self.path}: {error}") from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Hold the file's one write lock, and undo everything where something is raised."""
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        file_system = file_system_of(self.path)
        if file_system in NETWORK_FILE_SYSTEMS:
            raise StoreUnavailableError(
                f"{self.path} is on a network file system ({file_system}), where SQLite loses "
                "data; name a local file, or a Redis server"
            )
        if not self.path.exists():  # texts of answers may stand in it
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        db = sqlite3.connect(
            self.path, isolation_level=None, timeout=BUSY_S, check_same_thread=False
        )
        try:
            self._begin(db)
        except BaseException:
            db.close()
            raise
        return db

    def _begin(self, db: sqlite3.Connection) -> None:
        """Make the tables; a file that is not ours, or a later release's, is left as it is."""
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if pages and application != APPLICATION_ID:
            raise StoreUnavailableError(f"{self.path} is a database of something else")
        if version > SCHEMA:
            raise StoreUnavailableError(f"{self.path} is of a later release of ragmonitor")
        _retried(lambda: db.execute("PRAGMA journal_mode = WAL"))
        db.execute("PRAGMA synchronous = NORMAL")
        db.create_function("vector_sum", 2, _vector_sum, deterministic=True)
        _retried(lambda: db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;"))
        db.execute("INSERT OR IGNORE INTO meta VALUES (?, 0, -1, '{}', '', 0, 0)", (self._service,))

    def close(self) -> None:
        with self._lock:
            if self._db is not None and os.getpid() == self._pid:
                self._db.close()
                self._db = None

    # --- sums -----------------------------------------------------------------------------------

    def add(
        self,
        increments: Increments,
        settlements: Sequence[Settlement] = (),
        *,
        consumer: str = "",  # noqa: ARG002 - records are not on a stream
    ) -> Added:
        refused: set[str] = set()
        with self._writing() as db:
            for each in settlements:
                if self._is_known(db, each):
                    refused.add(each.key)
            if refused:
                return Added(-1, frozenset(refused))
            closed = self._meta(db, "closed")
            placed = place(increments, self.now(), closed)
            self._add(db, placed.increments)
            for each in settlements:
                if each.decision:
                    text = f"{placed.bucket} {each.decision}".encode()
                    self._write(db, _OPEN, each.id, text)
                elif each.id:
                    self._write(db, _OPEN, each.id, None)
                    db.execute(
                        "INSERT INTO settled VALUES (?, ?, ?)", (self._service, each.id, self.now())
                    )
            if placed.late:
                db.execute(
                    "UPDATE meta SET late = late + ? WHERE service = ?",
                    (placed.late, self._service),
                )
        return Added(placed.bucket)

    def _is_known(self, db: sqlite3.Connection, each: Settlement) -> bool:
        """Return whether a record was settled, or drawn if it is drawn now."""
        settled = "SELECT 1 FROM settled WHERE service = ? AND id = ?"
        if db.execute(settled, (self._service, each.id)).fetchone():
            return True
        return bool(each.decision) and self._row(db, _OPEN, each.id) is not None

    def _add(self, db: sqlite3.Connection, increments: Increments) -> None:
        db.executemany(
            _ADD,
            (
                (self._service, name, field, packed(row))
                for name, rows in increments.items()
                for field, row in rows.items()
            ),
        )

    def _meta(self, db: sqlite3.Connection, column: str) -> Any:
        query = f"SELECT {column} FROM meta WHERE service = ?"  # noqa: S608 - columns of ours
        return db.execute(query, (self._service,)).fetchone()[0]

    def decisions(self, ids: Sequence[str]) -> list[Decision | None]:
        with self._reading() as db:
            found = [self._row(db, _OPEN, each) for each in ids]
        return [None if each is None else decision_of(each) for each in found]

    def admit(self, dimension: str, value: str) -> frozenset[str]:
        with self._writing() as db:
            admitted = self._keys(db, _ADMITTED)
            name = f"{dimension}={value}"
            if name not in admitted and has_room(admitted, dimension):
                self._write(db, _ADMITTED, name, b"")
                admitted.append(name)
        own = [each.partition("=") for each in admitted]
        return frozenset(each for found, _, each in own if found == dimension)

    def lease(self, holder: str) -> bool:
        with self._reading() as db:
            now_s = self.now()
            held_by, until_s = db.execute(
                "SELECT holder, until FROM meta WHERE service = ?", (self._service,)
            ).fetchone()
            # A clock that was put back frees it, too.
            is_held = now_s < until_s <= now_s + LEASE_S
            if is_held and (held_by != holder or until_s - now_s > LEASE_S / 2):
                return bool(held_by == holder)
            taken = db.execute(
                "UPDATE meta SET holder = ?, until = ? "
                "WHERE service = ? AND holder = ? AND until = ?",
                (holder, now_s + LEASE_S, self._service, held_by, until_s),
            )
            return taken.rowcount == 1

    def names(self, kind: str) -> list[int]:
        values = {"s": self._service, "low": kind, "high": f"{kind}~"}
        with self._reading() as db:
            found = [name for (name,) in db.execute(_NAMES, values)]
        return sorted(int(name[1:]) for name in found if name[1:].isdigit())

    def read(self, name: str) -> Rows:
        query = "SELECT field, row FROM sums WHERE service = ? AND name = ?"
        with self._reading() as db:
            return {f: unpacked(row) for f, row in db.execute(query, (self._service, name))}

    # --- the tick -------------------------------------------------------------------------------

    def state(self) -> tuple[int, dict[str, Any]]:
        with self._reading() as db:
            version, text = db.execute(
                "SELECT version, state FROM meta WHERE service = ?", (self._service,)
            ).fetchone()
        return version, json.loads(text)

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
        with self._writing() as db:
            changed = db.execute(
                "UPDATE meta SET version = version + 1, closed = ?, state = ? "
                "WHERE service = ? AND version = ?",
                (state.get("closed", -1), json.dumps(state), self._service, version),
            )
            if not changed.rowcount:
                return False
            for source, target in moves:
                self._add(db, {target: self._rows_of(db, source)})
            for name in (*(source for source, _ in moves), *drops):
                db.execute("DELETE FROM sums WHERE service = ? AND name = ?", (self._service, name))
            self._add(db, increments or {})
            for key, row in (rows or {}).items():
                self._write(db, "tick", key, row)
            now_s = self.now()
            if not 0 <= now_s - self._swept_s < SWEEP_EACH_S:  # it reads the whole table
                self._swept_s = now_s
                db.execute("DELETE FROM settled WHERE at < ?", (now_s - 2 * SETTLED_S,))
                db.execute(_FORGET_OPEN, (_OPEN, MAX_OPEN))
        return True

    def _rows_of(self, db: sqlite3.Connection, name: str) -> Rows:
        query = "SELECT field, row FROM sums WHERE service = ? AND name = ?"
        return {f: unpacked(row) for f, row in db.execute(query, (self._service, name))}

    # --- small histories ------------------------------------------------------------------------

    def rows(self, kind: str) -> dict[str, bytes]:
        query = "SELECT key, row FROM rows WHERE service = ? AND kind = ? ORDER BY written"
        with self._reading() as db:
            return dict(db.execute(query, (self._service, kind)))

    def row(self, kind: str, key: str) -> bytes | None:
        with self._reading() as db:
            return self._row(db, kind, key)

    def keep(
        self,
        kind: str,
        key: str,
        row: bytes | None,
        *,
        expected: bytes | Any_ | None = ANY,
        most: int = MAX_ROWS,
    ) -> bool:
        check_row(row)
        with self._writing() as db:
            if expected is not ANY and self._row(db, kind, key) != expected:
                return False
            self._write(db, kind, key, row)
            known = self._keys(db, kind)
            for oldest in known[: max(0, len(known) - most)]:
                self._write(db, kind, oldest, None)
        return True

    def _keys(self, db: sqlite3.Connection, kind: str) -> list[str]:
        query = "SELECT key FROM rows WHERE service = ? AND kind = ? ORDER BY written"
        return [key for (key,) in db.execute(query, (self._service, kind))]

    def _row(self, db: sqlite3.Connection, kind: str, key: str) -> bytes | None:
        query = "SELECT row FROM rows WHERE service = ? AND kind = ? AND key = ?"
        found = db.execute(query, (self._service, kind, key)).fetchone()
        return None if found is None else bytes(found[0])

    def _write(self, db: sqlite3.Connection, kind: str, key: str, row: bytes | None) -> None:
        which = (self._service, kind, key)
        if row is None:
            db.execute("DELETE FROM rows WHERE service = ? AND kind = ? AND key = ?", which)
        else:  # with a new number: rows are ordered by their last writing
            db.execute(
                "INSERT OR REPLACE INTO rows (service, kind, key, row) VALUES (?, ?, ?, ?)",
                (*which, row),
            )

    def late(self) -> int:
        with self._reading() as db:
            return int(self._meta(db, "late"))


def decision_of(row: bytes) -> Decision:
    """Return the decision of a row: the draw's bucket, a blank, and the text."""
    bucket, _, text = row.decode().partition(" ")
    return Decision(int(bucket), text)


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system that a file is on; empty: it is not known.

    Args:
        path: The file; it need not be there.
        mounts: The table of mounts, as Linux has it.
    """
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    real, longest, found = str(path.resolve()), -1, ""
    for line in lines:
        _, point, kind, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        is_above = real == point or real.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= longest:  # of equal ones the last mount hides the others
            longest, found = len(point), kind
    return found


def _retried(act: Callable[[], object]) -> None:
    """Act, again for a while where another process makes the same file: that waits for no lock."""
    end_s = time.monotonic() + BUSY_S
    while True:
        try:
            act()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end_s:
                raise
        time.sleep(0.01)


def _vector_sum(a: bytes, b: bytes) -> bytes:
    return packed([x + y for x, y in zip(unpacked(a), unpacked(b), strict=True)])
