"""One monitor's connection to its helper process, and the requests that it sends there."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from typing import Any

from opentelemetry import context

from ragmonitor.back_half.helper_process import HelperProcess
from ragmonitor.back_half.link import Link, LinkError
from ragmonitor.back_half.local import LocalBackHalf
from ragmonitor.back_half.setup import Setup
from ragmonitor.records import Interaction, Report, Status


class HelperConnection:
    """A monitor's connection to the helper process."""

    def __init__(
        self,
        process: HelperProcess,
        setup: Setup,
        handlers: dict[str, Callable[..., object]],
        emit: Callable[[Interaction, Sequence[Report]], object],
    ) -> None:
        """Begin it. Raises `OSError`.

        Args:
            process: The helper, which is started if need be.
            setup: What it works with.
            handlers: Of its messages and requests.
            emit: Emits a trace here, and returns its root's reference.
        """
        self._process = process
        connection, self.pid = process.connect()
        self.is_ready = threading.Event()
        """Set once it works, or is gone."""
        self.failure = ""
        """Why it cannot work."""
        self.is_gone = False
        self.sent = self.taken = 0
        """Records sent to it, and taken by its worker: the first of them, in their order."""
        self.open: dict[int, tuple[str, Status]] = {}
        """Framework and status of the records of which something is owed, by number from 1."""
        self.has_provider: bool | None = None
        """Whether it knows that the application has a tracer provider."""
        own: dict[str, Callable[..., object]] = {
            "ready": self.is_ready.set,
            "failed": self._failed,
            "progress": self._progress,
            "emit": self._emit,
        }
        self._emit_trace = emit
        self.link = Link(connection, own | handlers, apart=frozenset({"flush_exporter"}))
        try:
            connection.send_bytes(pickle.dumps(setup))
        except BaseException:  # raised again: the connection counts as one of the process's
            self.end(0.0)
            raise

    def serve(self, gone: Callable[[], None]) -> None:
        """Read what it sends, until it is gone."""
        context.attach(context.set_value("suppress_instrumentation", True))
        self.link.serve()
        self.is_gone = True
        self.is_ready.set()
        gone()

    def _failed(self, why: str) -> None:
        self.failure = why
        self.is_ready.set()

    def _progress(self, taken: int, closed: Iterable[int]) -> None:
        self.taken = max(self.taken, taken)  # two threads there may tell of it at once
        for number in closed:
            self.open.pop(number, None)

    def _emit(self, record: Interaction, reports: Sequence[Report]) -> object:
        """Emit a record; the reports come without it."""
        return self._emit_trace(record, [replace(each, interaction=record) for each in reports])

    def end(self, within_s: float) -> int | None:
        """Close the connection, and the process with its last; return its exit status."""
        self.link.close()
        return self._process.leave(self.pid, within_s)

    def kill(self) -> None:
        """End a process that does not answer."""
        self._process.kill(self.pid)

    def forget(self) -> None:
        """Close a forked child's copy of the connection."""
        self.link.forget()


class HelperRequest:
    """A request that waits until everything before it was sent."""

    def __init__(self, name: str, args: tuple[object, ...], *, deadline: float) -> None:
        self.future: Future[Any] = Future()
        self.name, self.deadline = name, deadline
        self._args = args
        self._is_refused = threading.Lock()

    def refuse(self, local: LocalBackHalf | None) -> None:
        """Have it fail, if it has not yet: nobody sends it; what works here is told events."""
        if local is not None and self.name in ("event", "feedback"):
            if self._is_refused.acquire(blocking=False):
                self.future.set_result(getattr(local, self.name)(*self._args))
            return
        with suppress(InvalidStateError):
            self.future.set_exception(LinkError("there is no helper process"))

    def send(self, link: Link) -> None:
        """Send it, unless it is too late."""
        if time.monotonic() > self.deadline:
            self.future.set_exception(LinkError("too late"))
            return
        try:
            asked = link.request(self.name, *self._args)
        except LinkError as error:
            self.future.set_exception(error)
            raise
        asked.add_done_callback(self._answer)

    def _answer(self, asked: Future[Any]) -> None:
        error = asked.exception()
        if error is None:
            self.future.set_result(asked.result())
        else:
            self.future.set_exception(error)
