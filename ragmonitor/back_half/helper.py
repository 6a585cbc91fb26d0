"""The helper process: the same back half as on a thread, fed by its application."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from ragmonitor import imports
from ragmonitor.back_half.link import Link, LinkError
from ragmonitor.back_half.served_monitor import LAST_S, ServedMonitor, waiting_logs
from ragmonitor.back_half.setup import Setup
from ragmonitor.errors import RagMonitorError
from ragmonitor.wiring import restrict_logs


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
                args=(Connection(descriptors[0]),),
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


def _begin() -> None:
    """Set up the process."""
    # A terminal's Ctrl-C and a service manager's SIGTERM go to whole groups of processes; the
    # application may want its last answers scored. This process ends when its connections do.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    logger = logging.getLogger("ragmonitor")
    logger.propagate = False
    logger.addHandler(_LogHandler())


def _session(connection: Connection) -> None:
    """Serve one monitor, until its connection ends."""
    with suppress(EOFError, OSError, LinkError):
        setup: Setup = pickle.loads(connection.recv_bytes())  # noqa: S301 - our application's
        restrict_logs(setup.settings)
        _take_over(setup.litellm)
        try:
            monitor = ServedMonitor(connection, setup)
        except RagMonitorError as error:
            Link(connection, {}).send("failed", str(error))
            return
        monitor.serve()


def _take_over(settings: Mapping[str, object]) -> None:
    """Set up litellm as in the application, when it is imported."""

    def apply(module: Any) -> None:
        for name, value in settings.items():
            if getattr(module, name, None) != value:
                setattr(module, name, value)

    if settings:
        imports.after("litellm", apply)
