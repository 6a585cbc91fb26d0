"""One helper process for all workers of a pre-fork server: found by a folder, over a Unix socket.

The folder is private to the user, and named by the process that started the workers and by a hash
of what a process finds at its start: workers that would start another helper do not share one.
Whoever holds the lock in it is the helper, or starts it; the kernel releases it at its death.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, SecretBytes, SecretStr

from ragmonitor.back_half.helper_process import NICENESS
from ragmonitor.back_half.process_identity import ProcessIdentity, leader, peer_of
from ragmonitor.export.content import package_version
from ragmonitor.forks import survive_forks, without_forks
from ragmonitor.guard import shielded

LOCK: Final = "lock"
SOCKET: Final = "socket"
GRACE_S = 30.0
"""The time for which a helper waits for another worker once the last is gone, while their parent
lives: all may be replaced at once, and take seconds to start."""
ANSWER_S: Final = 60.0
"""A helper that does not answer by then is given up."""
BACKLOG: Final = 128
MAX_PATH_BYTES: Final = 107
"""The length of a Unix socket's name; the system's own limit."""
FRESH_S: Final = 3_600.0
"""Programs that tidy up folders for temporary files remove what is some days old."""
_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say that this process has no room, for now."""
_LOOK_S = 0.05

# As in `helper_process`; the first process ends at once, so that the helper is nobody's child: no
# worker has to wait for it, and none is told of its end.
_BOOTSTRAP: Final = """
import contextlib, os, pickle, sys
if os.fork():
    os._exit(0)
with contextlib.suppress(OSError):
    os.nice({niceness})
sys.path[:], told = pickle.load(sys.stdin.buffer)
from ragmonitor.back_half.helper import main_of_all
main_of_all({lock}, {listener}, *told)
"""


class UnsharableError(OSError):
    """There can be no common helper here, now or later."""


class SharedHelper:
    """The way to the helper of all workers with the same settings, which is started if need be."""

    def __init__(self, settings: BaseModel, more: object) -> None:
        """Look for nothing yet.

        Args:
            settings: Of the monitor, with their secrets.
            more: What else is to be equal where monitors are counted as one.
        """
        self.key = _hash((settings, more))
        """The hash of the settings."""
        environment = dict(os.environ)
        path, folder = tuple(sys.path), ""
        with suppress(FileNotFoundError):  # an older release's, which was removed
            folder = os.fspath(Path.cwd())
        self._place = _hash((package_version(), sys.executable, path, folder, environment))
        self._lock = threading.Lock()
        self._leader: ProcessIdentity | None = None
        self._held: tuple[int, ...] = ()
        """Descriptors that a child that is forked now would have copies of."""
        survive_forks(self)

    def connect(self, is_given_up: Callable[[], bool]) -> tuple[Connection, int]:
        """Return a connection to the helper, and its process id.

        Args:
            is_given_up: Asked now and then; whether nobody wants the connection any more.

        Raises:
            UnsharableError: There can be none.
            OSError: There is none.
        """
        until = time.monotonic() + ANSWER_S
        while not is_given_up() and time.monotonic() < until:
            with suppress(FileNotFoundError):  # the one before has just taken its folder away
                folder, parent = self._folder()
                is_ours = self._start_if_none(folder, parent)
                reached = self._reach(folder / SOCKET, is_given_up, until)
                if reached is not None:
                    return reached
                if is_ours:
                    raise OSError("the helper process of all workers ended before it worked")
            time.sleep(_LOOK_S)
        raise OSError("the helper process of all workers does not answer")

    def _folder(self) -> tuple[Path, ProcessIdentity]:
        """Return the folder that all look into. Raises `UnsharableError`, `FileNotFoundError`."""
        # A child that is forked later looks where its parent did.
        self._leader = parent = self._leader or leader()
        if parent is None:
            raise UnsharableError("/proc does not say who started this process")
        with _or_unsharable():
            users = Path(tempfile.gettempdir()) / f"ragmonitor-helpers-{os.geteuid()}"
            _make_private(users)
        folder = users / f"{parent.pid}-{parent.started}-{self._place}"
        if len(os.fsencode(folder / SOCKET)) > MAX_PATH_BYTES:
            raise UnsharableError("the folder for temporary files has too long a name for a socket")
        with _or_unsharable(FileNotFoundError):
            _make_private(folder)
        return folder, parent

    def _start_if_none(self, folder: Path, parent: ProcessIdentity) -> bool:
        """Start a helper, unless one lives or is being started.

        Raises:
            UnsharableError: There is no place for its files.
            FileNotFoundError: The folder is gone.
            OSError: It cannot be started.

        Returns:
            Whether one was started.
        """
        with self._lock:
            try:
                with without_forks():
                    with _or_unsharable(FileNotFoundError):
                        lock = _locked(folder / LOCK)
                    if lock is None:
                        return False
                    try:
                        with socket.socket(socket.AF_UNIX) as listener:
                            self._held = lock, listener.fileno()
                            with _or_unsharable(FileNotFoundError):
                                (folder / SOCKET).unlink(missing_ok=True)
                                listener.bind(os.fspath(folder / SOCKET))
                            listener.listen(BACKLOG)
                            process = _launched(lock, listener.fileno(), folder, parent)
                    finally:
                        os.close(lock)
            finally:
                self._held = ()
            process.wait()  # which ends at once: see `_BOOTSTRAP`
        with shielded("worker"):
            remove_stale(folder.parent)
        return True

    def _reach(
        self, name: Path, is_given_up: Callable[[], bool], until: float
    ) -> tuple[Connection, int] | None:
        """Return a connection that was accepted; None: nobody listens, or has just ended."""
        one = socket.socket(socket.AF_UNIX)
        try:
            one.settimeout(1.0)
            one.connect(os.fspath(name))
            one.settimeout(None)
            if peer_of(one)[1] != os.geteuid():
                raise UnsharableError("another user listens in the folder for temporary files")
        except (ConnectionError, TimeoutError, BlockingIOError):
            one.close()
            return None
        except BaseException:  # raised on; only the descriptor must not be left open
            one.close()
            raise
        connection = Connection(one.detach())
        try:
            while not is_given_up() and time.monotonic() < until:
                if connection.poll(_LOOK_S):
                    pid = int(connection.recv_bytes(32))
                    reached, connection = connection, None  # type: ignore[assignment]
                    return reached, pid
        except (EOFError, ConnectionError, ValueError):
            pass
        finally:
            if connection is not None:
                connection.close()
        return None

    def leave(self, pid: int, within_s: float) -> int | None:  # noqa: ARG002 - as `HelperProcess`
        """Do nothing: it sees the end of the connection, and ends when it has no other."""
        return None

    def kill(self, pid: int) -> None:
        """Do nothing: others may be served by it."""

    def after_fork_in_child(self) -> None:
        """Close what is about to be the helper's, and begin anew."""
        self._lock = threading.Lock()
        held, self._held = self._held, ()
        for each in held:
            with suppress(OSError):
                os.close(each)


