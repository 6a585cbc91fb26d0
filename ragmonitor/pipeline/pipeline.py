"""The pipeline: take, judge, evaluate, estimate, export. One thread, one event loop.

The thread starts with the first interaction. After an error that ends its loop it begins again
after a pause, and that is counted. Each interaction has an account (`ragmonitor.pipeline.ledger`),
so that captured = scored + unscored holds by construction: it leaves exactly one report per judge,
with one evaluation per evaluator.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ragmonitor.capture.coercion import sound
from ragmonitor.capture.probe_mark import is_probe
from ragmonitor.evaluators import table, unscorable
from ragmonitor.export import OtelExporter
from ragmonitor.judges.every_answer import MAX_WAITING
from ragmonitor.pipeline.back_half import LINGER_S, MAX_STOP_S, TICK_S, BackHalf, Request
from ragmonitor.pipeline.build import Stages
from ragmonitor.pipeline.judging import JudgeRunner
from ragmonitor.pipeline.ledger import Account
from ragmonitor.records import (
    CERTAIN,
    Assessment,
    Cause,
    CompletedAnswer,
    GaugeValue,
    Interaction,
    Prediction,
    Report,
    SamplingDecision,
    Snapshot,
)
from ragmonitor.runtime.apart import run, within
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.guard import (
    contained,
    errors,
    is_asked_to_end,
    record_error,
    record_problem,
    shielded,
)
from ragmonitor.runtime.lock_slices import give_back, say_whether_behind, work_in_slices
from ragmonitor.runtime.protocols import Finished, TraceExporter
from ragmonitor.runtime.queues import MAX_BYTES
from ragmonitor.semconv.conventions import PROBE_BAGGAGE
from ragmonitor.semconv.metrics import GOLDEN_EVALUATORS
from ragmonitor.settings import Settings
from ragmonitor.stats.feedback import PeoplesFeedback
from ragmonitor.store import Store

BEHIND_FROM: Final = 16
"""With more interactions waiting the work is not done in slices."""
CANCEL_S: Final = 1.0
"""A cancelled reading, or the closing of a judge's connections, may take this long."""
MAX_CAPTURED: Final = 200
"""Records of golden questions that wait for what the asker says of the same question."""


