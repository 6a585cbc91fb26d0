"""The pipeline: take, judge, evaluate, estimate, export. One thread, one event loop.

The thread starts with the first interaction. After an error that ends its loop it begins again
after a pause, and that is counted. Each interaction has an account (`ragmonitor.pipeline.ledger`),
so that captured = scored + unscored holds by construction: it leaves exactly one report per judge,
with one evaluation per evaluator.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry

from ragmonitor.capture import sound
from ragmonitor.causes import Causes
from ragmonitor.evaluators import table
from ragmonitor.export import NewestReports
from ragmonitor.judges.every_answer import MAX_WAITING
from ragmonitor.pipeline.answer_handling import CANCEL_S, AnswerHandler
from ragmonitor.pipeline.exports import Exports
from ragmonitor.pipeline.judging import JudgeRunner, ReadingEngine
from ragmonitor.pipeline.ledger import Ledger
from ragmonitor.pipeline.wiring import (
    builtin_judge,
    estimates_of,
    exporters_of,
    golden_reader,
    incidents_of,
    judging_of,
    meters_of,
    reader_of,
    store_of,
    traces_of,
    view_of,
)
from ragmonitor.records import AlarmState, Cause, GaugeValue, Report, Snapshot
from ragmonitor.redaction import Redactor
from ragmonitor.runtime.apart import run, within
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.guard import contained, errors, record_error, record_problem, shielded
from ragmonitor.runtime.lock_slices import say_whether_behind, work_in_slices
from ragmonitor.runtime.protocols import Finished, Judge, TraceExporter
from ragmonitor.runtime.queues import MAX_BYTES, MemoryQueue
from ragmonitor.runtime.supervised import SupervisedThread
from ragmonitor.settings import Settings
from ragmonitor.stats.feedback import PeoplesFeedback
from ragmonitor.store import Store

LINGER_S: Final = 0.01
"""Pause between waking and working: the request that woke us finishes undisturbed."""
BEHIND_FROM: Final = 16
"""With more interactions waiting the work is not done in slices."""
TICK_S: Final = 2.0
"""Gauges are refreshed, abandoned runs given up and the endpoint's port retried this often."""
HURRY_SHARE: Final = 0.4
"""A share of the time for closing; after it the built-in rules read what an encoder has not
read."""
STOP_SHARE: Final = 0.25
MAX_STOP_S: Final = 1.5
"""Flushing leaves this share of the time for closing, `MAX_STOP_S` at most, to the rest of it."""


