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
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from opentelemetry import context

from ragmonitor.errors import JudgeError, MissingExtraError, RagMonitorError
from ragmonitor.evaluators import (
    Table,
    diagnosis,
    evaluate,
    evaluate_asking,
    unscorable,
    unscored,
)
from ragmonitor.guard import errors, logger, record_error, shielded
from ragmonitor.protocols import (
    AlarmListener,
    ConnectedJudge,
    EmbeddedJudge,
    Estimates,
    Exporter,
    Finished,
    GuardedJudge,
    HoldingJudge,
    Judge,
    Meters,
    Sampler,
    SnapshotListener,
    TraceExporter,
)
from ragmonitor.queues import MemoryQueue
from ragmonitor.records import (
    CERTAIN,
    AlarmEvent,
    Assessment,
    Cause,
    Chance,
    Diagnosis,
    Interaction,
    JudgeUsage,
    Prediction,
    Reading,
    Report,
    Settled,
    Snapshot,
    SpanReference,
    Status,
)
from ragmonitor.sampling import coin

BATCH = 64
LINGER_S = 0.01
"""Pause between waking and working: the request that woke us finishes undisturbed."""
TICK_S = 2.0
"""Gauges are refreshed, abandoned runs given up and the endpoint's port retried this often."""
JUDGE_GRACE_S = 5.0
NOTES_MOST = 10_000
FORK_WAIT_S = 1.0


_PASSED_ON = (Cause.JUDGE_ERROR, Cause.JUDGE_TIMEOUT, Cause.JUDGE_DOWN)
"""What one judge failed to read for these causes, the next one is asked to."""


@dataclass(slots=True, kw_only=True)
class SecondReading:
    """A judge that reads a share of what the first one reads, to be compared with it."""

    judge: Judge
    rate: float
    on_alarm: bool = False
    """Whether it reads all of them while an alarm is active."""
    alarmed: bool = False

    @property
    def share(self) -> float:
        """What it reads of the judged answers now."""
        return 1.0 if self.on_alarm and self.alarmed else self.rate

    def reads(self, interaction: Interaction) -> bool:
        """Return whether it reads this one too; independent of the first judge's coin."""
        return coin(f"{interaction.id} second") < self.share


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeating:
    """The same judge, asked again: how often it disagrees with itself, and with its past."""

    judge: Judge
    """Of the first judge's identity; it keeps no readings to give out again."""
    rate: float
    """Share of the judged answers that are read twice."""

    def reads(self, interaction: Interaction) -> bool:
        """Return whether this one is read twice; independent of the other coins."""
        return coin(f"{interaction.id} repeat") < self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """The judge that reads a share of the answers, and how that share is drawn."""

    judge: Judge
    fallbacks: tuple[Judge, ...] = ()
    """Asked in turn where the judge's provider fails; each reports under its own identity."""
    second: SecondReading | None = None
    repeating: Repeating | None = None
    sampler: Sampler
    concurrency: int
    waiting_most: int
    """Drawn answers that may wait; beyond, none is drawn."""
    reading_timeout_s: float
    """Over all calls of one reading."""
    wait_s: float
    """How long a trace is held for the judge's scores."""
    spent: Callable[[JudgeUsage], float]
    """What a reading cost, in the budget's unit."""

    @property
    def chain(self) -> tuple[Judge, ...]:
        """Who is asked, in turn, until one has read the answer."""
        return self.judge, *self.fallbacks

    @property
    def reporting(self) -> tuple[Judge, ...]:
        """Whose readings are reported."""
        return self.chain if self.second is None else (*self.chain, self.second.judge)

    @property
    def judges(self) -> tuple[Judge, ...]:
        """All of them."""
        again = () if self.repeating is None else (self.repeating.judge,)
        return *self.reporting, *again

    @property
    def is_down(self) -> bool:
        """Whether nobody would be asked now."""
        return not any(_admits(judge) for judge in self.chain)


