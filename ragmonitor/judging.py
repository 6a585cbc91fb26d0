"""Asking the judges: who reads a drawn answer, who stands in, who reads it again, what it cost."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

from ragmonitor.errors import JudgeError, MissingExtraError, RagMonitorError
from ragmonitor.evaluators import Table, diagnosis, evaluate_asking, unscorable, unscored
from ragmonitor.guard import (
    contained,
    is_asked_to_end,
    logger,
    reason,
    record_error,
    record_problem,
)
from ragmonitor.protocols import ConnectedJudge, GuardedJudge, Judge, Sampler
from ragmonitor.records import (
    CERTAIN,
    Assessment,
    Cause,
    Diagnosis,
    Evaluation,
    Interaction,
    JudgeUsage,
    Prediction,
    Report,
    Role,
    SamplingDecision,
    Unscored,
)
from ragmonitor.sampling import coin

JUDGE_GRACE_S = 5.0

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
class JudgeConfig:
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
    def is_down(self) -> bool:
        """Whether nobody would be asked now."""
        return not any(_admits(judge) for judge in self.chain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What came of one drawn answer."""

    reports: tuple[Report, ...]
    """By the judge, by those that stood in for it in turn, and last by the second judge if there is
    one."""
    judged: Report | None = None
    """By the judge itself."""
    stand_in: Report | None = None
    """By who read it where the judge failed to."""
    again: Report | None = None
    """By the judge, which read it twice; reported nowhere."""
    compared: tuple[Report, Report] | None = None
    """Two judges' reports of it."""


