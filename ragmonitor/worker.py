"""The back half: take, judge, evaluate, estimate, export. One thread, one event loop.

The thread starts with the first interaction, and again in a forked child. Everything that is known
of an interaction is counted here, so that captured = scored + unscored holds by construction:
each interaction leaves exactly one report per judge, with one evaluation per evaluator.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from opentelemetry import context

from ragmonitor.evaluators import (
    Table,
    evaluate,
    unscorable,
    unscored,
)
from ragmonitor.guard import errors, logger, record_error, record_problem, shielded
from ragmonitor.judging import Bench, Readings, cleaned, diagnosed
from ragmonitor.protocols import (
    AlarmListener,
    EmbeddedJudge,
    Estimates,
    Exporter,
    Finished,
    GuardedJudge,
    HoldingJudge,
    Judge,
    Meters,
    SnapshotListener,
    TraceExporter,
)
from ragmonitor.queues import MemoryQueue
from ragmonitor.records import (
    AlarmEvent,
    Assessment,
    Cause,
    Chance,
    Interaction,
    Prediction,
    Report,
    Settled,
    Snapshot,
    SpanReference,
    Status,
)

BATCH = 64
LINGER_S = 0.01
"""Pause between waking and working: the request that woke us finishes undisturbed."""
TICK_S = 2.0
"""Gauges are refreshed, abandoned runs given up and the endpoint's port retried this often."""
JUDGE_GRACE_S = 5.0
NOTES_MOST = 10_000
FORK_WAIT_S = 1.0


