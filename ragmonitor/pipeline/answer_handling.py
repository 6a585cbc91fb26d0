"""Takes one interaction from its capture to the completed answer."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from ragmonitor.capture.probe_mark import is_probe
from ragmonitor.evaluators import unscorable
from ragmonitor.judges.every_answer import EveryAnswerReader
from ragmonitor.pipeline.exports import Exports
from ragmonitor.pipeline.golden_reading import GoldenReader
from ragmonitor.pipeline.judging import JudgeRunner, ReadingEngine, by_another
from ragmonitor.pipeline.ledger import Account
from ragmonitor.records import (
    Assessment,
    Cause,
    CompletedAnswer,
    Interaction,
    Prediction,
    Report,
    SamplingDecision,
)
from ragmonitor.runtime.capabilities import CapableJudge
from ragmonitor.runtime.guard import contained, is_asked_to_end, record_error, shielded
from ragmonitor.runtime.protocols import Finished
from ragmonitor.stats.service import Statistics

KEEP_S = 0.5
"""A verdict is kept on disk after so long at most: a process may die at any moment."""
CANCEL_S = 1.0
"""A cancelled reading, or the closing of a judge's connections, may take this long."""


class AnswerHandler:
    """Reads, draws, judges and completes answers, on the event loop of the worker's thread.

    One lives as long as that loop: the tasks that it has begun are the loop's.
    """

    def __init__(
        self,
        exports: Exports,
        *,
        engine: ReadingEngine,
        builtin: CapableJudge,
        reader: EveryAnswerReader | None,
        runner: JudgeRunner | None,
        goldens: GoldenReader | None,
        estimates: Statistics,
        prepare: Callable[[Interaction], Interaction],
        step: Callable[[], threading.Lock],
        is_closed: Callable[[], bool],
    ) -> None:
        """Begin without any answer.

        Args:
            exports: The places for reports.
            engine: Has the built-in judge read.
            builtin: The built-in rules.
            reader: Reads every answer in their place; None: the rules read all.
            runner: Asks the judges that read a share of them; None: there are none.
            goldens: Has answers to golden questions judged; None: they are counted only.
            estimates: The statistics.
            prepare: Redacts a record before anything else sees it.
            step: Returns the lock that is held while shared state changes.
            is_closed: Returns whether the worker has ended.
        """
        self._exports = exports
        self._engine = engine
        self._builtin = builtin
        self._reader = reader
        self._runner = runner
        self._goldens = goldens
        self._estimates = estimates
        self._prepare = prepare
        self._step = step
        self._is_closed = is_closed
        self.judgements: set[asyncio.Task[None]] = set()
        self._checks: set[asyncio.Task[None]] = set()
        """Readings outside the sample, of answers that were judged before."""
        self.readings: set[asyncio.Task[None]] = set()
        """The readings of answers to golden questions."""
        self._keeping: asyncio.TimerHandle | None = None
        self._kept_s = -math.inf

    @property
    def begun(self) -> tuple[asyncio.Task[None], ...]:
        """The tasks that are under way."""
        return (*self.judgements, *self._checks, *self.readings)

    async def handle(
        self, finished: Finished, account: Account, *, hurry: asyncio.Event, is_behind: bool
    ) -> None:
        """Handle one interaction; it waits for nothing where the built-in rules read every answer.

        Args:
            finished: The interaction.
            account: What is owed of it; closed in any case.
            hurry: Set once the reader of every answer is to be waited for no more.
            is_behind: So many answers wait that the rules are to read this one.
        """
        try:
            interaction: Interaction | None = None
            with contained("worker"), self._step():
                interaction = self._captured(finished, account)
            if interaction is None:
                account.close(Cause.INTERNAL_ERROR)
                return
            found: Assessment | Cause | None = None
            if self._reader is not None and not is_behind and unscorable(interaction) is None:
                found = await self._reader.read(interaction, hurry=hurry)
            with contained("worker"), self._step():
                self._draw_reported(account, interaction, found)
        except GeneratorExit:  # as in `_judge`
            raise
        except BaseException:  # the task's cancellation too: what was begun is counted
            account.close(Cause.SHUTDOWN if self._is_closed() else Cause.INTERNAL_ERROR)
            raise

    def _draw_reported(
        self, account: Account, interaction: Interaction, found: Assessment | Cause | None
    ) -> None:
        """Draw an answer or not, once its first report is made; the account closes in any case."""
        judgement: asyncio.Task[None] | None = None
        try:
            with self._exports.slice_of_work():
                if isinstance(found, Assessment):
                    report = self._engine.found(interaction, found)
                else:
                    report = self._read(interaction)
            judgement = self._draw(account, report)
        finally:
            if judgement is None:
                account.close(Cause.INTERNAL_ERROR)
            else:
                self._follow(judgement, account)

    def _follow(self, judgement: asyncio.Task[None], account: Account) -> None:
        """Close the account when the task ends, however it does: also before it began."""

        def ended(task: asyncio.Task[None]) -> None:
            self.judgements.discard(task)
            account.close(Cause.SHUTDOWN if self._is_closed() else Cause.INTERNAL_ERROR)
            if not task.cancelled() and (error := task.exception()) is not None:
                record_error("worker", error)

        self.judgements.add(judgement)
        judgement.add_done_callback(ended)

    def _captured(self, finished: Finished, account: Account) -> Interaction | None:
        """Return the record; None: it is no interaction, or was counted already."""
        with self._exports.slice_of_work():
            interaction = self._assembled(finished)
        if interaction is None or is_probe(interaction):
            account.void()
            if interaction is not None:
                self._probe(interaction)
            return None
        return interaction if account.captured(interaction) else None

    def _probe(self, interaction: Interaction) -> None:
        """Keep the answer to a golden question apart; judge it, if it is the asker's record."""
        if self._goldens is None or interaction.probe is None:
            if self._goldens is not None:
                self._goldens.note_captured(interaction)
            return
        reading = asyncio.get_running_loop().create_task(self._judge_golden(interaction))
        self.readings.add(reading)
        reading.add_done_callback(self.readings.discard)

    async def _judge_golden(self, interaction: Interaction) -> None:
        with contained("judge"):
            if self._goldens is None:
                return
            if self._runner is not None:
                await self._runner.wait_prepared()
            report = await self._goldens.read(interaction)
            with self._step():
                with contained("estimate"):
                    self._estimates.probed(report)
                with contained("export"):
                    self._exports.meters.charged(report)

    def _draw(self, account: Account, builtin: Report) -> asyncio.Task[None] | None:
        """Return who goes on with it; None: it was reported."""
        interaction, runner = builtin.interaction, self._runner
        if runner is None:
            target = self._exports.deliver(account, builtin)
            self._settle(CompletedAnswer(builtin=builtin, target=target))
            return None
        drawn = self._estimates.drawn_before(interaction)
        if drawn is not None:
            decision, prediction, cause = drawn.decision, drawn.prediction, None
            paid = runner.reserve(interaction)
            if paid is None:
                cause = Cause.OVER_BUDGET
            decision = replace(decision, reserved=0.0 if paid is None else paid.reserved)
        else:
            with self._exports.slice_of_work():
                prediction = self._predict(builtin)
                pending = len(self.judgements)
                decision, cause = runner.draw(interaction, prediction, pending=pending)
            if decision.drawn and cause == decision.cause:
                with shielded("estimate"):
                    self._estimates.awaits(builtin, prediction, decision)
        if cause is None:
            return asyncio.get_running_loop().create_task(
                self._judge(runner, account, builtin, prediction, decision)
            )
        answer = runner.unread(interaction, decision, cause)
        target = self._exports.deliver(account, _with(prediction, builtin), answer)
        self._settle(
            CompletedAnswer(
                builtin=builtin,
                prediction=prediction,
                decision=decision,
                judged=answer if decision.drawn else None,
                target=target,
            )
        )
        return None

    def _assembled(self, finished: Finished) -> Interaction | None:
        try:
            interaction = finished.interaction()
        except BaseException:  # goes on to the caller, where it is counted as our error
            with contained("count"):
                self._exports.meters.dropped("unreadable")
            raise
        return None if interaction is None else self._prepare(interaction)

    def _predict(self, builtin: Report) -> Prediction:
        with contained("estimate"):
            return self._estimates.predict(builtin)
        return Prediction()

    def _settle(self, settled: CompletedAnswer) -> None:
        """Have an answer estimated, if it is one: what failed or was cut short is counted only."""
        if unscorable(settled.interaction) is None:
            with contained("estimate"), self._exports.slice_of_work():
                self._estimates.add(settled)
            if settled.judged is not None:
                self._keep_soon()

    def _keep_soon(self) -> None:
        """Have the newest verdicts kept: at once, or with those of the next half second."""
        if self._keeping is not None and not self._keeping.cancelled():
            return
        wait_s = self._kept_s + KEEP_S - time.monotonic()
        if wait_s <= 0:
            self._keep()
        else:
            loop = asyncio.get_running_loop()
            self._keeping = loop.call_later(wait_s, self._keep_locked)

    def _keep_locked(self) -> None:
        with shielded("worker"), self._step():
            self._keep()

    def _keep(self) -> None:
        self._keeping, self._kept_s = None, time.monotonic()
        with shielded("estimate"):
            self._estimates.keep()

    def _read(self, interaction: Interaction) -> Report:
        """Return the report of the built-in rules."""
        reading = self._engine.read_now(self._builtin, interaction)
        if self._reader is not None and reading.cause is not None:
            # Nobody could read it: it is said of whose turn it was.
            return self._engine.unread(self._reader, "builtin", interaction, reading.cause)
        if self._is_closed() and reading.cause is Cause.JUDGE_ERROR:
            return self._engine.unread(self._builtin, "builtin", interaction, Cause.SHUTDOWN)
        return reading.report

    async def _judge(
        self,
        runner: JudgeRunner,
        account: Account,
        builtin: Report,
        prediction: Prediction,
        decision: SamplingDecision,
    ) -> None:
        interaction = builtin.interaction
        reading = runner.ask(interaction, decision)
        asking = asyncio.ensure_future(reading)
        with self._step():
            target = self._exports.deliver(account, _with(prediction, builtin))
        try:
            answer = await asking
        except GeneratorExit:  # a fork's child throws away what goes on in its parent
            if inspect.getcoroutinestate(reading) == inspect.CORO_CREATED:
                reading.close()  # its loop ended before it began
            raise
        except BaseException as error:  # noqa: BLE001 - its report is owed all the same
            asking.cancel()
            await asyncio.wait({asking}, timeout=CANCEL_S)  # it settles what it spent
            cause = Cause.SHUTDOWN
            if not (is_asked_to_end(error) and self._is_closed()):
                record_error("judge", error)
                cause = Cause.INTERNAL_ERROR
            answer = runner.unread(interaction, decision, cause)
        with self._step():
            self._exports.export(account, replace(answer, target=target, late=True))
            judged, stand_in = by_another(answer, runner.config.judge.identity)
            self._settle(
                CompletedAnswer(
                    builtin=builtin,
                    prediction=prediction,
                    decision=decision,
                    judged=judged,
                    stand_in=stand_in,
                    target=target,
                )
            )

    def check_anchors(self, runner: JudgeRunner) -> None:
        """Have answers that were judged before read again: one batch at a time."""
        if runner.is_down or self._checks:
            return
        for interaction in self._estimates.due():
            decision = runner.reserve(interaction)
            if decision is None:  # nothing left to pay it with: it will be due again
                self._estimates.checked(interaction, None)
                continue
            check = asyncio.get_running_loop().create_task(
                self._check(runner, interaction, decision)
            )
            self._checks.add(check)
            check.add_done_callback(self._checked)

    def _checked(self, check: asyncio.Task[None]) -> None:
        self._checks.discard(check)
        if not check.cancelled() and (error := check.exception()) is not None:
            record_error("judge", error)

    async def _check(
        self, runner: JudgeRunner, interaction: Interaction, decision: SamplingDecision
    ) -> None:
        report = await runner.check_anchor(interaction, decision)
        with self._step():
            with contained("estimate"):
                self._estimates.checked(interaction, report)
            with contained("export"):
                self._exports.meters.charged(report)


def _with(prediction: Prediction, builtin: Report) -> Report:
    """Return the built-in judge's report with what past verdicts predict of the answer."""
    predicted = prediction.hallucination
    return builtin if predicted is None else replace(builtin, predicted=predicted)
