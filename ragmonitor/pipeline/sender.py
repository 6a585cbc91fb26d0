"""What a monitor hands answers to that are scored elsewhere: a bounded queue, and one thread.

The thread turns what has finished into records and sends them. What cannot be sent is counted here
as unscored, and what was sent is counted by whoever scores it: captured = scored + unscored.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from ragmonitor.capture.coercion import sound
from ragmonitor.evaluators import table
from ragmonitor.export.prometheus import PrometheusExporter
from ragmonitor.pipeline.build import redactor_of
from ragmonitor.pipeline.ledger import Ledger
from ragmonitor.records import AlarmState, Cause, JudgeIdentity, Report, Status
from ragmonitor.runtime import wire
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.guard import contained, shielded
from ragmonitor.runtime.protocols import Finished
from ragmonitor.runtime.queues import MemoryQueue
from ragmonitor.runtime.supervised import SupervisedThread
from ragmonitor.settings import Settings

LINGER_S: Final = 0.01
"""Pause between waking and working: the request that woke us finishes undisturbed."""
TICK_S: Final = 2.0
LATER_S: Final = 0.005
"""The pause before a request is made again."""


@dataclass(frozen=True)
class Call:
    """What else is sent, in its turn: feedback, an event, a request."""

    name: str
    data: bytes = b""
    done: Future[bool | None] | None = None
    """Has whether all that was taken before has been done, None if it was lost with the worker
    that had it; None: nobody waits for that."""
    deadline: float = 0.0
    """Until when somebody waits."""
    framework: str = ""
    status: Status = "ok"

    def interaction(self) -> None:
        """Return None: it is none."""


class Sender:
    """Takes what has finished from any thread, and has a thread of its own send it."""

    metrics_url: str | None = None
    """The address at which /metrics is served; None if it is not."""
    ui_url: str | None = None
    """The address at which the page is served; None if it is not."""
    alarms: Sequence[AlarmState] = ()
    """The state of each signal's evidence, as far as it is known here."""

    def __init__(
        self,
        settings: Settings,
        *,
        redacts: bool,
        poll: Callable[[], object],
        meters: PrometheusExporter,
        judges: Sequence[JudgeIdentity],
    ) -> None:
        """Start nothing yet.

        Args:
            settings: The settings.
            redacts: Texts leave for a worker with settings of its own, which are redacted here.
            poll: Called now and then; gives up abandoned runs and returns how many are open.
            meters: What is counted here.
            judges: Who scores every answer there, in the order of `ledger.ROLES`.

        Raises:
            SettingsError: Texts may not leave.
        """
        if redacts and settings.content.shown != "all":
            raise SettingsError(
                "send_to: a worker elsewhere scores texts, and content.policy is "
                f"{settings.content.shown!r}: nothing could be scored; use content='all', with "
                "redaction, or score in this process"
            )
        self._redactor = redactor_of(settings) if redacts else None
        self._poll = poll
        self._meters = meters
        self.ledger = Ledger(meters, table.select(settings.evaluators), judges)
        """The notes of what was not taken."""
        self.registry: CollectorRegistry = meters.registry
        """Every series, to be mounted in an application's own metrics endpoint."""
        self.queue = MemoryQueue(settings.capture.queue_size)
        """The queue in which finished interactions wait."""
        self.step = threading.Lock()
        """Held while shared state changes; a fork waits for it."""
        self._thread = SupervisedThread(self._work)
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._idle = self._closed = False
        self._ticked_s = 0.0

    # --- the application's side -----------------------------------------------------------------

    def put(self, finished: Finished) -> None:
        """Take an interaction, or count it as refused."""
        if not self.queue.put(finished):
            self.ledger.refuse(finished, Cause.QUEUE_FULL)
        elif self._closed:
            self._refuse_left()  # nobody looks into the queue any more
        else:
            self.wake()

    def wake(self) -> None:
        """Start the thread if there is none, or wake it if it sleeps."""
        if not self._thread.is_started:
            self._thread.start()
        elif self._idle:
            self._idle = False
            # Takes no lock: a finaliser may run this while its own thread does, too.
            self._wakes.put(None)

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:
        """Take note of something that happened to the application, without waiting for it."""
        self._queue_call("event", name, attributes, at_s)

    def feedback(self, feedback: Feedback) -> bool:
        """Take what a person said of an answer; False: too much is waiting, and it is counted."""
        if self._redactor is not None:
            feedback = feedback.redacted(self._redactor.text)
        return self._queue_call("feedback", feedback)

    def _queue_call(self, name: str, *args: object) -> bool:
        """Have a call sent behind what waits; False: there is no room, and it is counted."""
        data = wire.encode_message(name, *args)
        is_taken = not self._closed and self.queue.put(Call(name, data))
        if not is_taken:
            self.ledger.give_up(f"{name}_{'late' if self._closed else 'full'}")
        elif self._closed:
            self._refuse_left()
        else:
            self.wake()
        return is_taken

    def newest(self) -> Report | None:
        """Return the report on the newest answer, as far as it is known here."""
        return None

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything taken so far is sent or counted; return whether it is."""
        is_sent = not self._is_working() or self._asked("flush", time.monotonic() + timeout_s)
        self.ledger.count_notes()
        return is_sent

    def _is_working(self) -> bool:
        return not self._closed and bool(self._thread.is_started or len(self.queue))

    def _asked(self, name: str, deadline: float) -> bool:
        """Have a request take its turn behind what waits; return whether it was carried out."""
        while not self._closed and (left_s := deadline - time.monotonic()) > 0:
            done = Future[bool | None]()
            if self.queue.put(Call(name, done=done, deadline=deadline)):
                self.wake()
                with suppress(TimeoutError):
                    if (is_done := done.result(left_s)) is not None:
                        return is_done
            time.sleep(LATER_S)
        return False

    def _end(self, deadline: float) -> None:
        """Stop the thread, which is waited for until then, and count what is left."""
        self._thread.close()
        self._wakes.put(None)
        self._thread.join(deadline - time.monotonic())
        self._refuse_left()
        with shielded("count"):
            self.ledger.count_notes()
        with contained("export"):
            self._meters.close()

    def _refuse_left(self) -> None:
        while (left := self.queue.take()) is not None:
            self._refuse(left, Cause.SHUTDOWN)

    def _refuse(self, finished: Finished, cause: Cause) -> None:
        if not isinstance(finished, Call):
            self.ledger.refuse(finished, cause)
        elif finished.done is not None:
            finished.done.set_result(False)
        else:
            self.ledger.give_up(f"{finished.name}_lost")

    def forget(self) -> None:
        """Let go of the parent's sockets, in a forked child that begins anew."""
        self._closed = True
        self._meters.forget()

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool | None:
        """Work for a while; as `SupervisedThread` says."""
        raise NotImplementedError

    def _is_time_to_tick(self) -> bool:
        """Return whether to show what changes."""
        if time.monotonic() - self._ticked_s < TICK_S:
            return False
        self._ticked_s = time.monotonic()
        with contained("capture"):
            self._poll()
        return True

    def _packed(self, finished: Finished) -> tuple[bytes, str, Status] | None:
        """Return a record's bytes, framework and status; None: it is none. Raises anything."""
        if isinstance(finished, Call):
            return finished.data, "", "ok"
        record = finished.interaction()
        if record is None:
            return None
        record = sound(record)
        if self._redactor is not None:
            record = self._redactor(record)
        data = wire.encode(record)
        return data, record.framework, record.status

    def _rest(self) -> None:
        """Sleep until something comes, or it is time to tick."""
        self._idle = not len(self.queue)
        # What came between the look and the note has seen that we were not idle.
        if self._idle and not len(self.queue) and not self._closed:
            with suppress(queue.Empty):
                self._wakes.get(timeout=TICK_S)
            self._idle = False
        time.sleep(LINGER_S)
