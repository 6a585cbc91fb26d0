"""The helper process: the same back half as on a thread, fed by its application."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ragmonitor import imports
from ragmonitor.apart import EXECUTOR
from ragmonitor.back_half.link import Link, LinkError
from ragmonitor.back_half.process_identity import ProcessIdentity, peer_of
from ragmonitor.back_half.served_monitors import (
    LAST_S,
    MonitorConnection,
    ServedBackHalf,
    begin_count,
    forget_errors,
    waiting_logs,
)
from ragmonitor.back_half.setup import Setup
from ragmonitor.back_half.shared_helper import keep_fresh, remove
from ragmonitor.errors import RagMonitorError
from ragmonitor.guard import contained
from ragmonitor.wiring import restrict_logs

LOOK_S = 0.5
"""Pause between two looks at whether the applications live."""
GC_THRESHOLD = 10_000
"""Objects between two collections, which nobody waits for here: some 2 to 4 % of an answer's CPU
goes to them at the interpreter's own 700."""


class _LogHandler(logging.Handler):
    """Keeps what is logged here for the application's logger."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line with its traceback."""
        waiting_logs.append((record.levelno, self.format(record)))


def main(connections: Connection) -> None:
    """Be the helper process of one application's process, from its start to its end.

    Args:
        connections: Connections of monitors come this way; the process ends with it.
    """
    _begin()
    sessions: list[threading.Thread] = []
    control = socket.socket(fileno=connections.fileno())
    try:
        while True:
            taken, descriptors, *_ = socket.recv_fds(control, 1, 1)
            if not taken:
                break
            session = threading.Thread(
                target=_session,
                args=(Connection(descriptors[0]), partial(ServedBackHalf, is_shared=False)),
                daemon=True,
            )
            session.start()
            sessions = [each for each in sessions if each.is_alive()] + [session]
    finally:
        # The application is gone, or has closed its last monitor.
        until = time.monotonic() + LAST_S + 1.0
        for each in sessions:
            each.join(max(0.0, until - time.monotonic()))
        os._exit(0)  # threads of client libraries must not keep it


def main_of_all(
    lock: int, listener: int, folder: str, parent: tuple[int, int], grace_s: float
) -> None:
    """Be the helper process of all workers of an application, from its start to its end.

    Args:
        lock: Held for as long as this process lives: no other is started meanwhile.
        listener: Connections of monitors come this way.
        folder: Where the lock and the socket are; it is removed at the end.
        parent: The process that started the workers, as the fields of `ProcessIdentity`.
        grace_s: Without a connection it ends after so long, or once `parent` has ended.
    """
    _begin()
    try:
        with socket.socket(fileno=listener) as listening:
            os.set_inheritable(lock, False)
            listening.set_inheritable(False)
            look = partial(keep_fresh, Path(folder), lock)
            _serve_all(listening, ProcessIdentity(*parent), grace_s, look)
    finally:
        remove(Path(folder), lock)
        os.close(lock)
        os._exit(0)


def _serve_all(
    listening: socket.socket, parent: ProcessIdentity, grace_s: float, look: Callable[[], None]
) -> None:
    """Serve workers until none is left."""
    common = _Common(grace_s)
    listening.settimeout(LOOK_S)
    last_s = time.monotonic()
    while True:
        with contained("worker"):
            _accept(listening, common)
        look()
        if common.lives():
            last_s = time.monotonic()
        elif time.monotonic() - last_s > grace_s or not parent.runs:
            break
    common.close()


def _accept(listening: socket.socket, common: _Common) -> None:
    """Serve a monitor that comes within `LOOK_S`, if one does."""
    try:
        accepted, _ = listening.accept()
    except TimeoutError:
        return
    except OSError:
        time.sleep(LOOK_S)  # too many descriptors, for now
        raise
    common.accept(accepted)


