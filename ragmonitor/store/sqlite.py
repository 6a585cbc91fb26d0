"""The store of a machine, an SQLite file that its processes share; that of a process, in memory."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import add
from pathlib import Path
from typing import Any, Final

from ragmonitor.runtime.guard import record_problem
from ragmonitor.store.buckets import DAY_S, Rows, packed, unpacked
from ragmonitor.store.interface import (
    RECORD,
    SCHEMA,
    SETTLED_S,
    Change,
    Key,
    Store,
    StoreUnavailableError,
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
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS sums (
  service TEXT, name TEXT, field TEXT, row BLOB, PRIMARY KEY (service, name, field)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rows (
  written INTEGER PRIMARY KEY, service TEXT, kind TEXT, key TEXT, row BLOB,
  UNIQUE (service, kind, key)
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA};
COMMIT;
"""
# Each statement has the service as ?1.
_ADD: Final = (
    "INSERT INTO sums VALUES (?1, ?2, ?3, ?4)"
    " ON CONFLICT DO UPDATE SET row = vector_sum(row, excluded.row)"
)
# From name to name: DISTINCT would read all of their rows.
_NAMES: Final = """WITH RECURSIVE next(x) AS (
  SELECT (SELECT min(name) FROM sums WHERE service = ?1 AND name > ?2 AND name < ?3) UNION ALL
  SELECT (SELECT min(name) FROM sums WHERE service = ?1 AND name > x AND name < ?3)
  FROM next WHERE x IS NOT NULL
) SELECT x FROM next WHERE x IS NOT NULL"""
# Rows are ordered by their last writing, and numbered by its time in microseconds.
_WRITE: Final = (
    "INSERT OR REPLACE INTO rows VALUES"
    " (max(?5, (SELECT ifnull(max(written), 0) + 1 FROM rows)), ?1, ?2, ?3, ?4)"
)
_FORGET_RECORDS: Final = (
    "DELETE FROM rows WHERE service = ?1 AND kind = 'record'"
    " AND written < ?2 AND (row = x'' OR written < ?3)"
)
_FORGET_OLDEST: Final = (
    "DELETE FROM rows WHERE written IN (SELECT written FROM rows WHERE service = ?1 AND kind = ?2"
    " ORDER BY written DESC LIMIT -1 OFFSET ?3)"
)

_of_parents: list[sqlite3.Connection] = []
"""Connections that a forked child has of its parent: they are never used, nor closed."""


