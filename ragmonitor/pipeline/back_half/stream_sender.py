"""The back half of an application whose answers are scored elsewhere: it puts them on a stream."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry

from ragmonitor.capture import sound
from ragmonitor.evaluators import table
from ragmonitor.pipeline.back_half.setup import require_texts
from ragmonitor.pipeline.ledger import Ledger
from ragmonitor.pipeline.streams import RedisStream, Stream
from ragmonitor.pipeline.wiring import builtin_judge, meters_of
from ragmonitor.records import (
    AlarmState,
    Cause,
    GaugeValue,
    JudgeIdentity,
    Report,
    Snapshot,
)
from ragmonitor.redaction import Redactor
from ragmonitor.runtime.errors import StreamError
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.guard import (
    contained,
    errors,
    record_outage,
    record_problem,
    shielded,
)
from ragmonitor.runtime.protocols import Finished
from ragmonitor.runtime.queues import MemoryQueue
from ragmonitor.runtime.supervised import SupervisedThread
from ragmonitor.runtime.wire import encode, encode_feedback, encode_refreeze, require_compression
from ragmonitor.semconv.metrics import STREAM_UP
from ragmonitor.settings import Settings

BATCH: Final = 64
PAUSE_S: Final = 0.05
"""The pause between looks at an empty queue; the thread is never woken, which would take a lock."""
RETRY_S: Final = 1.0
"""The pause between attempts to reach a stream that is down."""
REFRESH_S: Final = 2.0
MAX_FEEDBACK: Final = 10_000
"""Pieces of feedback that wait at most, as in a process that scores by itself."""
STOP_SHARE: Final = 0.25
"""The share of the time for closing that is left for the thread's end."""


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A judge of the worker: what is not stored is unscored by it."""

    identity: JudgeIdentity


class StreamBackHalf:
    """Captures, redacts and puts finished records on a stream; reads, judges, estimates nothing.

    What is not stored is counted as unscored here; what is stored the worker counts. A record whose
    storing failed halfway is put again: the worker drops those that it has seen.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        redactor: Redactor,
        poll: Callable[[], object],
        open_stream: Callable[[], Stream] | None = None,
        gauges: Callable[[], Sequence[GaugeValue]] = tuple,
    ) -> None:
        """Connect to nothing yet.

        Args:
            settings: The settings.
            redactor: What every text passes before it leaves.
            poll: Called now and then; gives up abandoned runs.
            open_stream: Opens the stream, also in a forked child; None: as the settings say.
            gauges: As in `LocalBackHalf`.

        Raises:
            SettingsError: There is no stream at that address, or texts may not leave.
            MissingExtraError: A library for it is not installed.
        """
        require_texts(settings)
        require_compression()
        self._stream = RedisStream.of(settings) if open_stream is None else open_stream()
        self._redactor = redactor
        self._poll = poll
        self._gauges = gauges
        self._queue = MemoryQueue(settings.capture.queue_size)
        self._feedback: deque[Feedback] = deque()
        self._meters = meters_of(settings, None)
        self._meters.is_elsewhere = True
        judges: list[Any] = [_Elsewhere(builtin_judge().identity)]
        if settings.judge.name is not None:
            identity = JudgeIdentity(name=settings.judge.name, version="", kind="LLM")
            judges.append(_Elsewhere(identity))
        entries = table.select(settings.evaluators)
        self._ledger = Ledger(self._meters, entries, lambda: judges)
        self._meters.count_first(self._ledger.count_notes)
        self._thread = SupervisedThread(self._work)
        self.step = threading.Lock()
        """Held while shared state changes; a fork waits for it."""
        self._losing = threading.Lock()
        self._in_hand = 0
        self._sending: Sequence[tuple[Finished | Feedback, bytes]] = ()
        self._is_down = False
        self._closed = False
        self._refreshed_s = 0.0

    # --- the application's side -----------------------------------------------------------------

    @property
    def registry(self) -> CollectorRegistry:
        """The series of this process: what was refused, and its own working."""
        return self._meters.registry

    @property
    def metrics_url(self) -> str | None:
        """The address at which /metrics is served; None if it is not."""
        return self._meters.url

    @property
    def ui_url(self) -> None:
        """None: the worker serves the page."""
        return

    @property
    def alarms(self) -> Sequence[AlarmState]:
        """None of them: the worker has them."""
        return ()

    def put(self, finished: Finished) -> None:
        """Take an interaction; when the buffer is full count it, `stream_down` or `queue_full`."""
        if self._closed:
            self._ledger.refuse(finished, Cause.SHUTDOWN)
        elif self._queue.put(finished):
            self.wake()
            if self._closed:
                self._lose_left()  # nobody looks into the queue any more
        else:
            down = self._is_down
            self._ledger.refuse(finished, Cause.STREAM_DOWN if down else Cause.QUEUE_FULL)

    def room(self) -> int:
        """Return how many more interactions may wait before `put` refuses one."""
        return self._queue.room

    def wake(self) -> None:
        """Start the thread if there is none."""
        if not self._thread.is_started:
            self._thread.start()

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken."""
        self._ledger.refuse(finished, cause)

    def give_up(self, reason: str) -> None:
        """Note a run that was given up."""
        self._ledger.give_up(reason)

    def note_check(self, of: str, outcome: str) -> None:
        """Note what was decided of an answer, or of a sentence, before it was seen."""
        self._ledger.note_check(of, outcome)

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:  # noqa: ARG002
        """Say that it is lost: a stream carries records only."""
        record_problem("stream", "events are not carried to the worker: see docs/scaling.md")

    def feedback(self, feedback: Feedback) -> bool:
        """Take what a person said, for the worker to join; False: too much is waiting."""
        if self._closed or len(self._feedback) >= MAX_FEEDBACK:
            self.give_up("feedback_late" if self._closed else "feedback_full")
            return False
        self._feedback.append(feedback)
        self.wake()
        if self._closed:
            self._lose_left()
        return True

    def newest(self) -> Report | None:
        """Return None: reports are made elsewhere."""
        return None

    def refreeze(self) -> None:
        """Ask whoever has the reference answers, behind what waits on the stream.

        Raises:
            StreamError: The request could not be stored, or it is not known that it was.
        """
        ask_to_refreeze(self._stream)

    def destination(self) -> str:
        """Say where traces go."""
        return "emitted by the worker"

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything so far is stored, or refused; return whether it is."""
        deadline = time.monotonic() + timeout_s
        if self._is_waiting():
            self.wake()
        while self._is_waiting():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.005)
        self._ledger.count_notes()
        return True

    def _is_waiting(self) -> bool:
        return bool(len(self._queue) or self._feedback or self._in_hand)

    def close(self, timeout_s: float) -> bool:
        """Flush and stop; what could not be stored is counted."""
        deadline = time.monotonic() + timeout_s
        flushed = self.flush((1 - STOP_SHARE) * timeout_s)
        self._closed = True
        self._thread.close()
        self._thread.join(deadline - time.monotonic())
        self._lose_sending(self._cause)  # the thread still waits for the server
        self._lose_left()
        with shielded("count"):
            self._ledger.count_notes()
        with contained("stream"):
            self._stream.close()
        with contained("export"):
            self._meters.close()
        return flushed

    def _lose_sending(self, cause: Cause) -> None:
        """Count what is being sent and will not be; once, whoever comes first."""
        with self._losing:
            batch, self._sending = self._sending, ()
        for record, _ in batch:
            self._lose(record, cause)

    def _lose_left(self) -> None:
        """Count what waits, after the end."""
        while left := (self._queue.take(BATCH) or self._taken_feedback()):
            for record in left:
                self._lose(record, self._cause)

    @property
    def _cause(self) -> Cause:
        return Cause.STREAM_DOWN if self._is_down else Cause.SHUTDOWN

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool:
        self._refresh()
        if not self._work_off():
            self._thread.ending.wait(PAUSE_S)
        return not self._closed

    def _refresh(self) -> None:
        if time.monotonic() - self._refreshed_s < REFRESH_S:
            return
        self._refreshed_s = time.monotonic()
        with self.step:
            self._ledger.count_notes()
            with contained("capture"):
                self._poll()
            is_up = GaugeValue(name=STREAM_UP, value=not self._is_down)
            self._meters.refresh(
                snapshot=Snapshot(gauges=(*self._gauges(), is_up)),
                queue_depth=len(self._queue) + self._in_hand,
                errors=errors,
            )

    def _work_off(self) -> bool:
        """Put one batch on the stream; return whether there was any."""
        self._in_hand = BATCH  # before they leave the queue: a flush looks at both
        taken: Sequence[Finished | Feedback] = ()
        try:
            # Answers first: what people say of them finds them there.
            taken = self._queue.take(BATCH) or self._taken_feedback()
            self._in_hand = len(taken)
            self._send([pair for each in taken if (pair := self._encoded(each)) is not None])
        except BaseException:  # goes on to be recorded; nobody sends these again
            self._lose_sending(Cause.INTERNAL_ERROR)
            raise
        finally:
            self._in_hand = 0
        return bool(taken)

    def _taken_feedback(self) -> Sequence[Feedback]:
        taken: list[Feedback] = []
        while len(taken) < BATCH:
            try:
                taken.append(self._feedback.popleft())
            except IndexError:  # none is left, or another thread had the last one
                break
        return taken

    def _encoded(self, finished: Finished | Feedback) -> tuple[Finished | Feedback, bytes] | None:
        """Return a record with its bytes; None: it is none, or was counted."""
        time.sleep(0)  # the application goes first
        with contained("capture"), self.step:
            try:
                if isinstance(finished, Feedback):
                    redacted = finished.redacted(self._redactor.text)
                    return finished, encode_feedback(redacted, compressed=True)
                interaction = finished.interaction()
                if interaction is None:
                    return None
                return finished, encode(self._redactor(sound(interaction)), compressed=True)
            except BaseException:  # goes on to be recorded
                self._lose(finished, Cause.INTERNAL_ERROR)
                raise
        return None

    def _lose(self, record: Finished | Feedback, cause: Cause) -> None:
        """Count what does not get to the worker."""
        if isinstance(record, Feedback):
            self.give_up("feedback_lost")
        else:
            self._ledger.refuse(record, cause)

    def _send(self, batch: Sequence[tuple[Finished | Feedback, bytes]]) -> None:
        """Store a batch: again and again while the stream is down, until the monitor closes."""
        self._sending = batch
        while batch:
            try:
                stored = self._stream.put([data for _, data in batch])
            except StreamError as error:
                record_outage(error)
                self._is_down = True
                if self._closed:
                    self._lose_sending(self._cause)
                    return
                self._refresh()
                self._thread.ending.wait(RETRY_S)
                continue
            self._is_down = False
            self._sending = ()
            for record, _ in batch[stored:]:
                self._lose(record, Cause.QUEUE_FULL)
            return

    # --- forks ----------------------------------------------------------------------------------

    def forget(self) -> None:
        """Let go of the parent's sockets, in a forked child that begins anew."""
        self._meters.forget()


def ask_to_refreeze(stream: Stream) -> None:
    """Put the request to freeze the reference answers anew on a stream.

    Raises:
        StreamError: It could not be stored, or it is not known that it was.
    """
    if not stream.put([encode_refreeze()]):
        raise StreamError("the stream is full: the reference answers are not frozen anew")