class Pipeline:
    """Takes finished interactions, and scores and exports them on a thread of this process."""

    def __init__(
        self,
        settings: Settings,
        *,
        redactor: Redactor,
        poll: Callable[[], object],
        traces: TraceExporter | None = None,
        gauges: Callable[[], Sequence[GaugeValue]] = tuple,
        is_apart: bool = False,
        store: Store | None = None,
    ) -> None:
        """Wire the stages; nothing runs yet.

        Args:
            settings: The settings.
            redactor: What every text passes before a judge or an exporter sees it.
            poll: Called now and then; gives up abandoned runs.
            traces: Emits traces; None: as the settings say.
            gauges: Further ones, as of now; waits for nothing.
            is_apart: No application runs in this interpreter: its lock need not be given back, and
                senders bound the bytes that wait.
            store: Where sums are; None: as the settings say, or memory where that fails.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        builtin, reader = builtin_judge(), reader_of(settings)
        store = store_of(settings) if store is None else store
        judging = judging_of(settings, store)
        incidents = incidents_of(settings, judging, self._lose, store)
        view = view_of(settings, reader or builtin, judging, incidents)
        entries = table.select(settings.evaluators)
        self.step = threading.Lock()
        """Held while shared state changes; a fork waits for it."""
        self._closed = False
        self._is_apart = is_apart
        self._gauges, self._poll = gauges, poll
        self._shows_page = view is not None
        self._newest = NewestReports()
        self._redactor = redactor
        self._reader = reader
        self._runner: JudgeRunner | None = None
        self._judges: list[Judge] = [reader or builtin]
        if judging is not None:
            self._runner = JudgeRunner(judging, entries, clean=redactor.text)
            self._judges.append(judging.judge)
        max_bytes = sys.maxsize if is_apart else MAX_BYTES
        self.queue = MemoryQueue(settings.capture.queue_size, max_bytes)
        """The queue in which finished interactions wait."""
        self.meters = meters_of(settings, view, self.feedback, store)
        """The series that people scrape."""
        self.traces = traces_of(settings, self._lose) if traces is None else traces
        """Emits each interaction's trace."""
        self.estimates = estimates_of(settings, reader or builtin, judging, store)
        """The windowed means and the alarms."""
        self._causes = next(each for each in self.estimates.parts if isinstance(each, Causes))
        incidents.explain = self._causes.explain
        self.ledger = Ledger(self.meters, entries, lambda: self._judges)
        """The accounts, and the notes of what was not taken."""
        self.meters.count_first(self.ledger.count_notes)
        self._exports = Exports(
            traces=self.traces,
            meters=self.meters,
            exporters=[*exporters_of(settings, self._lose, view, incidents), self._newest],
            clean=redactor.text,
        )
        self._new_handler = partial(
            AnswerHandler,
            self._exports,
            engine=ReadingEngine(entries, clean=redactor.text),
            builtin=builtin,
            reader=reader,
            runner=self._runner,
            goldens=golden_reader(settings, builtin, judging, redactor.text, store),
            estimates=self.estimates,
            prepare=lambda interaction: redactor(sound(interaction)),
            step=lambda: self.step,
            is_closed=lambda: self._closed,
        )
        self._latest = self._snapshot()
        self._thread = SupervisedThread(self._work, failed=self._restart)
        self.has_closed = threading.Event()
        """Set once every stage is closed, which may be later than `close` could wait."""
        self._submitted: set[Coroutine[Any, Any, bool]] = set()
        """The work that others than the thread have put on its loop."""
        self._prepare_loop()

    def _prepare_loop(self) -> None:
        """Begin without an event loop: also after an error that ended the last one."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waker: asyncio.Event | None = None
        self._idle = False
        self._handler = self._new_handler()
        self._reading: asyncio.Task[None] | None = None
        """The answer that the reader of every answer has in hand."""
        if self._runner is not None:
            with contained("judge"):
                self._runner.forget()

    def _lose(self, reason: str, n: int) -> None:
        """Count what did not arrive."""
        self.meters.dropped(reason, n)

    # --- the application's side -----------------------------------------------------------------

    @property
    def registry(self) -> CollectorRegistry:
        """Every series, to be mounted in an application's own metrics endpoint."""
        return self.meters.registry

    @property
    def metrics_url(self) -> str | None:
        """The address at which this process serves /metrics; None if it does not."""
        return self.meters.url

    @property
    def ui_url(self) -> str | None:
        """The address at which this process serves the page; None if it does not."""
        metrics = self.meters.url
        if metrics is None or not self._shows_page:
            return None
        return metrics.removesuffix("/metrics") + "/ragmonitor/"

    @property
    def alarms(self) -> Sequence[AlarmState]:
        """The state of each signal's evidence, as of a few seconds ago."""
        return self._latest.alarms

    def put(self, finished: Finished) -> None:
        """Take an interaction, or count it as `queue_full`."""
        if self.queue.put(finished):
            self.wake()
            self._refuse_late()
        else:
            self.ledger.refuse(finished, Cause.QUEUE_FULL)

    def newest(self) -> Report | None:
        """Return the report on the newest answer that was scored; None: there was none."""
        return self._newest.newest()

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:
        """Take note of something that happened to the application."""
        self._causes.event(name, attributes, at_s, self._redactor.text)
        self.wake()

    def feedback(self, feedback: Feedback) -> bool:
        """Take what a person said of an answer; False: too much is waiting."""
        parts = (part for part in self.estimates.parts if isinstance(part, PeoplesFeedback))
        is_taken = any(part.note(feedback) for part in parts)
        if not is_taken:
            self.ledger.give_up("feedback_full")
        self.wake()
        return is_taken

    def destination(self) -> str:
        """Say where traces go, without secrets."""
        return self.traces.destination()

    def wake(self) -> None:
        """Start the thread if there is none, or wake it if it sleeps."""
        if not self._thread.is_started:
            self._start()
        elif self._idle:
            self._idle = False
            self._signal()

    def _refuse_late(self) -> None:
        """Refuse what waits after the end: nobody else looks into the queue any more."""
        while self._closed and (left := self.queue.take(1)):
            self.ledger.refuse(left[0], Cause.SHUTDOWN)

    def _signal(self) -> None:
        loop, waker = self._loop, self._waker
        if loop is not None and waker is not None:
            # The loop may close between the look and the call, at exit.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(waker.set)

    def _start(self) -> None:
        if not self._closed:  # also in a child that was forked after the end
            self._thread.start()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything handed over so far is judged and exported; return whether it is."""
        if not self._thread.is_started:
            if not len(self.queue) or self._closed:
                return True
            self._start()
        deadline = time.monotonic() + timeout_s
        work = self._drain(timeout_s)
        drained = self._submit(work, deadline)
        try:
            if drained is None:
                return False
            return drained.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            loop = self._loop
            if drained is not None and loop is not None and not loop.is_closed():
                drained.cancel()  # else nothing is left to cancel
            return False
        finally:
            self._submitted.discard(work)

    def close(self, timeout_s: float) -> bool:
        """Flush, stop the thread and close every stage; late interactions count as `shutdown`."""
        deadline = time.monotonic() + timeout_s
        self._hurry_after(HURRY_SHARE * timeout_s)
        flushed = self.flush(timeout_s - min(MAX_STOP_S, STOP_SHARE * timeout_s))
        self._closed = True
        self._thread.close()
        self._signal()
        self._thread.join((deadline - time.monotonic()) / 2)
        with self._between_steps(deadline):
            # Interactions for which the time did not suffice are counted, if not scored.
            self.ledger.close_all(Cause.SHUTDOWN)
            self._refuse_late()
            with shielded("count"):
                self.ledger.count_notes()
        with shielded("close"):
            within(deadline - time.monotonic(), self._close_stages)
        return flushed

    def forget(self) -> None:
        """Let go of the parent's sockets, in a forked child that begins anew."""
        self.meters.forget()

    @contextlib.contextmanager
    def _between_steps(self, deadline: float) -> Iterator[None]:
        """Have the thread that still works make no step: what it reports is counted by then."""
        wait_s = min(MAX_STOP_S, deadline - time.monotonic()) / 2
        has_step = not self._thread.is_current and self.step.acquire(timeout=max(0.0, wait_s))
        try:
            yield
        finally:
            if has_step:
                self.step.release()

    def _hurry_after(self, seconds: float) -> None:
        """Have the rules read what the reader of every answer has not read by then."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(loop.call_later, seconds, self._hurry.set)

    def _close_stages(self) -> None:
        with contained("estimate"):
            self.estimates.close()
        self._exports.close()
        self.has_closed.set()

    def _submit(self, work: Coroutine[Any, Any, bool], deadline: float) -> Future[bool] | None:
        while (loop := self._loop) is None or self._waker is None:
            if not self._thread.is_started or time.monotonic() > deadline:
                work.close()
                return None
            time.sleep(0.001)  # the thread has been started and is on its way
        self._submitted.add(work)
        try:
            return asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:  # the loop was closed: the interpreter is going down
            work.close()
            return None

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool:
        if not self._is_apart:
            work_in_slices()
        try:
            run(self._main())
        finally:
            self._loop = self._waker = None
            for work in (*self._submitted, *(task.get_coro() for task in self._handler.begun)):
                # It came when the loop had ended, or had not begun when an error ended it.
                if inspect.iscoroutine(work) and _has_not_begun(work):
                    work.close()
        return False

    def _restart(self) -> None:
        with contained("worker"):
            self.meters.restarted()
        self.ledger.close_all(Cause.INTERNAL_ERROR)
        self._prepare_loop()

    async def _main(self) -> None:
        self._waker = asyncio.Event()
        self._working = asyncio.Lock()
        self._hurry = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_record_uncaught)
        runner = self._runner
        beside = [asyncio.create_task(self._tick())]
        if runner is not None:
            beside.append(asyncio.create_task(runner.prepare()))
        try:
            while not self._closed:
                await self._work_off()
                self._idle = True
                if not len(self.queue) and not self._closed:
                    await self._waker.wait()
                self._waker.clear()
                self._idle = False
                if not self._is_apart:  # else no request is on this interpreter
                    await asyncio.sleep(LINGER_S)
        finally:
            reading = () if self._reading is None else (self._reading,)
            unfinished = (*beside, *reading, *self._handler.begun)
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished, timeout=CANCEL_S)
            if runner is not None:
                with contained("judge"):
                    async with asyncio.timeout(CANCEL_S):
                        await runner.close()

    async def _work_off(self) -> None:
        # One at a time: whoever flushes waits for the answer that is in hand already.
        async with self._working:
            while (handling := self._reading or self._next()) is not None:
                if self._reader is None:
                    with contained("worker"):
                        await handling
                else:
                    # Whoever waits may be cancelled, as a flush is whose time is over: it goes on.
                    self._reading = asyncio.ensure_future(handling)
                    await asyncio.wait({self._reading})
                    self._reading = None
                await asyncio.sleep(0)

    def _next(self) -> Coroutine[Any, Any, None] | None:
        """Return the handling of what waits longest; it has an account: who closes counts it."""
        waiting = len(self.queue)
        say_whether_behind(is_behind=waiting > BEHIND_FROM)
        with self.step:
            if self._closed or not (taken := self.queue.take(1)):
                return None
            account = self.ledger.open(taken[0])
            is_behind = waiting > MAX_WAITING
            return self._handler.handle(taken[0], account, hurry=self._hurry, is_behind=is_behind)

    async def _drain(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        await self._work_off()
        while unfinished := [task for task in self._handler.begun if not task.done()]:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            await asyncio.wait(unfinished, timeout=left_s)
        self._refresh(is_due=True)
        return self._exports.flush(deadline) and not unfinished

    async def _tick(self) -> None:
        while True:
            self._refresh()
            await asyncio.sleep(TICK_S)

    def _refresh(self, *, is_due: bool = False) -> None:
        with contained("worker"), self.step:
            self.ledger.count_notes()
            with contained("estimate"):
                for event in self.estimates.tick(is_due=is_due):
                    self._exports.announce(event)
                for joined in self.estimates.joined_feedback():
                    self._exports.pass_on(joined)
            if self._runner is not None:
                with contained("estimate"):
                    self._handler.check_anchors(self._runner)
            self._latest = self._snapshot()
            with contained("capture"):
                self._poll()
            self.meters.refresh(
                snapshot=self._latest,
                queue_depth=len(self.queue) + self.queue.upstream,
                errors=errors,
            )
            if self._runner is not None:
                judge = self._runner.config.judge
                state = judge.breaker_state
                if state is not None:
                    with contained("judge"):
                        self.meters.breaker(judge.identity.name, state)
            self._exports.snapshot(self._latest)

    def _snapshot(self) -> Snapshot:
        """Return every number of now, those of the sampling included."""
        snapshot = Snapshot()
        with contained("estimate"):
            snapshot = self.estimates.snapshot()
        if self._runner is not None:
            config = self._runner.config
            with contained("sample"):
                sampling = config.sampler.gauges(config.judge.identity.name)
                snapshot = replace(snapshot, gauges=(*snapshot.gauges, *sampling))
        return replace(snapshot, gauges=(*snapshot.gauges, *self._gauges()))

    _working: asyncio.Lock
    _hurry: asyncio.Event
    """Set once the time for closing is running out."""


def _has_not_begun(work: Coroutine[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(work) == inspect.CORO_CREATED


def _record_uncaught(_loop: asyncio.AbstractEventLoop, details: Mapping[str, Any]) -> None:
    """Record an error that no task caught; asyncio's own handler would log texts of the host."""
    error = details.get("exception")
    if isinstance(error, Exception):
        record_error("worker", error)
    else:
        record_problem("worker", f"asyncio: {details.get('message', '')}")