class Sqlite(Store):
    """Sums that processes of one machine share, in a file in WAL mode.

    The file is opened at the first call, and again by each forked child: a connection does not
    outlive a fork (https://www.sqlite.org/howtocorrupt.html, section 2.6).
    """

    def __init__(
        self,
        path: str | Path,
        service: str,
        *,
        falls_back: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Touch nothing yet.

        Args:
            path: The file. Its folder is there.
            service: Whose sums these are; several services may share a file.
            falls_back: Whether memory stands in for a file that cannot be used, with a warning.
            clock: Seconds since the epoch, the same for all processes.
        """
        self.place = str(path)
        self._clock = clock
        self._service = service
        self._falls_back = falls_back
        self._db: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._swept_s = clock()

    # --- connection -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
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
                raise StoreUnavailableError(f"{self.place}: {error}") from error

    def _ask(self, statement: str, *values: object) -> list[Any]:
        with self._opened() as db:
            return db.execute(statement, (self._service, *values)).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Hold the file's one write lock, and undo everything where something is raised."""
        with self._opened() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        try:
            self._check_file()
            return self._connect_to(self.place)
        except (sqlite3.Error, OSError, StoreUnavailableError) as error:
            problem = f"{self.place}: {error}"
            if not self._falls_back or "locked" in problem:
                raise StoreUnavailableError(problem) from error
            record_problem(
                "state",
                f"{problem}: estimates are kept in the memory of this process, and end with it",
                about=self.place,
            )
            return self._connect_to(":memory:")

    def _connect_to(self, place: str) -> sqlite3.Connection:
        db = sqlite3.connect(place, isolation_level=None, timeout=BUSY_S, check_same_thread=False)
        try:
            self._begin(db)
        except BaseException:  # also an interrupt: no connection may stay open behind it
            db.close()
            raise
        return db

    def _check_file(self) -> None:
        kind = file_system_of(Path(self.place))
        if kind in NETWORK_FILE_SYSTEMS:
            raise StoreUnavailableError(
                f"it is on a network file system ({kind}), where SQLite loses data; "
                "name a local file, or a Redis server"
            )
        Path(self.place).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.exists(self.place):  # noqa: PTH110 - texts of answers may stand in it
            os.close(os.open(self.place, os.O_CREAT | os.O_RDWR, 0o600))
        owner, own = Path(self.place).stat().st_uid, getattr(os, "geteuid", int)()  # 0 on Windows
        # Some volumes show every file as one user's, who is then the folder's, too.
        trusted = (0, own, Path(self.place).parent.stat().st_uid)
        may_write = os.access(self.place, os.R_OK | os.W_OK)
        if owner not in trusted or (owner != own and not may_write):
            raise StoreUnavailableError(
                f"it belongs to another user ({owner}); run this as that user, or give the file to "
                f"the one that this runs as (chown {own})"
            )

    def _begin(self, db: sqlite3.Connection) -> None:
        """Make the tables; a file that is not ours, or a later release's, is left as it is."""
        # First whether there are tables: another process may be about to make them, with the rest.
        is_empty = db.execute("SELECT 1 FROM sqlite_master").fetchone() is None
        names = ("application_id", "user_version")
        application, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        if application != APPLICATION_ID and not is_empty:
            raise StoreUnavailableError("it is a database of something else")
        if version > SCHEMA:
            raise StoreUnavailableError("it is of a later release of ragmonitor")
        db.create_function("vector_sum", 2, _vector_sum, deterministic=True)
        _retried(lambda: db.execute("PRAGMA journal_mode = WAL"))
        db.execute("PRAGMA synchronous = NORMAL")
        _retried(lambda: db.executescript(_SCHEMA))

    def close(self) -> None:
        with self._lock:
            if self._db is not None and os.getpid() == self._pid:
                self._db.close()
                self._db = None

    # --- what is kept ---------------------------------------------------------------------------

    def peek(self, keys: Sequence[Key] = ()) -> tuple[float, list[bytes | None]]:
        query = "SELECT row FROM rows WHERE service = ? AND kind = ? AND key = ?"
        found = [self._ask(query, *key) for key in keys]
        return self._clock(), [rows[0][0] if rows else None for rows in found]

    def change(self, change: Change) -> bool:
        with self._transaction():
            if self.peek([*change.expected])[1] != [*change.expected.values()]:
                return False
            for source, target in change.moves:
                self._add(target, self.read(source))
            for name in (*(source for source, _ in change.moves), *change.drops):
                self._ask("DELETE FROM sums WHERE service = ? AND name = ?", name)
            for name, rows in change.increments.items():
                self._add(name, rows)
            now_s = self._clock()
            for (kind, key), row in change.rows.items():
                if row is None:
                    delete = "DELETE FROM rows WHERE service = ? AND kind = ? AND key = ?"
                    self._ask(delete, kind, key)
                else:
                    self._ask(_WRITE, kind, key, row, int(now_s * 1e6))
            # Once for a kind: it goes through as many as may stay.
            for kind in {kind for kind, _ in change.rows if kind != RECORD}:
                self._ask(_FORGET_OLDEST, kind, change.most)
            if not 0 <= now_s - self._swept_s < SWEEP_EACH_S:  # it reads the whole table
                self._swept_s = now_s
                ends = (int((now_s - age_s) * 1e6) for age_s in (SETTLED_S, DAY_S))
                self._ask(_FORGET_RECORDS, *ends)
        return True

    def _add(self, name: str, rows: Mapping[str, Sequence[float]]) -> None:
        with self._opened() as db:
            values = [(self._service, name, field, packed(row)) for field, row in rows.items()]
            db.executemany(_ADD, values)

    def names(self, kind: str) -> list[int]:
        found = [name for (name,) in self._ask(_NAMES, kind, f"{kind}~")]
        return sorted(int(name[1:]) for name in found if name[1:].isdigit())

    def read(self, name: str) -> Rows:
        rows = self._ask("SELECT field, row FROM sums WHERE service = ? AND name = ?", name)
        return {field: unpacked(row) for field, row in rows}

    def rows(self, kind: str) -> dict[str, bytes]:
        query = "SELECT key, row FROM rows WHERE service = ? AND kind = ? ORDER BY written"
        return dict(self._ask(query, kind))


class Memory(Sqlite):
    """Sums of one process, in memory. A forked child begins with nothing: its parent goes on."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Begin empty.

        Args:
            clock: Seconds since the epoch.
        """
        super().__init__(":memory:", "", clock=clock)

    def _check_file(self) -> None:
        """Find nothing wrong: there is no file."""

    def close(self) -> None:
        """Keep everything: there is nothing to let go of."""


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
    above = {str(each) for each in (path.resolve(), *path.resolve().parents)}
    found = [(len(p), k) for _, p, k, *_ in (line.split(" ") for line in lines) if p in above]
    # Of equal ones the last mount hides the others.
    return max(reversed(found), key=lambda each: each[0], default=(0, ""))[1]


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
    return packed([*map(add, unpacked(a), unpacked(b))])
