"""Takes one interaction from its capture to the completed answer."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ragmonitor.capture.coercion import sound
from ragmonitor.capture.probe_mark import is_probe
from ragmonitor.evaluators import table, unscorable
from ragmonitor.pipeline.build import Stages
from ragmonitor.pipeline.judging import JudgeRunner
from ragmonitor.pipeline.ledger import Account
from ragmonitor.records import (
    CERTAIN,
    Assessment,
    Cause,
    CompletedAnswer,
    Interaction,
    Prediction,
    Report,
    SamplingDecision,
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
        engine, reader = self._stages.engine, self._stages.reader
        if isinstance(found, Assessment):
            report = engine.found(interaction, found)
        else:
            whose = None if reader is None else reader.identity
            report = engine.read_now(self._stages.builtin, interaction, whose)
        give_back()
        return report

    def _draw(self, account: Account, builtin: Report) -> asyncio.Task[None] | None:
        """Return who goes on with it; None: it was reported."""
        interaction, runner = builtin.interaction, self._stages.runner
        if (cause := unscorable(interaction)) is not None:  # it is counted, and not estimated
            unread = () if runner is None else (runner.unread(interaction, CERTAIN, cause),)
            self._exports.deliver(account, builtin, *unread)
            return None
        if runner is None:
            target = self._exports.deliver(account, builtin)
            self._complete(CompletedAnswer(builtin=builtin, target=target))
            return None
        decision, prediction = self._decided(runner, builtin)
        answer = CompletedAnswer(builtin=builtin, prediction=prediction, decision=decision)
        builtin = replace(builtin, predicted=prediction.hallucination)
        if decision.cause is None:
            judging = self._judge(runner, account, answer, builtin, decision)
            return asyncio.get_running_loop().create_task(judging)
        report = runner.unread(interaction, decision, decision.cause)
        target = self._exports.deliver(account, builtin, report)
        judged = report if decision.drawn else None
        self._complete(replace(answer, judged=judged, target=target))
        return None

    def _decided(self, runner: JudgeRunner, builtin: Report) -> tuple[SamplingDecision, Prediction]:
        """Return whether an answer is drawn, here or by a process that is gone, and why not."""
        interaction = builtin.interaction
        drawn = self._estimates.drawn_before(interaction)
        if drawn is not None:
            paid = runner.reserve(interaction)
            reserved, cause = (0.0, Cause.OVER_BUDGET) if paid is None else (paid.reserved, None)
            return replace(drawn.decision, reserved=reserved, cause=cause), drawn.prediction
        prediction = Prediction()
        with contained("estimate"):
            prediction = self._estimates.predict(builtin)
        decision = runner.draw(interaction, prediction, pending=len(self.judgements))
        give_back()
        if decision.drawn:
            with shielded("estimate"):
                self._estimates.awaits(builtin, prediction, decision)
        return decision, prediction

    def _complete(self, answer: CompletedAnswer) -> None:
        """Have an answer estimated."""
        with contained("estimate"):
            self._estimates.add(answer)
        give_back()

    async def _judge(
        self,
        runner: JudgeRunner,
        account: Account,
        answer: CompletedAnswer,
        builtin: Report,
        decision: SamplingDecision,
    ) -> None:
        with self._step:
            target = self._exports.deliver(account, builtin)
        try:
            report = await runner.read("sampled", answer.interaction, decision)
        except GeneratorExit:  # as in `handle`
            raise
        except BaseException as error:  # noqa: BLE001 - its report is owed all the same
            cause = Cause.SHUTDOWN
            if not (is_asked_to_end(error) and self._is_closed()):
                record_error("judge", error)
                cause = Cause.INTERNAL_ERROR
            report = runner.unread(answer.interaction, decision, cause)
        with self._step:
            self._exports.export(account, replace(report, target=target, late=True))
            self._complete(replace(answer, judged=report, target=target))

    # --- readings outside the sample ------------------------------------------------------------

    def _begin(
        self,
        tasks: set[asyncio.Task[None]],
        read: Callable[[], Coroutine[Any, Any, Report]],
        take: Callable[[Report], object],
    ) -> None:
        """Have an answer read, and its report taken in."""

        async def work() -> None:
            with contained("judge"):
                report = await read()
                with self._step:
                    with contained("estimate"):
                        take(report)
                    self._exports.meters.charged(report)

        task = asyncio.create_task(work())
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
                read = partial(runner.read, "anchor", interaction, decision)
                self._begin(self._anchors, read, partial(self._estimates.checked, interaction))

    def _probe(self, interaction: Interaction) -> None:
        """Keep the answer to a golden question apart; judge it, if it is the asker's record."""
        if interaction.probe is not None:
            read = partial(self._read_golden, interaction)
            self._begin(self._goldens, read, self._estimates.probed)
        elif (golden := interaction.attributes.get(PROBE_BAGGAGE)) and interaction.chunks:
            self._captured_goldens[golden] = interaction
            while len(self._captured_goldens) > MAX_CAPTURED:
                self._captured_goldens.popitem(last=False)

    async def _read_golden(self, interaction: Interaction) -> Report:
        """Return the report of the judge of the sample, or of the rules where there is none."""
        interaction = self._with_captured(interaction)
        runner, engine, cause = self._stages.runner, self._golden_engine, unscorable(interaction)
        judge = self._stages.builtin if runner is None else runner.judge
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