class Worker:
    """Works off the queue behind the application's back."""

    def __init__(
        self,
        queue: MemoryQueue,
        *,
        embedded: EmbeddedJudge,
        bench: Bench | None,
        entries: Table,
        estimates: Estimates,
        traces: TraceExporter,
        meters: Meters,
        exporters: Sequence[Exporter],
        prepare: Callable[[Interaction], Interaction],
        clean: Callable[[str], str],
        tend: Callable[[], int],
        forget: Callable[[], None],
    ) -> None:
        """Wire the stages; nothing runs yet.

        Args:
            queue: Where finished interactions wait.
            embedded: Reads every answer.
            bench: Judges who read a share of them; None: nobody else does.
            entries: The evaluators.
            estimates: The windowed means.
            traces: Emits each interaction's trace.
            meters: What people scrape.
            exporters: Further places for reports.
            prepare: Redacts a record before anything else sees it.
            clean: Redacts one text: what an evaluator says of its failure.
            tend: Called now and then; gives up abandoned runs and returns how many are open.
            forget: Called in a forked child; drops the runs that the parent has open.
        """
        self._queue = queue
        self._embedded = embedded
        self._bench = bench
        self._entries = entries
        self._estimates = estimates
        self._traces = traces
        self._meters = meters
        self._exporters = tuple(exporters)
        self._prepare = prepare
        self._clean = clean
        self._tend = tend
        self._forget = forget
        self._starting = threading.RLock()
        self._step = threading.Lock()
        """Held while shared state changes; a fork waits for it (see `_before_fork`)."""
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waker: asyncio.Event | None = None
        self._idle = False
        self._closed = False
        self._judgements: set[asyncio.Task[None]] = set()
        self._refused: deque[tuple[str, Status, Cause]] = deque()
        self._given_up: deque[str] = deque()
        self._checks: set[asyncio.Task[None]] = set()
        """Readings outside the sample, of answers that were judged before."""
        self.latest = self._snapshot()
        """Every number as of the last refresh; may be read from any thread."""
        _survive_forks(self)

    # --- the application's side -----------------------------------------------------------------

    def wake(self) -> None:
        """Start the thread if there is none, or wake it if it sleeps."""
        if self._thread is None:
            self._start()
        elif self._idle:
            self._idle = False
            self._signal()

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken, so that nothing is missing from the sums."""
        # Counted by the worker: the counters have locks, and this is the request path.
        self._refused.append((finished.framework, finished.status, cause))
        self._keep_notes_few()

    def give_up(self, reason: str) -> None:
        """Note a run that was given up."""
        self._given_up.append(reason)
        self._keep_notes_few()

    def _keep_notes_few(self) -> None:
        # A worker that is held up, or gone, counts nothing; nothing of ours may grow without bound.
        if self._closed or len(self._refused) + len(self._given_up) > NOTES_MOST:
            self._count_refused()

    def _signal(self) -> None:
        loop, waker = self._loop, self._waker
        if loop is not None and waker is not None:
            # The loop may close between the look and the call, at exit.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(waker.set)

    def _start(self) -> None:
        # Reentrant: an interaction may end in a generator's finalizer, and garbage may be collected
        # at any allocation, those of this method included.
        with self._starting:
            thread = threading.Thread(target=self._run, name="ragmonitor", daemon=True)
            if self._thread is None and not self._closed:
                self._thread = thread
                thread.start()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything handed over so far is judged and exported; return whether it is."""
        if self._thread is None:
            if not len(self._queue) or self._closed:
                return True
            self._start()
        deadline = time.monotonic() + timeout_s
        drained = self._submit(self._drain(timeout_s), deadline)
        if drained is None:
            return False
        try:
            return drained.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            drained.cancel()
            return False

    def close(self, timeout_s: float) -> bool:
        """Flush, stop the thread and close the exporters; what is late counts as `shutdown`."""
        flushed = self.flush(timeout_s)
        with self._starting:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            self._signal()
            thread.join(max(1.0, timeout_s))
        # What the time did not suffice for, or what came in between: counted, if not scored.
        while left := self._queue.take(BATCH):
            self._refused.extend((each.framework, each.status, Cause.SHUTDOWN) for each in left)
        self._count_refused()
        for exporter in (self._traces, self._meters, *self._exporters):
            with shielded("export"):
                exporter.close()
        with shielded("estimate"):
            self._estimates.close()
        if isinstance(self._embedded, HoldingJudge):
            with shielded("judge"):
                self._embedded.stop()
        return flushed

    def _submit(self, work: Coroutine[Any, Any, bool], deadline: float) -> Future[bool] | None:
        while self._loop is None or self._waker is None:
            if time.monotonic() > deadline:
                work.close()
                return None
            time.sleep(0.001)  # the thread has been started and is on its way
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop was closed: the interpreter is going down
            work.close()
            return None

    # --- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        # On our own thread only: what a judge or an exporter calls must not be traced as traffic.
        context.attach(context.set_value("suppress_instrumentation", True))
        with shielded("worker"):
            asyncio.run(self._main())

    async def _main(self) -> None:
        self._waker = asyncio.Event()
        self._working = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_escaped)
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
                await asyncio.sleep(LINGER_S)
        finally:
            unfinished = (ticking, preparing, *self._judgements, *self._checks)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
            if self._bench is not None:
                await self._bench.close()

    async def _prepare_judges(self) -> None:
        if self._bench is not None:
            await self._bench.prepare()

    async def _work_off(self) -> None:
        # One at a time: whoever flushes waits for the batch that is in hand already.
        async with self._working:
            while batch := self._queue.take(BATCH):
                for finished in batch:
                    with shielded("worker"), self._step:
                        self._handle(finished)
                    await asyncio.sleep(0)

    async def _drain(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        await self._work_off()
        while unfinished := [t for t in (*self._judgements, *self._checks) if not t.done()]:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            await asyncio.wait(unfinished, timeout=left_s)
        self._refresh()
        flushed = not unfinished
        for exporter in (self._traces, self._meters, *self._exporters):
            with shielded("export"):
                # On this thread: at exit no executor takes work any more, and nothing else waits.
                flushed = exporter.flush(max(0.1, deadline - time.monotonic())) and flushed
        return flushed

    async def _tick(self) -> None:
        while True:
            self._refresh()
            await asyncio.sleep(TICK_S)

    def _refresh(self) -> None:
        with shielded("worker"), self._step:
            self._count_refused()
            self._estimate()
            self.latest = self._snapshot()
            self._meters.refresh(
                snapshot=self.latest,
                queue_depth=len(self._queue),
                open_runs=self._tend(),
                errors=errors,
            )
            for judge in self._bench.judging.reporting if self._bench is not None else ():
                if isinstance(judge, GuardedJudge):
                    self._meters.breaker(judge.identity.name, judge.breaker_state)
            for exporter in self._exporters:
                if isinstance(exporter, SnapshotListener):
                    with shielded("export"):
                        exporter.snapshot(self.latest)

    def _snapshot(self) -> Snapshot:
        """Return every number of now, those of the sampling included."""
        snapshot = Snapshot()
        with shielded("estimate"):
            snapshot = self._estimates.snapshot()
        if self._bench is not None:
            judging = self._bench.judging
            with shielded("sample"):
                sampling = judging.sampler.readings(judging.judge.identity.name)
                snapshot = replace(snapshot, readings=(*snapshot.readings, *sampling))
        return snapshot

    def _estimate(self) -> None:
        with shielded("estimate"):
            for event in self._estimates.tick():
                self._announce(event)
        if self._bench is None:
            return
        judging = self._bench.judging
        with shielded("sample"):
            judging.sampler.boost(self._estimates.boost)
        if judging.second is not None:
            judging.second.alarmed = self._estimates.alarmed
        with shielded("estimate"):
            self._check_anchors(self._bench)

    def _announce(self, event: AlarmEvent) -> None:
        logger.warning("ragmonitor: %s", event)
        for exporter in (self._traces, self._meters, *self._exporters):
            if isinstance(exporter, AlarmListener):
                with shielded("export"):
                    exporter.alarm(event)

    # --- one interaction ------------------------------------------------------------------------

    def _count_refused(self) -> None:
        # Two threads may be at it, so either may find the last one gone.
        with contextlib.suppress(IndexError):
            while self._given_up:
                self._meters.dropped(self._given_up.popleft())
        with contextlib.suppress(IndexError):
            while self._refused:
                framework, status, cause = self._refused.popleft()
                self._meters.interaction(framework, status)
                self._meters.dropped(cause.value)
                for judge in self._judges():
                    self._meters.evaluations(unscored(self._entries, judge.identity, cause))

    def _judges(self) -> tuple[Judge, ...]:
        """Return who reports on every interaction; a fallback does where it was asked."""
        if self._bench is None:
            return (self._embedded,)
        judging = self._bench.judging
        second = () if judging.second is None else (judging.second.judge,)
        return self._embedded, judging.judge, *second

    @contextlib.contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Measure what one interaction costs here."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._meters.worked(stage, time.perf_counter() - began)

    def _handle(self, finished: Finished) -> None:
        with self._timed("assemble"):
            interaction = self._assembled(finished)
        if interaction is None:
            return
        self._meters.interaction(interaction.framework, interaction.status)
        with self._timed("read"):
            embedded = self._read(interaction)
        bench = self._bench
        if bench is None:
            target = self._deliver(interaction, [embedded])
            self._settle(Settled(embedded=embedded, target=target))
            return
        with self._timed("sample"):
            prediction = self._predict(embedded)
            waiting = len(self._judgements)
            chance, cause = bench.draw(interaction, prediction, waiting=waiting)
        if cause is not None:
            found = bench.unread(interaction, chance, cause)
            target = self._deliver(interaction, [embedded, *found.reports])
            self._settle(
                Settled(
                    embedded=embedded,
                    prediction=prediction,
                    chance=chance,
                    judged=found.judged if chance.drawn else None,
                    target=target,
                )
            )
            return
        judgement = asyncio.get_running_loop().create_task(
            self._judge(bench, embedded, prediction, chance)
        )
        self._judgements.add(judgement)
        judgement.add_done_callback(self._judgements.discard)

    def _assembled(self, finished: Finished) -> Interaction | None:
        try:
            interaction = finished.interaction()
        except Exception:  # counted here; goes on to the caller, which logs it as our error
            self._meters.dropped("unreadable")
            raise
        return None if interaction is None else self._prepare(interaction)

    def _predict(self, embedded: Report) -> Prediction:
        with shielded("estimate"):
            return self._estimates.predict(embedded)
        return Prediction()

    def _settle(self, settled: Settled) -> None:
        """Have an answer estimated, if it is one: what failed or was cut short is counted only."""
        if unscorable(settled.interaction) is None:
            with shielded("estimate"), self._timed("estimate"):
                self._estimates.add(settled)

    def _read(self, interaction: Interaction) -> Report:
        identity = self._embedded.identity
        assessment: Assessment | None = None
        cause = unscorable(interaction)
        if cause is None:
            try:
                assessment = self._embedded.read(interaction)
            except Exception as error:  # noqa: BLE001 - one unreadable answer must cost only itself
                record_error("judge", error)
                cause = Cause.JUDGE_ERROR
        evaluations = (
            unscored(self._entries, identity, cause or Cause.JUDGE_ERROR)
            if assessment is None
            else cleaned(evaluate(self._entries, interaction, assessment), self._clean)
        )
        return Report(
            interaction=interaction,
            judge=identity,
            evaluations=evaluations,
            assessment=assessment,
            diagnosis=diagnosed(interaction, assessment),
            role="builtin",
        )

    async def _judge(
        self, bench: Bench, embedded: Report, prediction: Prediction, chance: Chance
    ) -> None:
        interaction, wait_s = embedded.interaction, bench.judging.wait_s
        asking = asyncio.ensure_future(bench.ask(interaction, chance))
        delivered, target = False, None
        try:
            if wait_s > 0:
                await asyncio.wait({asking}, timeout=wait_s)
            if not asking.done():
                with self._step:
                    delivered, target = True, self._deliver(interaction, [embedded])
            found = await asking
        except asyncio.CancelledError:
            asking.cancel()
            await asyncio.wait({asking})  # it settles what it spent
            found = bench.unread(interaction, chance, Cause.SHUTDOWN)
        with self._step:
            if delivered:
                for report in found.reports:
                    self._export(replace(report, target=target, late=True))
            else:
                target = self._deliver(interaction, [embedded, *found.reports])
            self._settle(
                Settled(
                    embedded=embedded,
                    prediction=prediction,
                    chance=chance,
                    judged=found.judged,
                    stand_in=found.stand_in,
                    target=target,
                )
            )
            self._compare(found)

    def _compare(self, found: Readings) -> None:
        """Take note of what two readings of one answer have in common."""
        if found.compared is not None:
            with shielded("export"):
                self._meters.compared(*found.compared)
        if found.again is not None and found.judged is not None:
            with shielded("export"):
                self._meters.charged(found.again)
            with shielded("estimate"):
                self._estimates.repeated(found.judged, found.again)

    def _check_anchors(self, bench: Bench) -> None:
        """Have answers that were judged before read again: one batch at a time."""
        if bench.judging.repeating is None or bench.judging.is_down or self._checks:
            return
        for interaction in self._estimates.due():
            chance = bench.reserve(interaction)
            if chance is None:  # nothing left to pay it with: it will be due again
                self._estimates.checked(interaction, None)
                continue
            check = asyncio.get_running_loop().create_task(self._check(bench, interaction, chance))
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def _check(self, bench: Bench, interaction: Interaction, chance: Chance) -> None:
        report = await bench.check(interaction, chance)
        with self._step:
            with shielded("estimate"):
                self._estimates.checked(interaction, report)
            if report is not None:
                with shielded("export"):
                    self._meters.charged(report)

    def _deliver(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        target: SpanReference | None = None
        with self._timed("export"):
            with shielded("export"):
                target = self._traces.emit(interaction, reports)
            with shielded("export"):
                self._meters.answered(interaction, target)
            for report in reports:
                self._export(replace(report, target=target))
        return target

    def _export(self, report: Report) -> None:
        for exporter in (self._meters, *self._exporters):
            with shielded("export"):
                exporter.export(report)
        if report.late:
            with shielded("export"):
                self._traces.export(report)

    # --- forks ----------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait for a moment in which no lock of a client library is held by our thread."""
        self._forking = self._step.acquire(timeout=FORK_WAIT_S)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._forking:
            self._step.release()

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread, and what waits, stayed with the parent."""
        self._starting = threading.RLock()
        self._step = threading.Lock()
        self._thread = self._loop = self._waker = None
        if self._bench is not None:
            self._bench.forget()
        self._idle = False
        self._judgements = set()
        self._checks = set()
        self._queue.clear()
        self._refused.clear()
        self._given_up.clear()
        self._estimates.clear()
        self._forget()
        with shielded("export"):
            self._meters.after_fork_in_child()

    _working: asyncio.Lock
    """What the sampler said last."""
    _forking = False


def _escaped(_loop: asyncio.AbstractEventLoop, told: Mapping[str, Any]) -> None:
    """Take what nobody caught: asyncio's own handler would log its message and its traceback."""
    error = told.get("exception")
    if isinstance(error, Exception):
        record_error("worker", error)
    else:
        record_problem("worker", f"asyncio: {told.get('message', '')}")


def _survive_forks(worker: Worker) -> None:
    if not hasattr(os, "register_at_fork"):
        return
    reference = weakref.ref(worker)

    def call(method: Callable[[Worker], None]) -> Callable[[], None]:
        def hook() -> None:
            alive = reference()
            if alive is not None:
                with shielded("fork"):
                    method(alive)

        return hook

    os.register_at_fork(
        before=call(Worker.before_fork),
        after_in_parent=call(Worker.after_fork_in_parent),
        after_in_child=call(Worker.after_fork_in_child),
    )
