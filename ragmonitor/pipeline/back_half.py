"""What works behind the request path: a bounded queue, the account of it, and one thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry

from ragmonitor.evaluators import table
from ragmonitor.export.prometheus import PrometheusExporter
from ragmonitor.pipeline.ledger import Ledger
from ragmonitor.records import AlarmState, Cause, Interaction, JudgeIdentity, Status
from ragmonitor.runtime.guard import contained
from ragmonitor.runtime.protocols import Finished
from ragmonitor.runtime.queues import MAX_BYTES, MemoryQueue
from ragmonitor.runtime.supervised import SupervisedThread
from ragmonitor.settings import Settings

LINGER_S: Final = 0.01
"""Pause between waking and working: the request that woke us finishes undisturbed."""
TICK_S: Final = 2.0
"""What changes is shown, abandoned runs are given up and a taken port is tried again this often."""
STOP_SHARE: Final = 0.25
MAX_STOP_S: Final = 1.5
"""Flushing leaves this share of the time for closing, `MAX_STOP_S` at most, to the rest of it."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What goes from process to process, as something finished: a record, feedback or an event."""

    held: Interaction | bytes | None = None
    """The record, or the bytes of what is none, to be weighed; None: both are elsewhere."""
    framework: str = "unknown"
    status: Status = "error"
    lost_as: str | None = None
    """The reason under which it is counted when it is lost; None: as an unscored answer."""
    closed: Callable[[], object] = lambda: None
    """Called when nothing more is owed for it."""

    def interaction(self) -> Interaction | None:
        """Return the record; None: it is none, or elsewhere."""
        return self.held if isinstance(self.held, Interaction) else None


class Request(NamedTuple):
    """A wait for all that was taken before."""

    name: str
    """`flush`, or `close`: it is the last."""
    deadline: float
    done: Future[bool]

    def reply(self, *, is_done: bool) -> None:
        """Say whether it was carried out; the first reply counts."""
        with suppress(InvalidStateError):
            self.done.set_result(is_done)


class BackHalf:
    """Takes what has finished from any thread, and has a thread of its own work on it."""

    metrics_url: str | None = None
    """The address at which /metrics is served; None if it is not."""
    ui_url: str | None = None
    """The address at which the page is served; None if it is not."""
    alarms: Sequence[AlarmState] = ()
    """The state of each signal's evidence, as of a few seconds ago."""

    def __init__(
        self,
        settings: Settings,
        *,
        poll: Callable[[], object],
        meters: PrometheusExporter,
        judges: Sequence[JudgeIdentity],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Start nothing yet.

        Args:
            settings: The settings.
            poll: Called now and then; gives up abandoned runs.
            meters: What is counted here.
            judges: Who scores every answer, in the order of `ledger.ROLES`.
            max_bytes: Of the texts that wait at most.
        """
        self._poll = poll
        self.meters = meters
        """The series that people scrape."""
        self.registry: CollectorRegistry = meters.registry
        """Every series, to be mounted in an application's own metrics endpoint."""
        self.queue = MemoryQueue(settings.capture.queue_size, max_bytes)
        """The queue in which finished interactions wait."""
        self.ledger = Ledger(meters, table.select(settings.evaluators), judges)
        """The accounts, and the notes of what was not taken."""
        self.step = threading.Lock()
        """Held while shared state changes; a fork waits for it."""
        self._requests: deque[Request] = deque()
        self._idle = False
        self.is_closed = False
        """Whether nothing is taken any more."""
        self._thread = SupervisedThread(self._work, failed=self._failed)

    def put(self, finished: Finished) -> None:
        """Take an interaction, or count it as refused."""
        if self.queue.put(finished):
            self.wake()
            if self.is_closed:
                self._refuse_left()  # nobody else looks into the queue any more
        else:
            self.ledger.refuse(finished, Cause.QUEUE_FULL)

    def wake(self) -> None:
        """Start the thread if there is none, or wake it if it sleeps."""
        if not self._thread.is_started:
            self._thread.start()
        elif self._idle:
            self._idle = False
            self._signal()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything taken so far is worked off; return whether it is."""
        return self._asked("flush", timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Flush and stop; what is not done by then, and what comes later, counts as `shutdown`."""
        if self.is_closed:
            return True
        deadline = time.monotonic() + timeout_s
        is_done = self._asked("close", timeout_s - min(MAX_STOP_S, STOP_SHARE * timeout_s))
        self.is_closed = True
        self._thread.close()
        self._signal()
        with contained("close"):
            self._hang_up()
        self._thread.join((deadline - time.monotonic()) / 2)
        self._refuse_left()
        while self._requests:
            self._requests.popleft().reply(is_done=False)
        with contained("close"):
            self._end(deadline)
        with contained("count"):
            self.ledger.count_notes()
        return is_done

    def _asked(self, name: str, timeout_s: float) -> bool:
        """Have a request carried out after what waits; return whether it was, in time."""
        if self.is_closed or not (self._thread.is_started or len(self.queue)):
            return True
        request = Request(name, time.monotonic() + timeout_s, Future())
        self._requests.append(request)
        self.wake()
        with suppress(TimeoutError):
            return request.done.result(timeout_s)
        return False

    def _refuse_left(self) -> None:
        while (left := self.queue.take()) is not None:
            self.ledger.refuse(left, Cause.SHUTDOWN)

    def forget(self) -> None:
        """Let go of the parent's sockets, in a forked child that begins anew."""
        self.is_closed = True
        self.meters.forget()

    def _signal(self) -> None:
        """Wake the thread, which sleeps; any thread may call it, and a finaliser."""
        raise NotImplementedError

    def _work(self) -> bool | None:
        """Work for a while; as `SupervisedThread` says."""
        raise NotImplementedError

    def _failed(self) -> None:
        """Prepare to begin again, after an error."""

    def _hang_up(self) -> None:
        """Have whatever the thread waits for end."""

    def _end(self, deadline: float) -> None:
        """Count what is still in hand as `shutdown`, and close what is open."""
        raise NotImplementedError
