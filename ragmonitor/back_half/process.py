"""The back half in a helper process, as the application sees it.

A thread takes finished interactions, turns them into records and sends them; reading, statistics
and export happen in the helper. What was sent and not reported when a helper dies is counted as
unscored, cause `internal_error`, by the next one.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from ragmonitor import guard, supervised, wire
from ragmonitor.apart import is_on_a_loop
from ragmonitor.back_half.helper_connection import HelperConnection, HelperRequest
from ragmonitor.back_half.helper_process import HELPER
from ragmonitor.back_half.link import LinkError
from ragmonitor.back_half.local import LocalBackHalf
from ragmonitor.back_half.setup import (
    Setup,
    heard_by,
    litellm_settings,
    reason_to_stay_now,
    without_objects,
)
from ragmonitor.back_half.summed_series import with_counters
from ragmonitor.capture import is_sound, sound
from ragmonitor.export.prometheus import Scrape
from ragmonitor.feedback import Feedback
from ragmonitor.forks import survive_forks
from ragmonitor.guard import contained, logger, record_problem, shielded
from ragmonitor.ledger import LedgerNotes, is_probe
from ragmonitor.protocols import Exporter, Finished
from ragmonitor.queues import MemoryQueue
from ragmonitor.records import AlarmState, Cause, Report
from ragmonitor.redaction import Redactor
from ragmonitor.settings import ServerSettings, Settings
from ragmonitor.supervised import SupervisedThread
from ragmonitor.wiring import (
    builtin_judge,
    configure,
    estimates_of,
    exporters_of,
    incidents_of,
    judging_of,
    reader_of,
    store_of,
    traces_of,
)

LINGER_S = 0.01
"""Pause between waking and working: the request that woke us finishes undisturbed."""
TICK_S = 2.0
STARTING_S = 60.0
"""A helper that is not ready by then is given up."""
STOPPING_S = 1.0
SCRAPE_S = 5.0
FAMILIES_S = 300.0
"""Series that the helper gave longer ago are not shown: Prometheus, too, lets go of them then."""
EVENT_S = 60.0
"""An event that could not be handed over for so long is given up."""
AFTER_ALL = frozenset({"flush", "close"})
"""Requests that wait until all that came before them was sent, if there is no room for it yet."""
MAX_EVENTS = 1_000
"""Requests and events that wait to be handed over; further events are given up."""
MAX_FAILED_STARTS = 3
"""Helpers that never got ready, in a row; then the work stays on a thread."""
SHORT_S = 0.3
"""The share of the time for closing that is kept for the helper's end; and as much goes to what is
sent before."""

_monitors = itertools.count()


class ProcessBackHalf:
    """Hands interactions to a helper process, which starts with the first of them. POSIX only."""

    def __init__(
        self,
        settings: Settings,
        *,
        redactor: Redactor,
        poll: Callable[[], int],
    ) -> None:
        """Start nothing yet.

        Args:
            settings: The settings; `setup.reason_to_stay` is empty for them.
            redactor: As in `LocalBackHalf`, which stands in where no helper can be started.
            poll: Likewise.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        self._given = settings
        self._number = next(_monitors)
        # Those before us, or of the process that forked us, are not ours to count.
        self._errors_before = dict(guard.errors)
        self._settings = without_objects(settings)
        self._redactor = redactor
        self._poll = poll
        _check(self._settings)
        self._notes = LedgerNotes()
        self._exporters: Sequence[Exporter] = [
            each for each in settings.exporters if not isinstance(each, str)
        ]
        for each in self._exporters:
            configure(each, self._settings, self._notes.give_up)
        self._traces = traces_of(self._settings)
        self.registry = CollectorRegistry()
        """Every series, to be mounted in an application's own metrics endpoint."""
        self.registry.register(Scrape(self._families))
        self._at_end: tuple[list[Metric], Report | None] = [], None
        """Every series and the newest report, after the end."""
        self._late: LocalBackHalf | None = None
        """Counts what was refused before the first helper, or after the end; it never works."""
        self._local: LocalBackHalf | None = None
        """The back half that works in this process after all."""
        self._queue = MemoryQueue(settings.capture.queue_size)
        self._closed = False
        self._prepare()
        survive_forks(self)

    def _prepare(self) -> None:
        """Begin without a helper: at first, and in a forked child."""
        self._thread = SupervisedThread(self._work, failed=self._count_failure)
        self._changing = threading.RLock()
        """Held while the helper, or what works here in its place, is taken or put."""
        self._helper: HelperConnection | None = None
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[HelperRequest] = queue.SimpleQueue()
        self._taken = 0
        """Interactions that the thread has taken from the queue, ever."""
        self._due: deque[tuple[int, HelperRequest]] = deque()
        """Requests that the thread has taken, each with what must have left the queue before."""
        self._idle = False
        self._deaths = self._failed_starts = 0
        self._pause_s = supervised.FIRST_PAUSE_S
        self._is_ending = False
        """Whether the helper was asked for its last numbers."""
        self._close_by = self._end_by = math.inf
        """The time when all is to be over, and when it is asked, whatever still waits here; in
        seconds of `time.monotonic`."""
        self._is_up = threading.Event()
        """Set while a helper works, and once the work is done in this process."""
        self._waits_for_none = False
        """Whether the end has come: no helper is started or waited for any more."""
        self._ticked_s = 0.0
        self.alarms: tuple[AlarmState, ...] = ()
        """The state of each signal's evidence, as of a few seconds ago."""
        self.metrics_url: str | None = None
        """The address at which the helper serves /metrics; None if it does not."""
        self.ui_url: str | None = None
        """The address at which it serves the page; None if it does not."""
        self._destination = ""
        self._families_known: tuple[float, list[Metric]] = (0.0, [])
        """When the helper gave its series last, and every one of them."""
        self._families_asked: Future[Any] | None = None
        """The request for them that is under way."""

    # --- the application's side -----------------------------------------------------------------

    def put(self, finished: Finished) -> None:
        """Take an interaction, or count it as `queue_full`."""
        if self._local is not None:
            self._local.put(finished)
        elif not self._queue.put(finished):
            self.refuse(finished, Cause.QUEUE_FULL)
        elif self._local is not None or self._closed:
            self._hand_on()  # nobody looks into the queue any more
        else:
            self.wake()

    def wake(self) -> None:
        """Start the thread if there is none, or wake it if it sleeps."""
        if self._local is not None:
            self._local.wake()
        elif not self._thread.is_started:
            self._start()
        elif self._idle:
            self._idle = False
            # Takes no lock: a finaliser may run this while its own thread does, too.
            self._wakes.put(None)

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken, so that nothing is missing from the sums."""
        if self._local is not None:
            self._local.refuse(finished, cause)
        else:
            self._notes.refuse(finished, cause)

    def give_up(self, reason: str) -> None:
        """Note a run that was given up."""
        if self._local is not None:
            self._local.give_up(reason)
        else:
            self._notes.give_up(reason)

    def note_check(self, of: str, outcome: str) -> None:
        """Note what was decided of an answer, or of a sentence, before it was seen."""
        if self._local is not None:
            self._local.note_check(of, outcome)
        else:
            self._notes.note_check(of, outcome)

    def newest(self) -> Report | None:
        """Return the report on the newest answer that was scored; None: there was none."""
        if self._local is not None:
            return self._local.newest()
        if self._closed:
            return self._at_end[1]
        report: Report | None = self._ask(SCRAPE_S, "newest")
        return report

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:
        """Take note of something that happened to the application, without waiting for it."""
        if self._local is not None:
            self._local.event(name, attributes, at_s)
        else:
            self._tell("event", name, dict(attributes), at_s)

    def feedback(self, feedback: Feedback) -> bool:
        """Take what a person said of an answer, without waiting; what is lost is counted."""
        if self._local is not None:
            return self._local.feedback(feedback)
        return self._tell("feedback", feedback)

    def _tell(self, name: str, *args: object) -> bool:
        """Have something handed over in its turn; False: too much is waiting."""
        if self._outbox.qsize() >= MAX_EVENTS or self._closed:
            self._notes.give_up(f"{name}_full")
            return False
        if not self._thread.is_started:
            self._start()
        request = HelperRequest(name, args, deadline=time.monotonic() + EVENT_S)

        def count(future: Future[Any]) -> None:
            if future.exception() is not None:
                self._notes.give_up(f"{name}_lost")

        request.future.add_done_callback(count)
        self._put_out(request)
        return True

    def _put_out(self, request: HelperRequest) -> None:
        """Have a request sent in its turn; at once refused where nobody sends any more."""
        self._outbox.put(request)
        if self._local is not None or self._closed:
            request.refuse(self._local)
        self._idle = False
        self._wakes.put(None)

    def refreeze(self) -> None:
        """Accept the judge as it judges now."""
        if self._local is not None:
            self._local.refreeze()
        else:
            self._ask(SCRAPE_S, "refreeze")

    def destination(self) -> str:
        """Say where traces go, without secrets."""
        return self._destination or self._traces.destination()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything taken so far is judged and exported; return whether it is."""
        if self._local is not None:
            return self._local.flush(timeout_s)
        if not self._thread.is_started:
            if self._local is None and (not len(self._queue) or self._closed):
                return True
            self._start()
        deadline = time.monotonic() + timeout_s
        flushed = self._ask(timeout_s, "flush", timeout_s - min(1.0, SHORT_S * timeout_s))
        if self._local is not None:
            return self._local.flush(deadline - time.monotonic())
        return bool(flushed) and self._flush_own(deadline)

    def _flush_own(self, deadline: float) -> bool:
        """Flush the application's provider, which has what was emitted here."""
        return not self._traces.is_applications or self._traces.flush(
            max(0.1, deadline - time.monotonic())
        )

    def close(self, timeout_s: float) -> bool:
        """Flush and stop; late interactions count as `shutdown`."""
        if self._local is not None:
            return self._local.close(timeout_s)
        deadline = time.monotonic() + timeout_s
        is_closed = True
        if self._thread.is_started or len(self._queue):
            is_closed = self._end_helper(timeout_s, deadline)
        if self._local is not None:
            return self._local.close(deadline - time.monotonic())
        with self._changing:
            self._closed = self._local is None
        if self._local is not None:  # since a moment ago
            return self._local.close(deadline - time.monotonic())
        self._thread.close()
        self._wakes.put(None)
        self._wait_for_none()
        if self._thread.join((deadline - time.monotonic()) / 2):
            self._refuse_requests()
        self._hand_on()
        helper = self._let_go()
        if helper is not None:
            self._refuse_what_is_open(helper, Cause.SHUTDOWN)
            # One that is still starting would see the end of its connection only after that.
            stopping_s = STOPPING_S if self._is_up.is_set() else 0.0
            with shielded("close"):
                helper.end(min(stopping_s, max(0.0, deadline - time.monotonic())))
        for each in (*self._exporters, self._traces):
            with contained("export"):
                each.close()
        return is_closed

    def _end_helper(self, timeout_s: float, deadline: float) -> bool:
        """Have all that waits scored, here if no helper works yet; return whether it is."""
        self._close_by, answer_by = deadline, deadline - SHORT_S * timeout_s
        self._plan_end()
        if timeout_s >= STOPPING_S and _is_quick(self._settings):
            # Its start takes longer than what a process that ends so soon has to score.
            self._wait_for_none()
        self._start()
        if not self._is_up.wait(max(0.0, answer_by - time.monotonic())) or self._local is not None:
            return False
        ended = self._ask(max(0.0, deadline - time.monotonic()), "close", answer_by)
        if ended is None:
            return False
        self._at_end = ended[1:]
        return bool(ended[0]) and self._flush_own(deadline)

    def _wait_for_none(self) -> None:
        """Have the thread give up a helper that does not work yet."""
        self._waits_for_none = True
        helper = self._helper
        if helper is not None:
            helper.is_ready.set()

    def _plan_end(self) -> None:
        """Fix when the helper is asked for its last numbers: the time left is for sending, too."""
        if self._close_by < math.inf:
            now = time.monotonic()
            self._end_by = now + SHORT_S * (self._close_by - now)

    def _hand_on(self) -> None:
        """Move what waits to the thread that works in this process; after the end refuse it."""
        while left := self._queue.take(1):
            if self._local is not None:
                self._local.put(left[0])
            else:
                self.refuse(left[0], Cause.SHUTDOWN)

    def _let_go(self) -> HelperConnection | None:
        """Return the helper, once: whoever gets it counts what it had in hand, and ends it."""
        with self._changing:
            helper, self._helper = self._helper, None
        return helper

    def _refuse_what_is_open(self, helper: HelperConnection, cause: Cause) -> None:
        """Count what was sent and is in no number of the helper's, which has ended or ends now."""
        for framework, status in tuple(helper.open.values()):  # replies may still come in
            self._notes.note_refused(framework, status, cause)

    def _ask(self, timeout_s: float, name: str, *args: object) -> Any:
        """Return the helper's reply, once it has all that was taken so far; None: there is none."""
        if not self._thread.is_started:
            return None
        with suppress(LinkError, TimeoutError):
            return self._asked(timeout_s, name, *args).result(max(0.0, timeout_s))
        return None

    def _asked(self, timeout_s: float, name: str, *args: object) -> Future[Any]:
        """Have the helper asked, without waiting."""
        request = HelperRequest(name, args, deadline=time.monotonic() + timeout_s)
        self._put_out(request)
        return request.future

    def _families(self) -> list[Metric]:
        if self._local is None and self._thread.is_started and not self._closed:
            known = self._helpers_families()
            if self._local is None and not self._closed:
                return self._families_here(known, ()) if known else []
        if self._local is not None:
            return list(self._local.registry.collect())
        return self._families_here(self._at_end[0], self._notes.take())

    def _helpers_families(self) -> list[Metric]:
        """Return the helper's series: as of now, or those that it gave last.

        An application that mounts our registry collects on its event loop, which must not stand
        still until a helper answers: new ones are fetched meanwhile, for the next scrape.
        """
        asked = self._families_asked
        is_on_loop = is_on_a_loop()
        if not is_on_loop or asked is None or asked.done():
            asked = self._families_asked = self._asked(SCRAPE_S, "families")
            asked.add_done_callback(self._take_families)
        if not is_on_loop:
            with suppress(LinkError, TimeoutError):
                return list(asked.result(SCRAPE_S))
        known_s, known = self._families_known
        return known if time.monotonic() - known_s < FAMILIES_S else []

    def _take_families(self, asked: Future[Any]) -> None:
        if asked.exception() is None:
            self._families_known = time.monotonic(), asked.result()

    def _families_here(self, families: list[Metric], noted: Sequence[Any]) -> list[Metric]:
        """Return the families, with what was counted in this process while there was no helper."""
        with self._changing:
            if any(noted) and self._late is None:
                quiet = {"server": ServerSettings(enabled=False), "state": None, "exporters": ()}
                plain = self._settings.model_copy(update=quiet)
                self._late = LocalBackHalf(plain, redactor=self._redactor, poll=self._poll)
            late = self._late
        if late is None:
            return families
        if any(noted):
            late.worker.ledger.take_over(*noted)
        return with_counters(families, list(late.registry.collect()))

    # --- the thread -----------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._closed:  # also in a child that was forked after the end
            self._thread.start()

    def _work(self) -> bool:
        """Work until one helper has ended; return False: no further one is to be started."""
        self._work_with_helper()
        return not self._closed and self._local is None

    def _count_failure(self) -> None:
        """Count an error of ours as a failed start; one that works begins the count anew."""
        self._failed_starts += 1

    def _work_with_helper(self) -> None:
        """Bring one helper up, and serve it to its end or ours."""
        why = reason_to_stay_now()
        if self._waits_for_none:
            why = "the end came before a helper process worked"
        if why or self._failed_starts >= MAX_FAILED_STARTS:
            self._stay(why or "the helper process did not start")
            return
        helper = self._brought_up()
        if helper is None:
            self._failed_starts += 1
            self._wait(self._pause_s)
            return
        began = time.monotonic()
        self._failed_starts = 0
        self._plan_end()
        self._is_up.set()
        try:
            helper.link.send("wake")
            while not (self._closed or helper.is_gone):
                self._serve(helper)
        except LinkError:
            pass  # it died
        if not self._closed:
            self._bury(helper)
            if time.monotonic() - began > supervised.MAX_PAUSE_S:
                self._pause_s = supervised.FIRST_PAUSE_S
            self._wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, supervised.MAX_PAUSE_S)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not (self._closed or self._waits_for_none):
            left_s = until - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(0.05, left_s))

    def _brought_up(self) -> HelperConnection | None:
        """Return a helper that is ready; None: it did not get so far."""
        setup = Setup(
            settings=self._settings,
            exporters=tuple(map(heard_by, self._exporters)),
            host=os.getpid(),
            number=self._number,
            restarts=self._deaths,
            errors=self._errors_before,
            litellm=litellm_settings(),
        )
        try:
            helper = HelperConnection(HELPER, setup, self._handlers(), self._traces.emit)
        except OSError as error:
            if self._waits_for_none or self._closed:
                return None
            record_problem("worker", f"the helper process did not start: {guard.reason(error)}")
            return None
        with self._changing:
            is_late = self._closed
            self._helper = None if is_late else helper
        if is_late:  # whoever closes has looked for a helper before
            helper.end(0.0)
            return None
        replies = threading.Thread(
            target=helper.serve,
            args=(lambda: self._wakes.put(None),),
            name="ragmonitor-replies",
            daemon=True,
        )
        try:
            replies.start()
        except RuntimeError:  # the system has no thread for it, for now
            if self._let_go() is not None:
                helper.end(0.0)
            raise
        helper.is_ready.wait(0.0 if self._waits_for_none else STARTING_S)
        if self._closed:  # whoever closes has ended, or ends, this connection and no other
            return None
        if self._waits_for_none:
            if self._let_go() is not None:
                helper.end(0.0)
            return None
        if helper.is_gone or helper.failure or not helper.is_ready.is_set():
            if self._let_go() is None:
                return None
            if not helper.failure:
                helper.kill()
            status = helper.end(0.0)
            record_problem(
                "worker",
                f"the helper process did not start: {helper.failure or f'exit status {status}'}",
            )
            return None
        return helper

    def _stay(self, why: str) -> None:
        """Work in this process from now on, with all that waits."""
        logger.info("ragmonitor: working on a thread of this process: %s", why)

        def poll() -> int:
            # Also what is noted here by those who looked before we moved.
            local.worker.ledger.take_over(*self._notes.take())
            return self._poll()

        settings = self._given
        if self._waits_for_none:  # nobody will scrape what is about to end
            settings = settings.model_copy(update={"server": ServerSettings(enabled=False)})
        local = LocalBackHalf(settings, redactor=self._redactor, poll=poll)
        self.registry = local.registry
        with self._changing:
            if self._closed:  # whoever closes has waited long enough, and counts what waits
                return
            self._local = local
        self._thread.close()
        local.worker.ledger.take_over(*self._notes.take())
        self._hand_on()
        local.wake()
        self._refuse_requests()
        self._is_up.set()

    def _refuse_requests(self) -> None:
        self._take_requests()
        for _, request in self._due:
            request.refuse(self._local)
        self._due.clear()

    def _bury(self, helper: HelperConnection) -> None:
        """Note what died with a helper, unless whoever closes does."""
        if self._let_go() is None:
            return
        self._is_up.clear()
        status = helper.end(0.0)
        self._deaths += 1
        self._refuse_what_is_open(helper, Cause.INTERNAL_ERROR)
        record_problem(
            "worker",
            f"the helper process ended (exit status {status}); another is started, and what it had "
            "in hand is counted as internal_error",
        )

    # --- one helper -----------------------------------------------------------------------------

    def _serve(self, helper: HelperConnection) -> None:
        """Send what there is, then wait for more. Raises `LinkError`."""
        self._take_requests()
        for _ in range(max(1, len(self._queue))):
            if (self._due or self._outbox.qsize()) and time.monotonic() > self._end_by:
                break  # it would be told to end before it could score more
            if helper.is_gone or not self._send_one(helper):
                break
            time.sleep(0)
        if time.monotonic() - self._ticked_s >= TICK_S:
            self._tick(helper)
        self._send_requests(helper)
        is_stuck = len(self._queue) and helper.sent - helper.taken >= self._room
        if not len(self._queue) or is_stuck:
            self._idle = not is_stuck
            # What came between the look and the note has seen that we were not idle.
            if is_stuck or (not len(self._queue) and self._outbox.empty()):
                with suppress(queue.Empty):
                    wait_s = LINGER_S if is_stuck else TICK_S
                    self._wakes.get(timeout=wait_s)
                    if not is_stuck and self._outbox.empty():
                        time.sleep(LINGER_S)
            self._idle = False

    def _take_requests(self) -> None:
        """Note what is in the queue before each request: it was put there first."""
        for _ in range(self._outbox.qsize()):
            request = self._outbox.get()
            self._due.append((self._taken + len(self._queue), request))

    def _send_requests(self, helper: HelperConnection) -> None:
        """Send the requests whose time has come. Raises `LinkError`."""
        if self._due:
            self._note(helper)
        for _ in range(len(self._due)):
            before, request = self._due.popleft()
            is_ending = request.name == "close"
            by = min(request.deadline, self._end_by) if is_ending else request.deadline
            waits = request.name in AFTER_ALL and time.monotonic() <= by
            if waits and self._taken < before:
                self._due.append((before, request))
                continue
            self._is_ending = self._is_ending or is_ending
            request.send(helper.link)

    @property
    def _room(self) -> int:
        return self._settings.capture.queue_size

    def _send_one(self, helper: HelperConnection) -> bool:
        """Send the next interaction; return False: none waits, or there is no room for it."""
        if helper.sent - helper.taken >= self._room:
            return False
        taken = self._queue.take(1)
        if not taken:
            return False
        (finished,) = taken
        self._taken += 1
        framework, status = finished.framework, finished.status
        outcome = "lost"
        with contained("worker"):
            record = finished.interaction()
            outcome = "none"
            if record is not None:
                outcome = "lost"
                # What is not of its type could not be read there.
                data = wire.encode(record if is_sound(record) else sound(record))
                framework, status = record.framework, record.status
                outcome = "sent"
        if outcome == "sent":
            helper.sent += 1
            if not is_probe(finished):
                helper.open[helper.sent] = framework, status
            self._tell_provider(helper)
            helper.link.send("record", helper.sent, framework, status, data)
        elif outcome == "lost":
            self._notes.give_up("unreadable")
            if not is_probe(finished):
                self._notes.note_refused(framework, status, Cause.INTERNAL_ERROR)
        return True

    def _tell_provider(self, helper: HelperConnection) -> None:
        has_provider = self._traces.is_applications
        if has_provider != helper.has_provider:
            helper.has_provider = has_provider
            helper.link.send("provider", has_provider)

    def _tick(self, helper: HelperConnection) -> None:
        self._ticked_s = time.monotonic()
        open_runs = 0
        with contained("capture"):
            open_runs = self._poll()
        level = logging.getLogger("ragmonitor").getEffectiveLevel()
        self._tell_provider(helper)
        helper.link.send("tick", open_runs, len(self._queue), dict(guard.errors), level)
        self._note(helper)

    def _note(self, helper: HelperConnection) -> None:
        """Send what was noted; what it may not count any more is counted here."""
        if self._is_ending or self._closed:
            return
        noted = self._notes.take()
        if not any(noted):
            return
        try:
            helper.link.send("note", *noted)
        except LinkError:  # the next helper is told
            self._notes.take_over(*noted)
            raise

    # --- from the helper ------------------------------------------------------------------------

    def _handlers(self) -> dict[str, Callable[..., object]]:
        return {
            "state": self._state,
            "log": lambda level, text: logger.log(level, "%s", text),
            "export": self._export,
            "flush_exporter": lambda number, timeout_s: self._exporters[number].flush(timeout_s),
            "late": self._traces.export,
            "alarm": self._traces.alarm,
            "told": self._traces.feedback,
        }

    def _state(
        self,
        alarms: tuple[AlarmState, ...],
        metrics_url: str | None,
        ui_url: str | None,
        destination: str,
    ) -> None:
        self.alarms, self.metrics_url, self.ui_url = alarms, metrics_url, ui_url
        self._destination = destination

    def _export(self, number: int, method: str, news: object) -> None:
        with contained("export"):
            getattr(self._exporters[number], method)(news)

    # --- forks ----------------------------------------------------------------------------------

    def after_fork_in_child(self) -> None:
        """Begin anew: the helper and what waits are the parent's."""
        helper = self._helper
        if helper is not None:
            helper.forget()
        self._queue.clear()
        self._notes.clear()
        self._errors_before = dict(guard.errors)
        self._late = None
        self._prepare()


def _check(settings: Settings) -> None:
    """Find out here what the helper could not do.

    Raises:
        SettingsError: The settings cannot be carried out.
    """
    store_of(settings)
    plain = settings.model_copy(update={"state": None})
    judging = judging_of(plain)
    estimates_of(plain, reader_of(plain) or builtin_judge(), judging)
    incidents_of(plain, judging, _ignore)
    exporters_of(plain, _ignore)


def _is_quick(settings: Settings) -> bool:
    """Return whether the work needs nothing that takes seconds to import."""
    return settings.judge.model is None and settings.judge.builtin is None


def _ignore(_reason: str, _n: int) -> None:
    """Count nothing: nothing is exported here."""