class JudgeRunner:
    """The judges of one monitor, on one event loop."""

    def __init__(
        self, judging: JudgeConfig, entries: Table, *, clean: Callable[[str], str]
    ) -> None:
        """Ask nobody yet.

        Args:
            judging: Who judges.
            entries: The evaluators.
            clean: Redacts one text: what a judge's provider says of a failure.
        """
        self.judging = judging
        self._entries = entries
        self._clean = clean
        self.forget()

    def forget(self) -> None:
        """Begin anew on another loop, or in a forked child."""
        self._slots = asyncio.Semaphore(self.judging.concurrency)
        self._prepared = asyncio.Event()

    async def prepare(self) -> None:
        """Load what the judges need; who asks waits for it."""
        try:
            for judge in self.judging.reporting:
                if isinstance(judge, ConnectedJudge):
                    with contained("judge"):
                        await _prepare(judge)
        finally:
            self._prepared.set()

    async def close(self) -> None:
        """Close connections of the running loop."""
        for judge in self.judging.reporting:
            if isinstance(judge, ConnectedJudge):
                with contained("judge"):
                    await judge.close()

    # --- before the coin ------------------------------------------------------------------------

    def draw(
        self, interaction: Interaction, prediction: Prediction, *, waiting: int
    ) -> tuple[SamplingDecision, Cause | None]:
        """Return the chance that it is read, and why it is not.

        Args:
            interaction: What was answered.
            prediction: What past verdicts say of it.
            waiting: How many drawn answers wait already.
        """
        cause = unscorable(interaction)
        if cause is not None:
            return CERTAIN, cause
        # Before the coin: what is drawn is always read, or the mean would be biased.
        if waiting >= self.judging.waiting_most:
            decision = SamplingDecision(
                inclusion_probability=0.0, drawn=False, cause=Cause.JUDGE_BUSY
            )
        elif self.judging.is_down:
            decision = SamplingDecision(
                inclusion_probability=0.0, drawn=False, cause=Cause.JUDGE_DOWN
            )
        else:
            try:
                decision = self.judging.sampler.draw(
                    interaction, uncertainty=prediction.uncertainty
                )
            except JudgeError as error:  # it could not be read at any cost
                decision = SamplingDecision(
                    inclusion_probability=0.0, drawn=False, cause=error.cause
                )
            except Exception as error:  # noqa: BLE001 - a judge that cannot tell what it costs
                record_error("sample", error)
                decision = SamplingDecision(
                    inclusion_probability=0.0, drawn=False, cause=Cause.JUDGE_ERROR
                )
        return decision, decision.cause or (None if decision.drawn else Cause.NOT_SAMPLED)

    def unread(
        self, interaction: Interaction, decision: SamplingDecision, cause: Cause
    ) -> Readings:
        """Return the reports of an answer that nobody reads."""
        judged = self._unread_by(self.judging.judge, "judge", interaction, decision, cause)
        second, its_decision = self.judging.second, self._second_decision(interaction, decision)
        if second is None or its_decision is None:
            return Readings(reports=(judged,), judged=judged)
        other = self._unread_by(second.judge, "second", interaction, its_decision, cause)
        return Readings(reports=(judged, other), judged=judged)

    def _unread_by(
        self,
        judge: Judge,
        role: Role,
        interaction: Interaction,
        decision: SamplingDecision,
        cause: Cause,
    ) -> Report:
        return Report(
            interaction=interaction,
            judge=judge.identity,
            evaluations=unscored(self._entries, judge.identity, cause),
            assessment=None,
            decision=decision,
            role=role,
        )

    def reserve(self, interaction: Interaction) -> SamplingDecision | None:
        """Pay for a reading outside the sample; None: it cannot be paid, or has no price."""
        try:
            return self.judging.sampler.reserve(interaction)
        except JudgeError:  # it could not be read at any cost
            return None
        except Exception as error:  # noqa: BLE001 - a judge that cannot tell what it costs
            record_error("sample", error)
            return None

    def _second_decision(
        self, interaction: Interaction, decision: SamplingDecision
    ) -> SamplingDecision | None:
        second = self.judging.second
        if second is None:
            return None
        return replace(
            decision,
            inclusion_probability=decision.inclusion_probability * second.share,
            drawn=decision.drawn and second.reads(interaction),
            reserved=0.0,
        )

    # --- asking ---------------------------------------------------------------------------------

    async def ask(self, interaction: Interaction, decision: SamplingDecision) -> Readings:
        """Return what the judges found of a drawn answer; its cost is settled, come what may."""
        # Decided while the coin falls, since the money is set aside then.
        its_decision = self._second_decision(interaction, decision)
        spent = 0.0
        try:
            # These first: waiting for them must not use up the judge's own time.
            async with await self._turn():
                spent = decision.reserved  # if this is cancelled nobody knows what it cost
                chain, costs = await self._ask_chain(interaction, decision)
                again, cost = await self._ask_twice(interaction, decision, chain[0])
                costs.append(cost)
                other: Report | None = None
                if its_decision is not None:
                    other, cost = await self._ask_second(interaction, decision, its_decision)
                    costs.append(cost)
                spent = sum(costs)
        finally:
            self.judging.sampler.settle(decision, spent)
        first = next((report for report in chain if report.assessment is not None), None)
        both = first is not None and other is not None and other.assessment is not None
        return Readings(
            reports=tuple(chain) if other is None else (*chain, other),
            judged=chain[0],
            stand_in=None if first is chain[0] else first,
            again=again,
            compared=(first, other) if both and first is not None and other is not None else None,
        )

    async def check(self, interaction: Interaction, decision: SamplingDecision) -> Report | None:
        """Return what the judge says now of an answer that was judged before."""
        repeating = self.judging.repeating
        if repeating is None:
            return None
        spent = decision.reserved
        try:
            async with await self._turn():
                report, _, cost = await self._ask_one(
                    repeating.judge, "judge", interaction, decision
                )
            spent = _known(cost, decision)
        finally:
            self.judging.sampler.settle(decision, spent)
        return report

    async def _turn(self) -> asyncio.Semaphore:
        """Return what to hold while asking, once the judges are loaded."""
        await self._prepared.wait()
        return self._slots

    async def _ask_chain(
        self, interaction: Interaction, decision: SamplingDecision
    ) -> tuple[list[Report], list[float]]:
        reports: list[Report] = []
        costs: list[float] = []
        for judge in self.judging.chain:
            role: Role = "judge" if judge is self.judging.judge else "fallback"
            report, cause, cost = await self._ask_one(judge, role, interaction, decision)
            reports.append(report)
            costs.append(_known(cost, decision))
            if cause not in _PASSED_ON:
                break
        return reports, costs

    async def _ask_twice(
        self, interaction: Interaction, decision: SamplingDecision, first: Report
    ) -> tuple[Report | None, float]:
        """Have the judge read some of the answers twice that it has read itself."""
        repeating = self.judging.repeating
        if repeating is None or first.assessment is None or not repeating.reads(interaction):
            return None, 0.0
        again, _, cost = await self._ask_one(repeating.judge, "judge", interaction, decision)
        return again, _known(cost, decision)

    async def _ask_second(
        self, interaction: Interaction, decision: SamplingDecision, its_decision: SamplingDecision
    ) -> tuple[Report, float]:
        second = self.judging.second
        assert second is not None  # noqa: S101 - for the type; it has a chance
        if not its_decision.drawn:
            cause = Cause.NOT_SAMPLED
            return self._unread_by(second.judge, "second", interaction, its_decision, cause), 0.0
        report, _, cost = await self._ask_one(second.judge, "second", interaction, its_decision)
        return report, _known(cost, decision)

    async def _ask_one(
        self, judge: Judge, role: Role, interaction: Interaction, decision: SamplingDecision
    ) -> tuple[Report, Cause | None, float | None]:
        """Return a judge's report, why there are no scores, and the cost; None: nobody knows it."""
        usage: JudgeUsage | None = None
        within_s = self.judging.reading_timeout_s + JUDGE_GRACE_S
        try:
            async with asyncio.timeout(within_s):
                assessment = _named(await judge.assess(interaction), judge)
            usage = assessment.usage
            evaluations, asked = await evaluate_asking(
                self._entries, interaction, assessment, judge, within_s=within_s
            )
        except JudgeError as error:
            cause, detail, usage = error.cause, str(error), error.usage
        except TimeoutError:
            cause, detail = Cause.JUDGE_TIMEOUT, "no reply within the time for one reading"
        except BaseException as error:  # a judge is anybody's code
            if is_asked_to_end(error) or isinstance(error, GeneratorExit):
                raise
            record_error("judge", error)
            cause, detail = Cause.JUDGE_ERROR, f"{type(error).__name__}: {error}"
            if isinstance(error, MissingExtraError):
                usage = JudgeUsage()
        else:
            usage, is_known = _plausible(usage, asked)
            report = Report(
                interaction=interaction,
                judge=assessment.judge,
                evaluations=cleaned(evaluations, self._clean),
                assessment=assessment,
                decision=decision,
                diagnosis=diagnosed(interaction, assessment),
                usage=usage,
                role=role,
            )
            return report, None, self.judging.spent(usage) if is_known else None
        is_known = usage is not None
        if usage is not None:
            usage, is_known = _plausible(usage)
        report = Report(
            interaction=interaction,
            judge=judge.identity,
            evaluations=unscored(self._entries, judge.identity, cause, self._clean(detail)),
            assessment=None,
            decision=decision,
            usage=usage or JudgeUsage(calls=1),
            role=role,
        )
        return report, cause, self.judging.spent(usage) if usage is not None and is_known else None