def _launched(
    lock: int, listener: int, folder: Path, parent: ProcessIdentity
) -> subprocess.Popen[bytes]:
    """Start the process; it has read its standard input when this returns, or is gone."""
    script = _BOOTSTRAP.format(niceness=NICENESS, lock=lock, listener=listener)
    try:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-I", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock, listener),
        )
    except FileNotFoundError as error:  # which here is no folder that was taken away
        raise OSError(f"the interpreter is gone: {error}") from error
    # Nothing that is imported while it is read: the path that it is imported from comes with it.
    arguments = pickle.dumps((sys.path, (os.fspath(folder), (parent.pid, parent.started), GRACE_S)))
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    with suppress(OSError), process.stdin as pipe:
        pipe.write(arguments)
    return process


def _locked(file: Path) -> int | None:
    """Return the lock as a descriptor; None: another process has it."""
    import fcntl  # which Windows has not

    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held it before may have removed it meanwhile.
        if os.path.samestat(os.fstat(lock), file.lstat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:  # raised on; a lock that is left open would be held for good
        os.close(lock)
        raise
    os.close(lock)
    return None


@contextmanager
def _or_unsharable(*others: type[OSError]) -> Iterator[None]:
    """Have a file system that does not allow it mean that no helper is shared here."""
    try:
        yield
    except others:
        raise
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
        raise UnsharableError(f"there is no private folder for a socket: {error}") from error


def _make_private(folder: Path) -> None:
    """Make a folder if there is none; raise `OSError` unless it is this user's alone."""
    folder.mkdir(0o700, exist_ok=True)
    status = folder.lstat()
    is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    if not stat.S_ISDIR(status.st_mode) or not is_private:
        raise PermissionError(f"{folder} is not private to this user")


def remove_stale(users: Path) -> None:
    """Remove the folders of applications and helpers that have ended without a word."""
    for folder in users.iterdir():
        pid, _, started = folder.name.partition("-")
        started = started.partition("-")[0]
        if not (pid.isdigit() and started.isdigit()):
            continue
        if not ProcessIdentity(int(pid), int(started)).runs:
            with suppress(OSError):
                lock = _locked(folder / LOCK)
                if lock is not None:
                    try:
                        remove(folder, lock)
                    finally:
                        os.close(lock)


def remove(folder: Path, lock: int) -> None:
    """Remove a folder whose lock is held, and goes last; not that of another process."""
    with suppress(OSError):
        if os.path.samestat(os.fstat(lock), (folder / LOCK).lstat()):
            (folder / SOCKET).unlink(missing_ok=True)
            (folder / LOCK).unlink()
            folder.rmdir()


def keep_fresh(folder: Path, lock: int) -> None:
    """Give what a helper needs the time of now if it is old: whoever tidies up looks at that."""
    with suppress(OSError):
        if abs(time.time() - os.fstat(lock).st_mtime) > FRESH_S:
            for each in (lock, folder / SOCKET, folder, folder.parent):
                os.utime(each)


def _hash(parts: object) -> str:
    """Return a hash that is the same in each process."""
    return hashlib.sha256(repr(_plain(parts)).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Return it as texts, numbers and lists, the same in each process."""
    if isinstance(value, SecretStr | SecretBytes):
        return value.get_secret_value()
    if isinstance(value, BaseModel):
        return [type(value).__name__, _plain(dict(value))]
    if isinstance(value, Mapping):
        return sorted(((str(key), _plain(each)) for key, each in value.items()), key=repr)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(each) for each in value), key=repr)
    return value
