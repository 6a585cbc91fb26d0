"""States in a folder: a small file for each, which processes replace in turn."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import stat
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from ragmonitor.forks import survive_forks
from ragmonitor.guard import record_problem
from ragmonitor.state.kept_state import MAX_SIZE_BYTES, State, StateLockedError

try:
    import fcntl
except ImportError:  # not a POSIX system: a file then serves one process
    fcntl = None  # type: ignore[assignment]

LOCK_WAIT_S: Final = 1.0
"""The time to wait for the lock; a state is read and written in milliseconds."""
LOCK_PAUSE_S: Final = 0.001
PATIENCE_S: Final = 0.1
"""A process that has waited for so long is next: nobody else takes the lock before."""
LOCKED_OUT_S: Final = 60.0
"""After a wait in vain the lock is only tried, not waited for, for so long."""
DRAFT_AGE_S: Final = 60.0
"""A draft that is older belongs to nobody any more."""
_STAGE: Final = "state"
_OURS: Final = 0o600
_AT_ONCE: Final = getattr(os, "O_NONBLOCK", 0)
"""A pipe in the file's place would keep us waiting for a writer."""
_FLAGS: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class _HeldLocks:
    """The descriptors of the locks that this process holds."""

    def __init__(self) -> None:
        self.descriptors: set[int] = set()

    def after_fork_in_child(self) -> None:
        """Close the copies of the parent's locks, which would hold them beyond its end."""
        while self.descriptors:
            with contextlib.suppress(OSError):
                os.close(self.descriptors.pop())


_held_locks = _HeldLocks()
survive_forks(_held_locks)