def _named(assessment: Assessment, judge: Judge) -> Assessment:
    """Return the assessment under the name of the judge that was asked, whatever it calls itself.

    Its version stays: the same judge may read by another prompt.
    """
    said, name = assessment.judge, judge.identity.name
    if said.name == name:
        return assessment
    return replace(assessment, judge=replace(said, name=name))


def _plausible(*usages: JudgeUsage) -> tuple[JudgeUsage, bool]:
    """Return the sum of what readings say they used, and whether all of it can be so.

    What is no number from 0 on is taken as 0, logged once and counted: a counter cannot fall, and
    a budget must neither grow by it nor be gone for good.
    """
    total = JudgeUsage()
    wrong: dict[str, None] = {}
    for usage in usages:
        used: dict[str, Any] = {}
        for each in fields(JudgeUsage):
            value: Any = getattr(usage, each.name, None)
            # A bool is an int to Python, and no count to anybody.
            is_count = isinstance(value, Real) and not isinstance(value, bool)
            if is_count and 0 <= value < math.inf:
                used[each.name] = value
            else:
                wrong[each.name] = None
        total += JudgeUsage(**used)
    if wrong:
        record_problem(
            "judge",
            f"a judge's usage cannot be so ({', '.join(wrong)}): 0 is counted, and what was "
            "reserved for the reading is charged; its numbers are finite and 0 or more",
        )
    return total, not wrong


def cleaned(
    evaluations: Sequence[Evaluation], clean: Callable[[str], str]
) -> tuple[Evaluation, ...]:
    """Return evaluations with what their failures say rewritten: it may quote anything."""
    return tuple(
        replace(each, detail=clean(each.detail))
        if isinstance(each, Unscored) and each.detail
        else each
        for each in evaluations
    )


def diagnosed(interaction: Interaction, assessment: Assessment | None) -> Diagnosis | None:
    """Return what went wrong with an answer; None: nothing is known of it."""
    if assessment is not None:
        with contained("evaluate"):  # a judge is anybody's code, and so is what it returns
            return diagnosis(interaction, assessment)
    return None


async def _prepare(judge: ConnectedJudge) -> None:
    try:
        await judge.prepare()
    except RagMonitorError as error:
        # Each reading will say so too; here it is said before any money was expected of it.
        logger.warning("ragmonitor: the judge cannot read: %s", reason(error))


def _known(cost: float | None, decision: SamplingDecision) -> float:
    """Return a reading's cost; where nobody knows it, what was set aside."""
    return decision.reserved if cost is None else cost


def _admits(judge: Judge) -> bool:
    return not isinstance(judge, GuardedJudge) or judge.admits()