class _Common:
    """Holds what all workers share: a back half for each of their monitors, and their sessions."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._works: dict[str, ServedBackHalf] = {}
        """Back halves by the hash of their settings."""
        self._building = threading.Lock()
        self._sessions: list[_Session] = []

    def accept(self, accepted: socket.socket) -> None:
        """Serve one more monitor, unless it is another user's."""
        accepted.settimeout(None)
        pid, user = peer_of(accepted)
        worker = ProcessIdentity.of(pid)
        with accepted:
            if worker is not None and user == os.geteuid():
                self._sessions.append(_Session(accepted.dup(), worker, self._of_all))

    def _of_all(self, setup: Setup) -> ServedBackHalf:
        """Return what monitors with these settings share. Raises `RagMonitorError`."""
        with self._building:
            work = self._works.get(setup.key)
            if work is None:
                work = self._works[setup.key] = ServedBackHalf(setup, is_shared=True)
            work.used_s = time.monotonic()
            return work

    def lives(self) -> bool:
        """Return whether anybody is served; end what belongs to nobody any more."""
        living = [each for each in self._sessions if each.lives()]
        if len(living) < len(self._sessions):
            forget_errors({each.worker.pid for each in living})
        self._sessions = living
        with self._building:
            unused = [key for key, work in self._works.items() if work.is_unused(self._grace_s)]
            ended = [self._works.pop(key) for key in unused] if living else []
        for work in ended:
            EXECUTOR.submit(work.back.close, LAST_S)
        return bool(living)

    def close(self) -> None:
        """Score what is left, as far as the time suffices, and end."""
        works = tuple(self._works.values())
        closing = [EXECUTOR.submit(each.back.close, LAST_S) for each in works]
        wait(closing, LAST_S)
        until = time.monotonic() + LAST_S
        for each in works:
            each.back.worker.has_closed.wait(max(0.0, until - time.monotonic()))


class _Session:
    """One monitor of a worker, and the thread that serves it."""

    def __init__(
        self,
        accepted: socket.socket,
        worker: ProcessIdentity,
        work_of: Callable[[Setup], ServedBackHalf],
    ) -> None:
        self.worker = worker
        self._held = accepted
        connection = Connection(os.dup(accepted.fileno()))
        with suppress(OSError):
            connection.send_bytes(str(os.getpid()).encode())
        self._thread = threading.Thread(target=_session, args=(connection, work_of), daemon=True)
        self._thread.start()

    def lives(self) -> bool:
        """Return whether it is served; end it if the worker has ended."""
        if not self._thread.is_alive():
            self._held.close()
            return False
        if not self.worker.runs:
            # Another process may have a copy of its end, which would never be seen.
            with suppress(OSError):
                self._held.shutdown(socket.SHUT_RDWR)
        return True


def _begin() -> None:
    """Set up the process."""
    gc.freeze()  # modules are no garbage
    gc.set_threshold(GC_THRESHOLD)
    # A terminal's Ctrl-C and a service manager's SIGTERM go to whole groups of processes; the
    # application may want its last answers scored. This process ends when its connections do.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    logger = logging.getLogger("ragmonitor")
    logger.propagate = False
    logger.addHandler(_LogHandler())


def _session(connection: Connection, work_of: Callable[[Setup], ServedBackHalf]) -> None:
    """Serve one monitor, until its connection ends."""
    with suppress(EOFError, OSError, LinkError):
        setup: Setup = pickle.loads(connection.recv_bytes())  # noqa: S301 - our application's
        restrict_logs(setup.settings)
        begin_count(setup.host, setup.errors)
        _take_over(setup.litellm)
        try:
            session = MonitorConnection(connection, setup, work_of(setup))
        except RagMonitorError as error:
            Link(connection, {}).send("failed", str(error))
            return
        session.serve()


def _take_over(settings: Mapping[str, object]) -> None:
    """Set up litellm as in the application, when it is imported."""

    def apply(module: Any) -> None:
        for name, value in settings.items():
            if getattr(module, name, None) != value:
                setattr(module, name, value)

    if settings:
        imports.after("litellm", apply)
