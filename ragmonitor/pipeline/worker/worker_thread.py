"""The back half: take, judge, evaluate, estimate, export. One thread, one event loop.

The thread starts with the first interaction. After an error that ends its loop it begins again
after a pause, and that is counted. Each interaction has an account (`ragmonitor.pipeline.ledger`),
so that captured = scored + unscored holds by construction: it leaves exactly one report per judge,
with one evaluation per evaluator.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ragmonitor.evaluators import Table
from ragmonitor.judges.every_answer import MAX_WAITING, EveryAnswerReader
from ragmonitor.pipeline.golden_reading import GoldenReader
from ragmonitor.pipeline.judging import JudgeRunner, ReadingEngine
from ragmonitor.pipeline.ledger import Account, Ledger
from ragmonitor.pipeline.worker.answer_handling import CANCEL_S, AnswerHandler
from ragmonitor.pipeline.worker.exports import Exports
from ragmonitor.records import Cause, GaugeValue, Interaction, Snapshot
from ragmonitor.runtime.apart import run, within
from ragmonitor.runtime.capabilities import CapableJudge
from ragmonitor.runtime.guard import contained, errors, record_error, record_problem, shielded
from ragmonitor.runtime.lock_slices import say_whether_behind, work_in_slices
from ragmonitor.runtime.protocols import Exporter, Finished, Judge, TraceExporter
from ragmonitor.runtime.queues import MemoryQueue
from ragmonitor.runtime.supervised import SupervisedThread
from ragmonitor.stats.service import Statistics

if TYPE_CHECKING:
    from ragmonitor.export.prometheus import PrometheusExporter

BATCH = 64
LINGER_S = 0.01
"""Pause between waking and working: the request that woke us finishes undisturbed."""
BEHIND_FROM = 16
"""With more interactions waiting the work is not done in slices."""
TICK_S = 2.0
"""Gauges are refreshed, abandoned runs given up and the endpoint's port retried this often."""
HURRY_SHARE = 0.4
"""A share of the time for closing; after it the built-in rules read what an encoder has not
read."""
STOP_SHARE = 0.25
MAX_STOP_S = 1.5
"""Flushing leaves this share of the time for closing, `MAX_STOP_S` at most, to the rest of it."""


