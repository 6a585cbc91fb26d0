"""Takes one interaction from its capture to the completed answer."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

from ragmonitor.capture.coercion import sound
from ragmonitor.capture.probe_mark import is_probe
from ragmonitor.evaluators import table, unscorable
from ragmonitor.pipeline.build import Stages
from ragmonitor.pipeline.judging import JudgeRunner
from ragmonitor.pipeline.ledger import Account
from ragmonitor.records import (
    Assessment,
    Cause,
    CompletedAnswer,
    Interaction,
    Prediction,
    Report,
    SamplingDecision,
    SpanReference,
)
from ragmonitor.runtime.guard import contained, is_asked_to_end, record_error, shielded
from ragmonitor.runtime.lock_slices import give_back
from ragmonitor.runtime.protocols import Finished
from ragmonitor.semconv.conventions import PROBE_BAGGAGE
from ragmonitor.semconv.metrics import GOLDEN_EVALUATORS

CANCEL_S: Final = 1.0
"""A cancelled reading, or the closing of a judge's connections, may take this long."""
MAX_CAPTURED: Final = 200
"""Records of golden questions that wait for what the asker says of the same question."""


class AnswerHandler:
    """Reads, draws, judges and completes answers, on the event loop of the worker's thread.

    One lives as long as that loop: the tasks that it has begun are the loop's.
    """

    def __init__(
        self, stages: Stages, *, step: threading.Lock, is_closed: Callable[[], bool]
    ) -> None:
        """Begin without any answer.

        Args:
            stages: What does each step.
            step: Held while shared state changes.
            is_closed: Returns whether the worker has ended.
        """
        self._stages, self._step, self._is_closed = stages, step, is_closed
        self._exports, self._estimates = stages.exports, stages.estimates
        goldens = table.select(GOLDEN_EVALUATORS)
        self._golden_engine = replace(stages.engine, entries=goldens)
        self._captured_goldens: OrderedDict[str, Interaction] = OrderedDict()
        self.judgements: set[asyncio.Task[None]] = set()
        self._anchors: set[asyncio.Task[None]] = set()
        """Readings of answers that were judged before."""
        self._goldens: set[asyncio.Task[None]] = set()

    @property
    def begun(self) -> tuple[asyncio.Task[None], ...]:
        """The tasks that are under way."""
        return (*self.judgements, *self._anchors, *self._goldens)

    async def handle(self, finished: Finished, account: Account, *, is_behind: bool) -> None:
        """Handle one interaction; it waits for nothing where the built-in rules read every answer.

        Args:
            finished: The interaction.
            account: What is owed of it; closed in any case.
            is_behind: So many answers wait that the rules are to read this one.
        """
        judgement: asyncio.Task[None] | None = None
        try:
            interaction: Interaction | None = None
            with contained("worker"), self._step:
                interaction = self._captured(finished, account)
            if interaction is not None:
                found, reader = None, self._stages.reader
                if reader is not None and not is_behind and unscorable(interaction) is None:
                    found = await reader.read(interaction)
                with contained("worker"), self._step:
                    judgement = self._draw(account, self._reported(interaction, found))
        except GeneratorExit:  # a fork's child throws away what goes on in its parent
            raise
        except BaseException:  # the task's cancellation too: what was begun is counted
            account.close(self._cause())
            raise
        if judgement is None:
            account.close(Cause.INTERNAL_ERROR)
        else:
            self._follow(judgement, account)

    def _cause(self) -> Cause:
        """Return why something ends that was begun."""
        return Cause.SHUTDOWN if self._is_closed() else Cause.INTERNAL_ERROR

    def _follow(self, judgement: asyncio.Task[None], account: Account) -> None:
        """Close the account when the task ends, however it does: also before it began."""

        def ended(task: asyncio.Task[None]) -> None:
            self.judgements.discard(task)
            account.close(self._cause())
            if not task.cancelled() and (error := task.exception()) is not None:
                record_error("worker", error)

        self.judgements.add(judgement)
        judgement.add_done_callback(ended)

    def _captured(self, finished: Finished, account: Account) -> Interaction | None:
        """Return the record; None: it is no interaction, or was counted already."""
        try:
            interaction = finished.interaction()
        except BaseException:  # goes on to the caller, where it is counted as our error
            with contained("count"):
                self._exports.meters.dropped("unreadable")
            raise
        if interaction is not None:
            interaction = self._stages.redactor(sound(interaction))
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
        stages, engine = self._stages, self._stages.engine
        builtin, reader = stages.builtin, stages.reader
        if isinstance(found, Assessment):
            report = engine.found(interaction, found)
        else:
            reading = engine.read_now(builtin, interaction)
            report, cause = reading.report, reading.cause
            if self._is_closed() and cause is Cause.JUDGE_ERROR:
                cause = Cause.SHUTDOWN
            if cause is not None and (reader is not None or cause is Cause.SHUTDOWN):
                # Nobody could read it: it is said of whose turn it was.
                whose = (reader or builtin).identity
                report = engine.unread(whose, "builtin", interaction, cause)
        give_back()
        return report

    def _draw(self, account: Account, builtin: Report) -> asyncio.Task[None] | None:
        """Return who goes on with it; None: it was reported."""
        interaction, runner = builtin.interaction, self._stages.runner
        answer = CompletedAnswer(builtin=builtin)
        if runner is None:
            self._complete(answer, self._exports.deliver(account, builtin))
            return None
        cause: Cause | None
        drawn = self._estimates.drawn_before(interaction)
        if drawn is not None:
            decision, prediction = drawn.decision, drawn.prediction
            paid = runner.reserve(interaction)
            cause = Cause.OVER_BUDGET if paid is None else None
            decision = replace(decision, reserved=0.0 if paid is None else paid.reserved)
        else:
            prediction = Prediction()
            with contained("estimate"):
                prediction = self._estimates.predict(builtin)
            pending = len(self.judgements)
            decision, cause = runner.draw(interaction, prediction, pending=pending)
            give_back()
            if decision.drawn and cause == decision.cause:
                with shielded("estimate"):
                    self._estimates.awaits(builtin, prediction, decision)
        answer = replace(answer, prediction=prediction, decision=decision)
        if cause is None:
            judging = self._judge(runner, account, answer, decision)
            return asyncio.get_running_loop().create_task(judging)
        report = runner.unread(interaction, decision, cause)
        target = self._exports.deliver(account, _with(prediction, builtin), report)
        self._complete(replace(answer, judged=report if decision.drawn else None), target)
        return None

    def _complete(self, answer: CompletedAnswer, target: SpanReference | None) -> None:
        """Have an answer estimated, if it is one: what failed or was cut short is counted only."""
        if unscorable(answer.interaction) is None:
            with contained("estimate"):
                self._estimates.add(replace(answer, target=target))
            give_back()

    async def _judge(
        self,
        runner: JudgeRunner,
        account: Account,
        answer: CompletedAnswer,
        decision: SamplingDecision,
    ) -> None:
        interaction = answer.interaction
        reading = runner.read("sampled", interaction, decision)
        asking = asyncio.ensure_future(reading)
        with self._step:
            target = self._exports.deliver(account, _with(answer.prediction, answer.builtin))
        try:
            report = await asking
        except GeneratorExit:  # as in `handle`
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
            report = runner.unread(interaction, decision, cause)
        with self._step:
            self._exports.export(account, replace(report, target=target, late=True))
            self._complete(replace(answer, judged=report), target)

    # --- readings outside the sample ------------------------------------------------------------

    def _begin(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def check_anchors(self, runner: JudgeRunner) -> None:
        """Have answers that were judged before read again: one batch at a time."""
        if runner.is_down or self._anchors:
            return
        for interaction in self._estimates.due():
            decision = runner.reserve(interaction)
            if decision is None:  # nothing left to pay it with: it will be due again
                self._estimates.checked(interaction, None)
            else:
                self._begin(self._anchors, self._check(runner, interaction, decision))

    async def _check(
        self, runner: JudgeRunner, interaction: Interaction, decision: SamplingDecision
    ) -> None:
        with contained("judge"):
            report = await runner.read("anchor", interaction, decision)
            with self._step:
                with contained("estimate"):
                    self._estimates.checked(interaction, report)
                self._exports.meters.charged(report)

    def _probe(self, interaction: Interaction) -> None:
        """Keep the answer to a golden question apart; judge it, if it is the asker's record."""
        if interaction.probe is not None:
            self._begin(self._goldens, self._judge_golden(interaction))
        elif (golden := interaction.attributes.get(PROBE_BAGGAGE)) and interaction.chunks:
            self._captured_goldens[golden] = interaction
            while len(self._captured_goldens) > MAX_CAPTURED:
                self._captured_goldens.popitem(last=False)

    async def _judge_golden(self, interaction: Interaction) -> None:
        """Have an answer to a golden question judged."""
        with contained("judge"):
            report = await self._read_golden(self._with_captured(interaction))
            with self._step:
                with contained("estimate"):
                    self._estimates.probed(report)
                self._exports.meters.charged(report)

    async def _read_golden(self, interaction: Interaction) -> Report:
        """Return the report of the judge of the sample, or of the rules where there is none."""
        runner, engine = self._stages.runner, self._golden_engine
        judge = self._stages.builtin if runner is None else runner.judge
        cause = unscorable(interaction)
        if cause is None and runner is None:
            return (await engine.read(judge, "golden", interaction)).report
        if cause is None and runner is not None:
            decision = runner.reserve(interaction)
            if decision is not None:
                return await runner.read("golden", interaction, decision, engine)
        return engine.unread(
            judge.identity,
            "golden",
            interaction,
            cause or Cause.OVER_BUDGET,
            detail=interaction.error,
        )

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


def _with(prediction: Prediction, builtin: Report) -> Report:
    """Return the built-in judge's report with what past verdicts predict of the answer."""
    predicted = prediction.hallucination
    return builtin if predicted is None else replace(builtin, predicted=predicted)
