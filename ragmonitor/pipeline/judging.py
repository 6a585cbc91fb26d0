"""Judging one answer: one engine has it read, and the runner asks the judge of drawn answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Final

from ragmonitor.evaluators import Table, diagnosis, evaluate, evaluate_asking, unscorable, unscored
from ragmonitor.records import (
    CERTAIN,
    Assessment,
    Cause,
    Diagnosis,
    Evaluation,
    GaugeValue,
    Interaction,
    JudgeIdentity,
    JudgeRole,
    JudgeUsage,
    Prediction,
    Report,
    SamplingDecision,
    Unscored,
)
from ragmonitor.runtime.capabilities import CapableJudge
from ragmonitor.runtime.errors import JudgeError, MissingExtraError, RagMonitorError
from ragmonitor.runtime.guard import (
    contained,
    ends_the_task,
    is_fault,
    logger,
    reason,
    record_error,
    record_problem,
)
from ragmonitor.runtime.printable import encodable
from ragmonitor.runtime.protocols import BreakerState
from ragmonitor.sampling import AdaptiveSampler
from ragmonitor.semconv.metrics import JUDGE_BREAKER_STATE

MAX_USED = 1_000_000_000
"""Tokens, dollars, calls or seconds of one reading; what says more is not believed: one such number
would be the sum for good."""
MAX_PENDING: Final = 1_000
"""Drawn answers that may wait for the judge; beyond, none is drawn."""
BREAKER_LEVELS: Final[Mapping[BreakerState | None, int]] = {"closed": 0, "half_open": 1, "open": 2}
JUDGE_GRACE_S = 5.0
"""Beyond a judge's own time for a reading, after which it is given up."""


# --- one reading ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The result of one judge's reading of one answer."""

    report: Report
    cause: Cause | None = None
    """Why nothing is scored; None: there is an assessment."""
    counted: JudgeUsage | None
    """What the judge says it used; None: that is not known, and `report.usage` is one call."""


@dataclass(frozen=True, slots=True)
class ReadingEngine:
    """Has a judge read an answer, and evaluators score what it found.

    It is the one engine for the built-in judge, for drawn and anchor readings and for
    offline runs. Whatever a judge raises becomes a report without scores that names the cause.
    """

    entries: Table
    """The evaluators."""
    clean: Callable[[str], str] = str
    """Redacts one text: what a judge's provider says of a failure."""
    timeout_s: float | None = None
    """For a judge's reading; None: as long as the judge takes."""
    asking_timeout_s: float = 60.0
    """For one evaluator's own questions to the judge."""

    async def read(
        self,
        judge: CapableJudge,
        role: JudgeRole,
        interaction: Interaction,
        decision: SamplingDecision = CERTAIN,
    ) -> Reading:
        """Return what the judge found; raises only what ends the running task."""
        usage: JudgeUsage | None = None
        asked, cause = JudgeUsage(), None
        try:
            async with asyncio.timeout(self.timeout_s):
                assessment = await judge.assess(interaction)
            usage = assessment.usage
            evaluations, asked = await evaluate_asking(
                self.entries, interaction, assessment, judge, within_s=self.asking_timeout_s
            )
        except BaseException as error:  # a judge is anybody's code
            if ends_the_task(error):
                raise
            cause, detail = failure_of(error)
            if isinstance(error, JudgeError):
                usage = error.usage
            elif isinstance(error, MissingExtraError):
                usage = JudgeUsage()
            report = self.unread(judge.identity, role, interaction, cause, detail=detail)
        else:
            report = self.found(interaction, assessment, evaluations, role)
        counted = None if usage is None else _plausible(usage, asked)
        report = replace(report, decision=decision, usage=counted or JudgeUsage(calls=1))
        return Reading(report=report, cause=cause, counted=counted)

    def read_now(
        self, judge: CapableJudge, interaction: Interaction, whose: JudgeIdentity | None = None
    ) -> Report:
        """Return the report of a built-in judge, without a wait.

        Args:
            judge: The judge.
            interaction: The answer.
            whose: In whose place it reads, and who is named where it finds nothing; None: its own.
        """
        cause, detail = unscorable(interaction), ""
        if cause is None:
            try:
                return self.found(interaction, judge.read(interaction))
            except BaseException as error:  # one unreadable answer must cost only itself
                if not is_fault(error):
                    raise
                cause, detail = failure_of(error)
        return self.unread(whose or judge.identity, "builtin", interaction, cause, detail=detail)

    def unread(
        self,
        judge: JudgeIdentity,
        role: JudgeRole,
        interaction: Interaction,
        cause: Cause,
        decision: SamplingDecision = CERTAIN,
        *,
        detail: str = "",
    ) -> Report:
        """Return the report of an answer that the judge does not read, or could not."""
        return Report(
            interaction=interaction,
            judge=judge,
            evaluations=unscored(self.entries, judge, cause, encodable(self.clean(detail))),
            assessment=None,
            decision=decision,
            role=role,
        )

    def found(
        self,
        interaction: Interaction,
        assessment: Assessment,
        evaluations: Sequence[Evaluation] | None = None,
        role: JudgeRole = "builtin",
    ) -> Report:
        """Return the report on what a judge has found.

        Args:
            interaction: The answer.
            assessment: What was found.
            evaluations: The scores; None: those of evaluators that ask nothing.
            role: What it was read for.
        """
        if evaluations is None:
            evaluations = evaluate(self.entries, interaction, assessment)
        why: Diagnosis | None = None
        with contained("evaluate"):  # a judge is anybody's code, and so is what it returns
            why = diagnosis(interaction, assessment)
        return Report(
            interaction=interaction,
            judge=assessment.judge,
            # What an evaluator's failure says may quote anything.
            evaluations=tuple(
                replace(each, detail=self.clean(each.detail))
                if isinstance(each, Unscored) and each.detail
                else each
                for each in evaluations
            ),
            assessment=assessment,
            diagnosis=why,
            role=role,
        )