class Worker:
    """Works off the queue behind the application's back."""

    def __init__(
        self,
        queue: MemoryQueue,
        *,
        builtin: CapableJudge,
        reader: EveryAnswerReader | None = None,
        runner: JudgeRunner | None,
        entries: Table,
        estimates: Statistics,
        traces: TraceExporter,
        meters: PrometheusExporter,
        exporters: Sequence[Exporter],
        prepare: Callable[[Interaction], Interaction],
        clean: Callable[[str], str],
        poll: Callable[[], object],
        gauges: Callable[[], Sequence[GaugeValue]] = tuple,
        goldens: GoldenReader | None = None,
        is_apart: bool = False,
    ) -> None:
        """Wire the stages; nothing runs yet.

        Args:
            queue: Where finished interactions wait.
            builtin: The built-in rules, which read every answer.
            reader: Reads every answer in their place; the rules then read what it could not. None:
                they read all.
            runner: Asks the judges that read a share of them; None: there are none.
            entries: The evaluators.
            estimates: The windowed means.
            traces: Emits each interaction's trace.
            meters: What people scrape.
            exporters: Further places for reports.
            prepare: Redacts a record before anything else sees it.
            clean: Redacts one text: what an evaluator says of its failure, what people say.
            poll: Called now and then; gives up abandoned runs.
            gauges: Further ones, as of now; waits for nothing.
            goldens: Has answers to golden questions judged; None: they are counted only.
            is_apart: No application runs in this interpreter: its lock need not be given back.
        """
        self._closed = False
        self._is_apart = is_apart
        self._gauges = gauges
        self._queue = queue
        self._builtin = builtin
        self._reader = reader
        self._runner = runner
        self._estimates = estimates
        self._exports = Exports(traces=traces, meters=meters, exporters=exporters, clean=clean)
        self._new_handler = partial(
            AnswerHandler,
            self._exports,
            engine=ReadingEngine(entries, clean=clean),
            builtin=builtin,
            reader=reader,
            runner=runner,
            goldens=goldens,
            estimates=estimates,
            prepare=prepare,
            step=lambda: self._step,
            is_closed=lambda: self._closed,
        )
        self._poll = poll
        self.ledger = Ledger(meters, entries, self._judges)
        """The accounts, and the notes of what was not taken."""
        meters.count_first(self.ledger.count_notes)
        self.latest = self._snapshot()
        """Every number as of the last refresh; may be read from any thread."""
        self._thread = SupervisedThread(self._work, failed=self._restart)
        self._step = threading.Lock()
        """Held while shared state changes; a fork waits for it."""
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

    # --- the application's side -----------------------------------------------------------------

    @property
    def step(self) -> threading.Lock:
        """A lock that is held while shared state changes: a fork waits for it."""
        return self._step

    def wake(self) -> None:
        """Start the thread if there is none, or wake it if it sleeps."""
        if not self._thread.is_started:
            self._start()
        elif self._idle:
            self._idle = False
            self._signal()

    def refuse_late(self) -> None:
        """Refuse what waits after the end: nobody else looks into the queue any more."""
        while self._closed and (left := self._queue.take(BATCH)):
            for finished in left:
                self.ledger.refuse(finished, Cause.SHUTDOWN)

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
            if not len(self._queue) or self._closed:
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
            self.refuse_late()
            with shielded("count"):
                self.ledger.count_notes()
        with shielded("close"):
            within(deadline - time.monotonic(), self._close_stages)
        return flushed

    @contextlib.contextmanager
    def _between_steps(self, deadline: float) -> Iterator[None]:
        """Have the thread that still works make no step: what it reports is counted by then."""
        wait_s = min(MAX_STOP_S, deadline - time.monotonic()) / 2
        has_step = not self._thread.is_current and self._step.acquire(timeout=max(0.0, wait_s))
        try:
            yield
        finally:
            if has_step:
                self._step.release()

    def _hurry_after(self, seconds: float) -> None:
        """Have the rules read what the reader of every answer has not read by then."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(loop.call_later, seconds, self._hurry.set)

    def _close_stages(self) -> None:
        with contained("estimate"):
            self._estimates.close()
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
            self._exports.meters.restarted()
        self.ledger.close_all(Cause.INTERNAL_ERROR)
        self._prepare_loop()

    async def _main(self) -> None:
        self._waker = asyncio.Event()
        self._working = asyncio.Lock()
        self._hurry = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_record_uncaught)
        ticking = asyncio.create_task(self._tick())
        preparing = asyncio.create_task(self._prepare_judges())
        try:
            while not self._closed:
                await self._work_off()
                self._idle = True
                if not len(self._queue) and not self._closed:
                    await self._waker.wait()
                self._waker.clear()
                self._idle = False
                if not self._is_apart:  # else no request is on this interpreter
                    await asyncio.sleep(LINGER_S)
        finally:
            reading = () if self._reading is None else (self._reading,)
            unfinished = (ticking, preparing, *reading, *self._handler.begun)
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished, timeout=CANCEL_S)
            if self._runner is not None:
                with contained("judge"):
                    async with asyncio.timeout(CANCEL_S):
                        await self._runner.close()

    async def _prepare_judges(self) -> None:
        if self._runner is not None:
            await self._runner.prepare()

    async def _work_off(self) -> None:
        # One at a time: whoever flushes waits for the answer that is in hand already.
        async with self._working:
            if self._reader is not None:
                await self._work_off_slowly(self._reader)
            while taken := self._take(1):
                with contained("worker"), self._step:
                    self._handler.handle(*taken[0])
                await asyncio.sleep(0)

    @property
    def _waiting(self) -> int:
        """The number that wait for this thread; at the end none does: who closes counts them."""
        return 0 if self._closed else len(self._queue)

    def _take(self, max_items: int) -> Sequence[tuple[Finished, Account]]:
        """Return what waits, with an account for each: who closes counts it, done or not."""
        say_whether_behind(is_behind=len(self._queue) > BEHIND_FROM)
        with self._step:
            waiting = () if self._closed else self._queue.take(max_items)
            return [(finished, self.ledger.open(finished)) for finished in waiting]

    async def _work_off_slowly(self, reader: EveryAnswerReader) -> None:
        """Have the reader of every answer work off the queue, one answer after the other."""
        while self._reading is not None or self._waiting:
            if self._reading is None:
                is_behind = self._waiting > MAX_WAITING
                for finished, account in self._take(1):
                    if is_behind:
                        with contained("worker"), self._step:
                            self._handler.handle(finished, account)
                        await asyncio.sleep(0)
                    else:
                        handling = self._handler.handle_slowly(
                            reader, finished, account, hurry=self._hurry
                        )
                        self._reading = asyncio.create_task(handling)
            if self._reading is not None:
                # Whoever waits may be cancelled, as a flush is whose time is over: it goes on.
                await asyncio.wait({self._reading})
                self._reading = None

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
        with contained("worker"), self._step:
            self.ledger.count_notes()
            self._estimate(is_due=is_due)
            self.latest = self._snapshot()
            with contained("capture"):
                self._poll()
            self._exports.meters.refresh(
                snapshot=self.latest,
                queue_depth=len(self._queue) + self._queue.upstream,
                errors=errors,
            )
            if self._runner is not None:
                judge = self._runner.config.judge
                state = judge.breaker_state
                if state is not None:
                    with contained("judge"):
                        self._exports.meters.breaker(judge.identity.name, state)
            self._exports.snapshot(self.latest)

    def _snapshot(self) -> Snapshot:
        """Return every number of now, those of the sampling included."""
        snapshot = Snapshot()
        with contained("estimate"):
            snapshot = self._estimates.snapshot()
        if self._runner is not None:
            config = self._runner.config
            with contained("sample"):
                sampling = config.sampler.gauges(config.judge.identity.name)
                snapshot = replace(snapshot, gauges=(*snapshot.gauges, *sampling))
        return replace(snapshot, gauges=(*snapshot.gauges, *self._gauges()))

    def _estimate(self, *, is_due: bool) -> None:
        with contained("estimate"):
            for event in self._estimates.tick(is_due=is_due):
                self._exports.announce(event)
            for joined in self._estimates.joined_feedback():
                self._exports.pass_on(joined)
        if self._runner is None:
            return
        with contained("estimate"):
            self._handler.check_anchors(self._runner)

    def _judges(self) -> tuple[Judge, ...]:
        """Return who reports on every interaction."""
        reader: Judge = self._reader or self._builtin
        if self._runner is None:
            return (reader,)
        return reader, self._runner.config.judge

    _step: threading.Lock
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