class Worker:
    """Works off the queue behind the application's back."""

    def __init__(
        self,
        queue: MemoryQueue,
        *,
        embedded: EmbeddedJudge,
        judging: Judging | None,
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
            judging: Reads a share of them; None: nobody else does.
            entries: The evaluators.
            estimates: The windowed means.
            traces: Emits each interaction's trace.
            meters: What people scrape.
            exporters: Further places for reports.
            prepare: Redacts a record before anything else sees it.
            clean: Redacts one text: what a judge's provider says of a failure.
            tend: Called now and then; gives up abandoned runs and returns how many are open.
            forget: Called in a forked child; drops the runs that the parent has open.
        """
        self._queue = queue
        self._embedded = embedded
        self._judging = judging
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
        ticking = asyncio.create_task(self._tick())
        self._prepared = asyncio.create_task(self._prepare_judges())
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
            unfinished = (ticking, self._prepared, *self._judgements, *self._checks)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
            for judge in self._judging.judges if self._judging is not None else ():
                if isinstance(judge, ConnectedJudge):
                    with shielded("judge"):
                        await judge.close()

    async def _prepare_judges(self) -> None:
        for judge in self._judging.judges if self._judging is not None else ():
            if not isinstance(judge, ConnectedJudge):
                continue
            try:
                await judge.prepare()
            except RagMonitorError as error:
                # Each reading will say so too; here it is said before any money was expected of it.
                logger.warning("ragmonitor: the judge cannot read: %s", error)

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
            snapshot = self._estimates.snapshot()
            self._meters.refresh(
                snapshot=snapshot,
                queue_depth=len(self._queue),
                open_runs=self._tend(),
                errors=errors,
            )
            for judge in self._judging.reporting if self._judging is not None else ():
                if isinstance(judge, GuardedJudge):
                    self._meters.breaker(judge.identity.name, judge.breaker_state)
            self._show(snapshot)

    def _show(self, snapshot: Snapshot) -> None:
        """Show the numbers of now to exporters that want them, those of the sampling included."""
        for exporter in self._exporters:
            if isinstance(exporter, SnapshotListener):
                with shielded("export"):
                    exporter.snapshot(
                        replace(snapshot, readings=(*snapshot.readings, *self._sampling))
                    )

    def _estimate(self) -> None:
        with shielded("estimate"):
            for event in self._estimates.tick():
                self._announce(event)
        judging = self._judging
        if judging is None:
            return
        with shielded("sample"):
            judging.sampler.boost(self._estimates.boost)
            self._sampling = tuple(judging.sampler.readings(judging.judge.identity.name))
            self._meters.readings(self._sampling)
        if judging.second is not None:
            judging.second.alarmed = self._estimates.alarmed
        with shielded("estimate"):
            self._check_anchors(judging)

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
        judging = self._judging
        if judging is None:
            return (self._embedded,)
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
        if self._judging is None:
            target = self._deliver(interaction, [embedded])
            self._settle(Settled(embedded=embedded, target=target))
            return
        with self._timed("sample"):
            prediction = self._predict(embedded)
            chance, cause = self._draw(interaction, prediction, self._judging)
        if cause is not None:
            unread = self._unread(interaction, self._judging, chance, cause)
            target = self._deliver(interaction, [embedded, *unread])
            self._settle(
                Settled(
                    embedded=embedded,
                    prediction=prediction,
                    chance=chance,
                    judged=unread[0] if chance.drawn else None,
                    target=target,
                )
            )
            return
        judgement = asyncio.get_running_loop().create_task(
            self._judge(interaction, embedded, prediction, self._judging, chance)
        )
        self._judgements.add(judgement)
        judgement.add_done_callback(self._judgements.discard)

    def _assembled(self, finished: Finished) -> Interaction | None:
        try:
            interaction = finished.interaction()
        except Exception:
            # Counted as dropped, then logged and counted as our error by the caller.
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
            else evaluate(self._entries, interaction, assessment)
        )
        return Report(
            interaction=interaction,
            judge=identity,
            evaluations=evaluations,
            assessment=assessment,
            diagnosis=_diagnosed(interaction, assessment),
        )

    def _draw(
        self, interaction: Interaction, prediction: Prediction, judging: Judging
    ) -> tuple[Chance, Cause | None]:
        cause = unscorable(interaction)
        if cause is not None:
            return CERTAIN, cause
        # Before the coin: what is drawn is always read, or the mean would be biased.
        if len(self._judgements) >= judging.waiting_most:
            chance = Chance(probability=0.0, drawn=False, cause=Cause.JUDGE_BUSY)
        elif judging.is_down:
            chance = Chance(probability=0.0, drawn=False, cause=Cause.JUDGE_DOWN)
        else:
            try:
                chance = judging.sampler.draw(interaction, uncertainty=prediction.uncertainty)
            except JudgeError as error:  # it could not be read at any cost
                chance = Chance(probability=0.0, drawn=False, cause=error.cause)
            except Exception as error:  # noqa: BLE001 - a judge that cannot tell what it costs
                record_error("sample", error)
                chance = Chance(probability=0.0, drawn=False, cause=Cause.JUDGE_ERROR)
        return chance, chance.cause or (None if chance.drawn else Cause.NOT_SAMPLED)

    def _unread(
        self, interaction: Interaction, judging: Judging, chance: Chance, cause: Cause
    ) -> list[Report]:
        reports = [self._unread_by(judging.judge, interaction, chance, cause)]
        its_chance = _second_chance(interaction, chance, judging)
        if judging.second is not None and its_chance is not None:
            reports.append(self._unread_by(judging.second.judge, interaction, its_chance, cause))
        return reports

    def _unread_by(
        self, judge: Judge, interaction: Interaction, chance: Chance, cause: Cause
    ) -> Report:
        return Report(
            interaction=interaction,
            judge=judge.identity,
            evaluations=unscored(self._entries, judge.identity, cause),
            assessment=None,
            chance=chance,
        )

    async def _judge(
        self,
        interaction: Interaction,
        embedded: Report,
        prediction: Prediction,
        judging: Judging,
        chance: Chance,
    ) -> None:
        asking = asyncio.ensure_future(self._ask(interaction, judging, chance))
        delivered, target = False, None
        try:
            if judging.wait_s > 0:
                await asyncio.wait({asking}, timeout=judging.wait_s)
            if not asking.done():
                with self._step:
                    delivered, target = True, self._deliver(interaction, [embedded])
            reports = await asking
        except asyncio.CancelledError:
            asking.cancel()
            await asyncio.wait({asking})  # it settles what it spent
            reports = self._unread(interaction, judging, chance, Cause.SHUTDOWN)
        with self._step:
            if delivered:
                for report in reports:
                    self._export(replace(report, target=target, late=True))
            else:
                target = self._deliver(interaction, [embedded, *reports])
            judged, stand_in = _verdicts(reports, judging)
            self._settle(
                Settled(
                    embedded=embedded,
                    prediction=prediction,
                    chance=chance,
                    judged=judged,
                    stand_in=stand_in,
                    target=target,
                )
            )
            with shielded("export"):
                self._compare(reports, judging)

    def _compare(self, reports: Sequence[Report], judging: Judging) -> None:
        *firsts, last = reports
        first = next((report for report in firsts if report.assessment is not None), None)
        if judging.second is not None and first is not None and last.assessment is not None:
            self._meters.compared(first, last)

    async def _ask(
        self, interaction: Interaction, judging: Judging, chance: Chance
    ) -> list[Report]:
        """Return what the judge found, or who stood in for it, and what the second one did."""
        reports: list[Report] = []
        spent = 0.0
        # Decided while the coin falls, since the money is set aside then.
        second = _second_chance(interaction, chance, judging)
        try:
            # These first: waiting for them must not use up the judge's own time.
            await asyncio.wait({self._prepared})
            async with self._slots(judging):
                spent = chance.reserved  # if this is cancelled nobody knows what it cost
                costs: list[float] = []
                for judge in judging.chain:
                    report, cause, cost = await self._ask_one(judge, interaction, judging, chance)
                    reports.append(report)
                    costs.append(chance.reserved if cost is None else cost)
                    if cause not in _PASSED_ON:
                        break
                costs.append(await self._repeat(interaction, judging, chance, reports[-1]))
                if second is not None:
                    report, cost = await self._ask_again(interaction, judging, second)
                    reports.append(report)
                    costs.append(chance.reserved if cost is None else cost)
                spent = sum(costs)
        finally:
            judging.sampler.settle(chance, spent)
        return reports

    async def _ask_again(
        self, interaction: Interaction, judging: Judging, its_chance: Chance
    ) -> tuple[Report, float | None]:
        second = judging.second
        assert second is not None  # noqa: S101 - for the type; the caller looked
        if not its_chance.drawn:
            return self._unread_by(second.judge, interaction, its_chance, Cause.NOT_SAMPLED), 0.0
        report, _, cost = await self._ask_one(second.judge, interaction, judging, its_chance)
        return report, cost

    async def _repeat(
        self, interaction: Interaction, judging: Judging, chance: Chance, first: Report
    ) -> float:
        """Have the judge read some answers twice, and return what that cost."""
        repeating = judging.repeating
        if (
            repeating is None
            or first.assessment is None
            or first.judge != repeating.judge.identity
            or not repeating.reads(interaction)
        ):
            return 0.0
        again, _, cost = await self._ask_one(repeating.judge, interaction, judging, chance)
        with self._step:
            self._meters.charged(again)
            with shielded("estimate"):
                self._estimates.repeated(first, again)
        return chance.reserved if cost is None else cost

    # --- answers that were judged before --------------------------------------------------------

    def _check_anchors(self, judging: Judging) -> None:
        repeating = judging.repeating
        if repeating is None or judging.is_down or self._checks:
            return
        for interaction in self._estimates.due():
            chance = judging.sampler.reserve(interaction)
            check = asyncio.get_running_loop().create_task(
                self._check(interaction, judging, repeating.judge, chance)
            )
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def _check(
        self, interaction: Interaction, judging: Judging, judge: Judge, chance: Chance | None
    ) -> None:
        if chance is None:  # nothing left to pay it with: it will be due again
            with shielded("estimate"):
                self._estimates.checked(interaction, None)
            return
        spent = chance.reserved
        report: Report | None = None
        try:
            await asyncio.wait({self._prepared})
            async with self._slots(judging):
                report, _, cost = await self._ask_one(judge, interaction, judging, chance)
            spent = chance.reserved if cost is None else cost
        finally:
            judging.sampler.settle(chance, spent)
            with self._step, shielded("estimate"):
                self._estimates.checked(interaction, report)
        with self._step:
            self._meters.charged(report)

    async def _ask_one(
        self, judge: Judge, interaction: Interaction, judging: Judging, chance: Chance
    ) -> tuple[Report, Cause | None, float | None]:
        """Return a judge's report, why there are no scores, and the cost; None: nobody knows it."""
        usage: JudgeUsage | None = None
        within_s = judging.reading_timeout_s + JUDGE_GRACE_S
        try:
            async with asyncio.timeout(within_s):
                assessment = await judge.assess(interaction)
            usage = assessment.usage
            evaluations, asked = await evaluate_asking(
                self._entries, interaction, assessment, judge, within_s=within_s
            )
        except JudgeError as error:
            cause, detail, usage = error.cause, str(error), error.usage
        except TimeoutError:
            cause, detail = Cause.JUDGE_TIMEOUT, "no reply within the time for one reading"
        except Exception as error:  # noqa: BLE001 - a judge is anybody's code
            record_error("judge", error)
            cause, detail = Cause.JUDGE_ERROR, f"{type(error).__name__}: {error}"
            if isinstance(error, MissingExtraError):
                usage = JudgeUsage()
        else:
            usage += asked
            report = Report(
                interaction=interaction,
                judge=assessment.judge,
                evaluations=evaluations,
                assessment=assessment,
                chance=chance,
                diagnosis=_diagnosed(interaction, assessment),
                usage=usage,
            )
            return report, None, judging.spent(usage)
        report = Report(
            interaction=interaction,
            judge=judge.identity,
            evaluations=unscored(self._entries, judge.identity, cause, self._clean(detail)),
            assessment=None,
            chance=chance,
            usage=usage or JudgeUsage(calls=1),
        )
        return report, cause, None if usage is None else judging.spent(usage)

    def _slots(self, judging: Judging) -> asyncio.Semaphore:
        if self._slots_held is None:
            self._slots_held = asyncio.Semaphore(judging.concurrency)
        return self._slots_held

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
        self._slots_held = None
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
    _prepared: asyncio.Task[None]
    _sampling: tuple[Reading, ...] = ()
    """What the sampler said last."""
    _forking = False
    _slots_held: asyncio.Semaphore | None = None


def _admits(judge: Judge) -> bool:
    return not isinstance(judge, GuardedJudge) or judge.admits()


def _second_chance(interaction: Interaction, chance: Chance, judging: Judging) -> Chance | None:
    second = judging.second
    if second is None:
        return None
    return replace(
        chance,
        probability=chance.probability * second.share,
        drawn=chance.drawn and second.reads(interaction),
        reserved=0.0,
    )


def _verdicts(reports: Sequence[Report], judging: Judging) -> tuple[Report | None, Report | None]:
    """Return what the judge found, and what was found by who stood in for it."""
    judge = judging.judge.identity.name
    stand_ins = {each.identity.name for each in judging.fallbacks}
    judged = next((report for report in reports if report.judge.name == judge), None)
    stand_in = next(
        (
            report
            for report in reports
            if report.assessment is not None and report.judge.name in stand_ins
        ),
        None,
    )
    return judged, stand_in


def _diagnosed(interaction: Interaction, assessment: Assessment | None) -> Diagnosis | None:
    if assessment is not None:
        with shielded("evaluate"):  # a judge is anybody's code, and so is what it returns
            return diagnosis(interaction, assessment)
    return None


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