class Pipeline(BackHalf):
    """Takes finished interactions, and scores and exports them on a thread of this process."""

    def __init__(
        self,
        settings: Settings,
        *,
        poll: Callable[[], object],
        emitter: Callable[[OtelExporter], TraceExporter] = lambda own: own,
        gauges: Callable[[], Sequence[GaugeValue]] = tuple,
        is_apart: bool = False,
        store: Store | None = None,
    ) -> None:
        """Wire the stages; nothing runs yet.

        Args:
            settings: The settings.
            poll: Called now and then; gives up abandoned runs.
            emitter: From what emits traces as the settings say to what emits them.
            gauges: Further ones, as of now; waits for nothing.
            is_apart: No application runs in this interpreter: its lock need not be given back, and
                senders bound the bytes that wait.
            store: Where sums are; None: as the settings say, or memory where that fails.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        stages = Stages(settings, feedback=self.feedback, emitter=emitter, store=store)
        self.stages = stages
        super().__init__(
            settings,
            poll=poll,
            meters=stages.exports.meters,
            judges=stages.judges,
            max_bytes=sys.maxsize if is_apart else MAX_BYTES,
        )
        self.meters.count_first(self.ledger.count_notes)
        self.traces, self.estimates = stages.exports.traces, stages.estimates
        self.destination = self.traces.destination
        """Says where traces go, without secrets."""
        self.newest = stages.newest.newest
        """Returns the report on the newest answer that was scored; None: there was none."""
        self.exports, self.runner = stages.exports, stages.runner
        goldens = table.select(GOLDEN_EVALUATORS)
        self._golden_engine = replace(stages.engine, entries=goldens)
        self._captured_goldens: OrderedDict[str, Interaction] = OrderedDict()
        self._is_apart, self._gauges = is_apart, gauges
        self.has_closed = threading.Event()
        """Set once every stage is closed, which may be later than `close` could wait."""
        self._prepare_loop()
        self.alarms = self._snapshot().alarms

    def _prepare_loop(self) -> None:
        """Begin without an event loop: also after an error that ended the last one."""
        self._set_waker: Callable[[], object] = lambda: None
        self._idle = False
        self._judgements: set[asyncio.Task[None]] = set()
        self._anchors: set[asyncio.Task[None]] = set()
        """Readings of answers that were judged before."""
        self._goldens: set[asyncio.Task[None]] = set()
        self._flushes: set[asyncio.Task[None]] = set()

    # --- the application's side -----------------------------------------------------------------

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:
        """Take note of something that happened to the application."""
        self.stages.causes.event(name, attributes, at_s, self.stages.redactor.text)
        self.wake()

    def feedback(self, feedback: Feedback) -> bool:
        """Take what a person said of an answer; False: too much is waiting."""
        parts = (part for part in self.estimates.parts if isinstance(part, PeoplesFeedback))
        is_taken = any(part.note(feedback) for part in parts)
        if not is_taken:
            self.ledger.give_up("feedback_full")
        self.wake()
        return is_taken

    def _signal(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, at exit
            self._set_waker()

    def _end(self, deadline: float) -> None:
        # A thread that still works makes no step: what it reports is counted by then.
        wait_s = min(MAX_STOP_S, deadline - time.monotonic()) / 2
        has_step = not self._thread.is_current and self.step.acquire(timeout=max(0.0, wait_s))
        try:
            # Interactions for which the time did not suffice are counted, if not scored.
            self.ledger.close_all(Cause.SHUTDOWN)
        finally:
            if has_step:
                self.step.release()
        within(deadline - time.monotonic(), self._close_stages)

    def _close_stages(self) -> None:
        with contained("estimate"):
            self.estimates.close()
        self.exports.close()
        self.has_closed.set()

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool:
        if not self._is_apart:
            work_in_slices()
        run(self._main())
        return False

    def _failed(self) -> None:
        errors["worker_restart"] += 1
        self.ledger.close_all(Cause.INTERNAL_ERROR)
        self._prepare_loop()

    async def _main(self) -> None:
        waker, loop = asyncio.Event(), asyncio.get_running_loop()
        self._set_waker = partial(loop.call_soon_threadsafe, waker.set)
        loop.set_exception_handler(_record_uncaught)
        runner = self.runner
        beside = {asyncio.create_task(self._tick())}
        if runner is not None:
            beside.add(asyncio.create_task(runner.prepare()))
        try:
            while not self.is_closed:
                while (handling := self._next()) is not None:
                    with contained("worker"):
                        await handling
                    await asyncio.sleep(0)
                while self._requests:
                    self._begin(self._flushes, self._drain(self._requests.popleft()))
                self._idle = True
                if not (len(self.queue) or self._requests or self.is_closed):
                    await waker.wait()
                waker.clear()
                self._idle = False
                if not self._is_apart:  # else no request is on this interpreter
                    await asyncio.sleep(LINGER_S)
        finally:
            unfinished = (*beside, *self._flushes, *self._begun)
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished, timeout=CANCEL_S)
            if runner is not None:
                with contained("judge"):
                    async with asyncio.timeout(CANCEL_S):
                        await runner.judge.close()  # its connections are of this loop

    @property
    def _begun(self) -> tuple[asyncio.Task[None], ...]:
        """The readings that are under way."""
        return (*self._judgements, *self._anchors, *self._goldens)

    def _begin(
        self,
        tasks: set[asyncio.Task[None]],
        work: Coroutine[Any, Any, None],
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        """Have work go on beside; `ended` is called however it ends: also before it began."""

        def end(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            ended()
            if not task.cancelled() and (error := task.exception()) is not None:
                record_error("worker", error)

        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(end)

    def _next(self) -> Coroutine[Any, Any, None] | None:
        """Return the handling of what waits longest; it has an account: who closes counts it."""
        waiting = len(self.queue)
        say_whether_behind(is_behind=waiting > BEHIND_FROM)
        with self.step:
            if self.is_closed or (finished := self.queue.take()) is None:
                return None
            account = self.ledger.open(finished)
            return self._handle(finished, account, is_behind=waiting > MAX_WAITING)

    async def _drain(self, request: Request) -> None:
        """Wait for what is under way, export it, and say whether that is all."""
        try:
            while unfinished := [task for task in self._begun if not task.done()]:
                left_s = request.deadline - time.monotonic()
                if left_s <= 0:
                    break
                await asyncio.wait(unfinished, timeout=left_s)
            self._refresh(is_due=True)
            is_done = self.exports.flush(request.deadline) and not unfinished
        except GeneratorExit:  # a fork's child throws away what goes on in its parent
            raise
        except BaseException:  # the task's cancellation too: nobody is to wait for it
            request.reply(is_done=False)
            raise
        request.reply(is_done=is_done)

    # --- what is done every two seconds ---------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            self._refresh()
            await asyncio.sleep(TICK_S)

    def _refresh(self, *, is_due: bool = False) -> None:
        with contained("worker"), self.step:
            self.ledger.count_notes()
            with contained("estimate"):
                for event in self.estimates.tick(is_due=is_due):
                    self.exports.announce(event)
                for joined in self.estimates.joined_feedback():
                    self.exports.pass_on(joined)
            if self.runner is not None:
                with contained("estimate"):
                    self._check_anchors(self.runner)
            snapshot = self._snapshot()
            with contained("capture"):
                self._poll()
            self.meters.refresh(snapshot=snapshot, queue_depth=len(self.queue))
            self.alarms, self.metrics_url = snapshot.alarms, self.meters.url
            if self.metrics_url is not None and self.stages.shows_page:
                self.ui_url = self.metrics_url.removesuffix("metrics") + "ragmonitor/"
            self.exports.snapshot(snapshot)

    def _snapshot(self) -> Snapshot:
        """Return every number of now, those of the sampling included."""
        snapshot = Snapshot()
        with contained("estimate"):
            snapshot = self.estimates.snapshot()
        gauges = [*snapshot.gauges, *self._gauges()]
        if self.runner is not None:
            with contained("sample"):
                gauges += self.runner.gauges()
        return replace(snapshot, gauges=tuple(gauges))

    # --- one answer -----------------------------------------------------------------------------

    async def _handle(self, finished: Finished, account: Account, *, is_behind: bool) -> None:
        """Handle one interaction; it waits for nothing where the built-in rules read every answer.

        Args:
            finished: The interaction.
            account: What is owed of it; closed in any case.
            is_behind: So many answers wait that the rules are to read this one.
        """
        goes_on = False
        try:
            interaction: Interaction | None = None
            with contained("worker"), self.step:
                interaction = self._captured(finished, account)
            if interaction is not None:
                found, reader = None, self.stages.reader
                if reader is not None and not is_behind and unscorable(interaction) is None:
                    found = await reader.read(interaction)
                with contained("worker"), self.step:
                    goes_on = self._draw(account, self._reported(interaction, found))
        finally:
            if not goes_on:
                self._close(account)

    def _close(self, account: Account) -> None:
        """Close an account; what was begun and is not reported is counted."""
        account.close(Cause.SHUTDOWN if self.is_closed else Cause.INTERNAL_ERROR)

    def _captured(self, finished: Finished, account: Account) -> Interaction | None:
        """Return the record; None: it is no interaction, or was counted already."""
        try:
            interaction = finished.interaction()
        except BaseException:  # goes on to the caller, where it is counted as our error
            if account.captured(finished):
                self.ledger.give_up("unreadable")
            raise
        if interaction is not None:
            interaction = self.stages.redactor(sound(interaction))
        give_back()
        if interaction is None or is_probe(interaction):
            account.close(None)
            if interaction is not None:
                self._probe(interaction)
            return None
        return interaction if account.captured(interaction) else None

    # --- the judge of every answer, and the draw ------------------------------------------------

    def _reported(self, interaction: Interaction, found: Assessment | Cause | None) -> Report:
        """Return the report of who reads every answer, or of the rules in its place."""
        engine, reader = self.stages.engine, self.stages.reader
        if isinstance(found, Assessment):
            report = engine.found(interaction, found)
        else:
            whose = None if reader is None else reader.identity
            report = engine.read_now(self.stages.builtin, interaction, whose)
        give_back()
        return report

    def _draw(self, account: Account, builtin: Report) -> bool:
        """Report an answer, or have it judged first; return whether that goes on."""
        interaction, runner = builtin.interaction, self.stages.runner
        if (cause := unscorable(interaction)) is not None:  # it is counted, and not estimated
            unread = () if runner is None else (runner.unread(interaction, CERTAIN, cause),)
            self.exports.deliver(account, builtin, *unread)
            return False
        if runner is None:
            target = self.exports.deliver(account, builtin)
            self._complete(CompletedAnswer(builtin=builtin, target=target))
            return False
        decision, prediction = self._decided(runner, builtin)
        answer = CompletedAnswer(builtin=builtin, prediction=prediction, decision=decision)
        builtin = replace(builtin, predicted=prediction.hallucination)
        if decision.cause is None:
            judging = self._judge(runner, account, answer, builtin, decision)
            self._begin(self._judgements, judging, partial(self._close, account))
            return True
        report = runner.unread(interaction, decision, decision.cause)
        target = self.exports.deliver(account, builtin, report)
        judged = report if decision.drawn else None
        self._complete(replace(answer, judged=judged, target=target))
        return False

    def _decided(self, runner: JudgeRunner, builtin: Report) -> tuple[SamplingDecision, Prediction]:
        """Return whether an answer is drawn, here or by a process that is gone, and why not."""
        interaction = builtin.interaction
        drawn = self.estimates.drawn_before(interaction)
        if drawn is not None:
            paid = runner.reserve(interaction)
            reserved, cause = (0.0, Cause.OVER_BUDGET) if paid is None else (paid.reserved, None)
            return replace(drawn.decision, reserved=reserved, cause=cause), drawn.prediction
        prediction = Prediction()
        with contained("estimate"):
            prediction = self.estimates.predict(builtin)
        decision = runner.draw(interaction, prediction, pending=len(self._judgements))
        give_back()
        if decision.drawn:
            with shielded("estimate"):
                self.estimates.awaits(builtin, prediction, decision)
        return decision, prediction

    def _complete(self, answer: CompletedAnswer) -> None:
        """Have an answer estimated."""
        with contained("estimate"):
            self.estimates.add(answer)
        give_back()

    async def _judge(
        self,
        runner: JudgeRunner,
        account: Account,
        answer: CompletedAnswer,
        builtin: Report,
        decision: SamplingDecision,
    ) -> None:
        with self.step:
            target = self.exports.deliver(account, builtin)
        try:
            report = await runner.read("sampled", answer.interaction, decision)
        except GeneratorExit:  # a fork's child throws away what goes on in its parent
            raise
        except BaseException as error:  # noqa: BLE001 - its report is owed all the same
            cause = Cause.SHUTDOWN
            if not (is_asked_to_end(error) and self.is_closed):
                record_error("judge", error)
                cause = Cause.INTERNAL_ERROR
            report = runner.unread(answer.interaction, decision, cause)
        with self.step:
            self.exports.export(account, replace(report, target=target, late=True))
            self._complete(replace(answer, judged=report, target=target))

    # --- readings outside the sample ------------------------------------------------------------

    async def _read(
        self, read: Callable[[], Coroutine[Any, Any, Report]], take: Callable[[Report], object]
    ) -> None:
        """Have an answer read, and its report taken in."""
        with contained("judge"):
            report = await read()
            with self.step:
                with contained("estimate"):
                    take(report)
                self.exports.meters.charged(report)

    def _check_anchors(self, runner: JudgeRunner) -> None:
        """Have answers that were judged before read again: one batch at a time."""
        if not runner.judge.admits() or self._anchors:
            return
        for interaction in self.estimates.due():
            decision = runner.reserve(interaction)
            if decision is None:  # nothing left to pay it with: it will be due again
                self.estimates.checked(interaction, None)
            else:
                read = partial(runner.read, "anchor", interaction, decision)
                take = partial(self.estimates.checked, interaction)
                self._begin(self._anchors, self._read(read, take))

    def _probe(self, interaction: Interaction) -> None:
        """Keep the answer to a golden question apart; judge it, if it is the asker's record."""
        if interaction.probe is not None:
            read = partial(self._read_golden, interaction)
            self._begin(self._goldens, self._read(read, self.estimates.probed))
        elif (golden := interaction.attributes.get(PROBE_BAGGAGE)) and interaction.chunks:
            self._captured_goldens[golden] = interaction
            while len(self._captured_goldens) > MAX_CAPTURED:
                self._captured_goldens.popitem(last=False)

    async def _read_golden(self, interaction: Interaction) -> Report:
        """Return the report of the judge of the sample, or of the rules where there is none."""
        interaction = self._with_captured(interaction)
        runner, engine, cause = self.stages.runner, self._golden_engine, unscorable(interaction)
        judge = self.stages.builtin if runner is None else runner.judge
        if cause is None and runner is None:
            return (await engine.read(judge, "golden", interaction)).report
        if cause is None and runner is not None:
            decision = runner.reserve(interaction)
            if decision is not None:
                return await runner.read("golden", interaction, decision, engine)
        cause, detail = cause or Cause.OVER_BUDGET, interaction.error
        return engine.unread(judge.identity, "golden", interaction, cause, detail=detail)

    def _with_captured(self, interaction: Interaction) -> Interaction:
        """Return the asker's record with the chunks that were captured in the application."""
        probe = interaction.probe
        captured = None if probe is None else self._captured_goldens.pop(probe.golden, None)
        if probe is None or probe.knows_chunks or captured is None:
            return interaction
        if not interaction.started_ns <= captured.started_ns <= interaction.ended_ns:
            return interaction  # of an earlier asking
        probe = replace(probe, knows_chunks=True)
        return replace(interaction, chunks=captured.chunks, probe=probe)


def _record_uncaught(_loop: asyncio.AbstractEventLoop, details: Mapping[str, Any]) -> None:
    """Record an error that no task caught; asyncio's own handler would log texts of the host."""
    error = details.get("exception")
    if isinstance(error, Exception):
        record_error("worker", error)
    else:
        record_problem("worker", f"asyncio: {details.get('message', '')}")