def failure_of(error: BaseException) -> tuple[Cause, str]:
    """Return why there are no scores, and what the error says."""
    if isinstance(error, JudgeError):  # no error of ours
        return error.cause, str(error)
    if isinstance(error, TimeoutError):
        return Cause.JUDGE_TIMEOUT, "no reply within the time for one reading"
    record_error("judge", error)
    return Cause.JUDGE_ERROR, f"{type(error).__name__}: {error}"


def _plausible(*usages: JudgeUsage) -> JudgeUsage | None:
    """Return the sum of what readings say they used; None: it cannot be so.

    That is logged once and counted: a counter cannot fall, and a budget must neither grow by it
    nor be gone for good.
    """
    names = [each.name for each in fields(JudgeUsage)]
    with suppress(TypeError, AttributeError):
        if all(0 <= getattr(each, name) <= MAX_USED for each in usages for name in names):
            return sum(usages, JudgeUsage())
    record_problem(
        "judge",
        "a judge's usage cannot be so: one call is counted, and what was reserved for the reading "
        f"is charged; its numbers are from 0 to {MAX_USED:,}",
    )
    return None


# --- the judge of drawn answers -----------------------------------------------------------------


@dataclass(eq=False)
class JudgeRunner:
    """Draws answers for the judge of one monitor and asks it, on one event loop."""

    judge: CapableJudge
    sampler: AdaptiveSampler
    """Draws answers for it, and pays for its readings."""
    engine: ReadingEngine
    concurrency: int
    """Answers that it reads at once."""
    spent: Callable[[JudgeUsage], float]
    """Returns the cost of a reading, in the budget's unit."""

    async def prepare(self) -> None:
        """Begin on the running loop, and load what the judge needs; readings wait for it."""
        self._slots = asyncio.Semaphore(self.concurrency)
        self._prepared = asyncio.Event()
        with contained("judge"):
            try:
                await self.judge.prepare()
            except RagMonitorError as error:
                # Each reading will say so too; here it is said before any money was expected of it.
                logger.warning("ragmonitor: the judge cannot read: %s", reason(error))
            finally:
                self._prepared.set()

    def gauges(self) -> Sequence[GaugeValue]:
        """Return what is known of sampling, of the budget, and of the judge's provider."""
        name, level = self.judge.identity.name, BREAKER_LEVELS.get(self.judge.breaker_state)
        sampling = self.sampler.gauges(name)
        if level is None:
            return sampling
        return (*sampling, GaugeValue.of(JUDGE_BREAKER_STATE, level, judge=name))

    # --- sampling -------------------------------------------------------------------------------

    def draw(
        self, interaction: Interaction, prediction: Prediction, *, pending: int
    ) -> SamplingDecision:
        """Return the sampling decision; without a cause, the answer is read.

        Args:
            interaction: The answer, which can be scored.
            prediction: What past verdicts say of it.
            pending: How many drawn answers wait already.
        """
        # Before the draw: what is drawn is always read, or the mean would be biased.
        if pending >= MAX_PENDING:
            cause = Cause.JUDGE_BUSY
        elif not self.judge.admits():  # it would not be asked now
            cause = Cause.JUDGE_DOWN
        else:
            try:
                return self.sampler.draw(interaction, uncertainty=prediction.uncertainty)
            except Exception as error:  # noqa: BLE001 - a judge that cannot tell its cost
                cause = _no_price(error)
        return SamplingDecision(inclusion_probability=0.0, drawn=False, cause=cause)

    def reserve(self, interaction: Interaction) -> SamplingDecision | None:
        """Pay for a reading outside the sample; None: it cannot be paid, or has no price."""
        try:
            return self.sampler.reserve(interaction)
        except Exception as error:  # noqa: BLE001 - a judge that cannot tell its cost
            _no_price(error)
            return None

    def unread(self, interaction: Interaction, decision: SamplingDecision, cause: Cause) -> Report:
        """Return the report of an answer that is not read."""
        return self.engine.unread(self.judge.identity, "sampled", interaction, cause, decision)

    # --- asking ---------------------------------------------------------------------------------

    async def read(
        self,
        role: JudgeRole,
        interaction: Interaction,
        decision: SamplingDecision,
        engine: ReadingEngine | None = None,
    ) -> Report:
        """Return the report on an answer that is paid for; its cost is charged, come what may.

        Args:
            role: What it is read for.
            interaction: The answer.
            decision: That it is read, and what is reserved for it.
            engine: Other evaluators; None: the usual ones.
        """
        spent = 0.0
        try:
            # These first: waiting for them must not use up the judge's own time.
            await self._prepared.wait()
            async with self._slots:
                spent = decision.reserved  # if this is cancelled nobody knows what it cost
                engine = engine or self.engine
                reading = await engine.read(self.judge, role, interaction, decision)
                if reading.counted is not None:
                    spent = self.spent(reading.counted)
        finally:
            self.sampler.refund(decision, spent)
        return reading.report


def _no_price(error: Exception) -> Cause:
    """Return why a reading's cost is not known."""
    if isinstance(error, JudgeError):  # it could not be read at any cost
        record_problem("sample", str(error))
        return error.cause
    record_error("sample", error)
    return Cause.JUDGE_ERROR