class StateFile(State):
    """A JSON object on disk, shared by the processes that name the same path."""

    def __init__(self, path: Path, *, version: int) -> None:
        """Touch nothing yet.

        Args:
            path: Of the file; its folder is made when needed.
            version: Of the state's shape; a file of another version is unreadable.
        """
        self.path = path
        self.version = version
        self._locked_out_until = 0.0
        self._is_swept = False

    @classmethod
    def of_service(cls, folder: Path, what: str, service: str, *, version: int) -> StateFile:
        """Return the file for `what` of this service in the folder."""
        # Two names may look alike once their signs are gone; and a file's has an end.
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", service)[:80]
        digest = hashlib.blake2b(service.encode(), digest_size=4).hexdigest()
        return cls(folder / f"{what}-{name}-{digest}.json", version=version)

    @property
    def name(self) -> str:
        """The file's path."""
        return str(self.path)

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.path.parent)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of the file beside it; the folder is made if there is none."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if fcntl is None:
            self._sweep()
            yield
            return
        with self._opened("lock") as lock:
            with self._opened("turn") as turn:
                self._acquire(lock, turn)
            self._sweep()
            yield

    @contextlib.contextmanager
    def _opened(self, kind: str) -> Iterator[int]:
        """Open a file beside it, which is unlocked in the end."""
        assert fcntl is not None  # noqa: S101 - for the type; who calls has looked
        path = self.path.with_name(f"{self.path.name}.{kind}")
        lock, pid = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, _OURS), os.getpid()
        _held_locks.descriptors.add(lock)
        try:
            with contextlib.suppress(OSError):  # somebody else's
                os.fchmod(lock, _OURS)
            yield lock
        finally:
            # In a forked child that is another file by now.
            if os.getpid() == pid:
                _held_locks.descriptors.discard(lock)
                # Not by closing alone: a child of another thread's fork may have a copy of it.
                with contextlib.suppress(OSError):
                    fcntl.flock(lock, fcntl.LOCK_UN)
                os.close(lock)

    def _acquire(self, lock: int, turn: int) -> None:
        """Lock both: the turn for a moment, or, after a while, until it is this one's."""
        assert fcntl is not None  # noqa: S101 - for the type; who calls has looked
        began, waited_s = time.monotonic(), 0.0
        wait_s = LOCK_WAIT_S if began >= self._locked_out_until else 0.0
        while True:
            is_next = waited_s >= PATIENCE_S
            try:
                # Else who lets go of the lock and comes again would always be before who waits.
                fcntl.flock(turn, (fcntl.LOCK_EX if is_next else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited_s = time.monotonic() - began
                if waited_s >= wait_s:
                    break
                if not is_next:
                    fcntl.flock(turn, fcntl.LOCK_UN)
                time.sleep(LOCK_PAUSE_S)
            else:
                self._locked_out_until = 0.0
                return
        if wait_s:
            self._locked_out_until = time.monotonic() + LOCKED_OUT_S
            record_problem(
                _STAGE,
                f"another process keeps the lock of {self.path} to itself; until it lets go, this "
                "process goes on alone, and spends nothing of a budget that is kept there. Give "
                "each service, and each user, a state folder of its own",
            )
        raise StateLockedError(errno.EAGAIN, "another process keeps its lock", self.name)

    def read(self) -> dict[str, Any] | None:
        """Return what the file holds; one that cannot be understood is renamed."""
        try:
            file = os.open(self.path, os.O_RDONLY | _AT_ONCE | _FLAGS)
        except FileNotFoundError:
            return None
        status, content = os.fstat(file), None
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_SIZE_BYTES:
            with os.fdopen(file, "rb") as opened:
                content = opened.read(MAX_SIZE_BYTES)
        else:
            os.close(file)
        try:
            if content is None:
                raise ValueError(f"it is no file, or larger than {MAX_SIZE_BYTES} bytes")
            return self._understood(content)
        except ValueError as error:
            moved = self.set_aside(str(error), inode=status.st_ino)
            raise ValueError(f"{self.path}: {error}{moved}") from None

    def set_aside(self, why: str, *, inode: int | None = None) -> str:
        """Rename what cannot be understood, count it, and say so once; nothing is raised.

        Args:
            why: What is wrong with it.
            inode: Of the file that was read; another one, which was written meanwhile, stays.

        Returns:
            Where it is now, as an end of a sentence; empty: it is where it was.
        """
        bad = self.path.with_name(f"{self.path.name}.bad")
        try:
            if inode is not None and os.lstat(self.path).st_ino != inode:
                return ""
            if self.path.is_dir() != bad.is_dir() and bad.exists():
                bad = bad.with_name(f"{bad.name}.{os.urandom(3).hex()}")
            self.path.rename(bad)
        except OSError:
            record_problem(_STAGE, f"{self.path} cannot be understood: {why}; remove it")
            return ""
        moved = f"; it is kept as {bad.name}"
        record_problem(_STAGE, f"{self.path} cannot be understood: {why}{moved}; it begins anew")
        return moved

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the file by another one."""
        content = self._content(state)
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        draft.unlink(missing_ok=True)  # of one who died, and had these numbers
        try:
            with os.fdopen(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, _OURS), "wb"
            ) as file:
                file.write(content)
            draft.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)

    def mark(self) -> Hashable:
        """Return which file it is, of what time and size."""
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def part(self, name: str) -> Self:
        """Return a file in a folder beside this one."""
        return type(self)(self.path.with_suffix("") / f"{name}.json", version=self.version)

    def _sweep(self) -> None:
        """Remove drafts of processes that died while they wrote."""
        if self._is_swept:
            return
        self._is_swept = True
        name, before = glob.escape(self.path.name), time.time() - DRAFT_AGE_S
        # What belongs to it has a folder beside it.
        for folder, pattern in (
            (self.path.parent, f"{name}.*.tmp"),
            (self.path.with_suffix(""), "*.json.*.tmp"),
        ):
            with contextlib.suppress(OSError):
                for draft in folder.glob(pattern):
                    if draft.stat().st_mtime < before:
                        draft.unlink(missing_ok=True)
