"""Keeps what outlives a process: one small file for each state, which processes replace in turn."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import math
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ragmonitor.forks import survive_forks
from ragmonitor.guard import record_problem, record_unkept

try:
    import fcntl
except ImportError:  # not a POSIX system: a file then serves one process
    fcntl = None  # type: ignore[assignment]

MAX_SIZE_BYTES: Final = 64 * 2**20
"""Bytes of a state; what is larger is none of ours."""
LOCK_WAIT_S: Final = 1.0
"""How long to wait for the lock; a state is read and written in milliseconds."""
LOCK_PAUSE_S: Final = 0.001
LOCKED_OUT_S: Final = 60.0
"""After a wait in vain the lock is only tried, not waited for, for so long."""
DRAFT_AGE_S: Final = 60.0
"""A draft that is older belongs to nobody any more."""
_MAX_DIGITS: Final = 21
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


class StateLockedError(OSError):
    """Another process keeps the lock of a state to itself."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EAGAIN, "another process keeps its lock", str(path))


class StateFile:
    """A JSON object on disk, shared by the processes that name the same path.

    A process that holds `alone()` reads, changes and writes it while no other one does. If it dies
    meanwhile, the old state stands.
    """

    def __init__(self, path: Path, *, version: int) -> None:
        """Touch nothing yet.

        Args:
            path: Of the file; its folder is made when needed.
            version: Of the state's shape; a file of another version is unreadable.
        """
        self.path = path
        self._version = version
        self._locked_out_until = 0.0
        self._is_swept = False

    @classmethod
    def of_service(cls, folder: Path, what: str, service: str, *, version: int) -> StateFile:
        """Return the file for `what` of this service in the folder."""
        # Two names may look alike once their signs are gone; and a file's has an end.
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", service)[:80]
        digest = hashlib.blake2b(service.encode(), digest_size=4).hexdigest()
        return cls(folder / f"{what}-{name}-{digest}.json", version=version)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes and threads from the file meanwhile.

        Raises:
            StateLockedError: They keep it to themselves for longer than `LOCK_WAIT_S`.
            OSError: The folder or the lock cannot be made.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if fcntl is None:
            self._sweep()
            yield
            return
        lock = os.open(
            self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | _FLAGS, _OURS
        )
        pid = os.getpid()
        _held_locks.descriptors.add(lock)
        try:
            self._acquire(lock)
            self._sweep()
            yield
        finally:
            # In a forked child that is another file by now.
            if os.getpid() == pid:
                _held_locks.descriptors.discard(lock)
                # Not by closing alone: a child of another thread's fork may have a copy of it.
                with contextlib.suppress(OSError):
                    fcntl.flock(lock, fcntl.LOCK_UN)
                os.close(lock)

    def update(
        self,
        change: Callable[[dict[str, Any]], Mapping[str, Any] | None],
        *,
        stage: str,
        what: str,
    ) -> bool:
        """Read the state and write another one, while nobody else does; report what fails.

        Args:
            change: Returns what is to be written instead of the state; None: nothing. The state is
                empty if there is none yet, or none that can be understood.
            stage: Where errors are counted.
            what: What is kept here, for the log.

        Returns:
            False: the disk failed, and the old state stands.
        """
        try:
            with self.alone():
                try:
                    state = self.read() or {}
                except ValueError as error:
                    record_problem(stage, f"{what} begins anew: {error}")
                    state = {}
                changed = change(state)
                if changed is not None:
                    self.write(changed)
        except OSError as error:
            record_unkept(stage, what, error)
            return False
        return True

    def _acquire(self, lock: int) -> None:
        assert fcntl is not None  # noqa: S101 - for the type; who calls has looked
        with contextlib.suppress(OSError):  # somebody else's
            os.fchmod(lock, _OURS)
        began = time.monotonic()
        wait_s = LOCK_WAIT_S if began >= self._locked_out_until else 0.0
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() - began >= wait_s:
                    break
                # Short, and no longer each time: who asks rarely would never get it from who asks
                # again and again.
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
        raise StateLockedError(self.path)

    def read(self) -> dict[str, Any] | None:
        """Return the state; None: there is none yet.

        What cannot be understood is renamed, to be looked at, so that the next one begins anew.

        Raises:
            ValueError: It cannot be read: broken, too large, or of another version.
            OSError: The file cannot be opened, or is none.
        """
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
            return self._understood(content)
        except (ValueError, RecursionError, MemoryError) as error:
            why = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
            moved = self.set_aside(why, inode=status.st_ino)
            raise ValueError(f"{self.path}: {why}{moved}") from None

    def _understood(self, content: bytes | None) -> dict[str, Any]:
        if content is None:
            raise ValueError(f"it is no file, or larger than {MAX_SIZE_BYTES} bytes")
        state = json.loads(content, parse_int=_bounded, parse_float=_finite, parse_constant=_finite)
        if not isinstance(state, dict) or state.get("version") != self._version:
            raise ValueError(f"it is not of version {self._version}")
        return state

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
        """Replace the state. Raises `OSError`; the old one then stands."""
        content = json.dumps({"version": self._version, **state}).encode()
        if len(content) > MAX_SIZE_BYTES:
            raise OSError(errno.EFBIG, f"{len(content)} bytes are no state", str(self.path))
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


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of a state")
    return number


def _bounded(text: str) -> int:
    # What is longer is none of ours: 64 bits have 20 digits. And past them a float is infinite.
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is none of a state")
    return int(text)
