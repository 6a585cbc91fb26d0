"""Has the judge read answers to golden questions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ragmonitor.evaluators import table, unscorable
from ragmonitor.pipeline.judging import ReadingEngine
from ragmonitor.records import (
    Cause,
    Interaction,
    JudgeUsage,
    Report,
    SamplingDecision,
)
from ragmonitor.runtime.capabilities import CapableJudge
from ragmonitor.runtime.guard import contained, record_error, record_problem
from ragmonitor.sampling import AdaptiveSampler
from ragmonitor.semconv.conventions import PROBE_BAGGAGE
from ragmonitor.store import Budget

GOLDEN_EVALUATORS: Final = (
    "answer_correctness",
    "context_recall",
    "context_precision",
    "faithfulness",
    "refusal_correctness",
    "ragchecker_precision",
    "ragchecker_recall",
    "ragchecker_f1",
    "ragchecker_claim_recall",
    "ragchecker_context_precision",
    "ragchecker_context_utilization",
    "ragchecker_noise_sensitivity_in_relevant",
    "ragchecker_hallucination",
    "ragchecker_self_knowledge",
)
"""The evaluators of golden questions; docs/evaluations.md defines each."""
MAX_CAPTURED: Final = 200
"""Records that wait for what the asker says of the same question."""


BUDGET_SHARE: Final = 0.25
"""The share of the judges' budget that readings for golden questions may spend at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenBudget:
    """Pays for readings of golden questions, up to a share of what all judges may spend together.

    They are paid from the common budget, so that it holds; and no more of them than the share, so
    that traffic keeps the rest. What is under way may overdraw the share, and is made up for.
    """

    sampler: AdaptiveSampler
    """Reserves from the common budget, and refunds."""
    share: Budget
    """With `BUDGET_SHARE` of the common limits."""
    spent: Callable[[JudgeUsage], float]
    """The cost of a reading, in the budget's unit."""

    def reserve(self, interaction: Interaction) -> SamplingDecision | None:
        """Pay for a reading; None: it cannot be paid now, or has no price."""
        try:
            if self.share.status(0.0).level <= 0:
                return None
            return self.sampler.reserve(interaction)
        except Exception as error:  # noqa: BLE001 - a judge that cannot tell its cost
            record_error("sample", error)
            return None

    def refund(self, decision: SamplingDecision, usage: JudgeUsage | None) -> None:
        """Say what the reading has used; None: nobody knows, and what was reserved is spent."""
        cost = decision.reserved if usage is None else self.spent(usage)
        self.sampler.refund(decision, cost)
        with contained("sample"):
            self.share.settle(0.0, cost)


class GoldenReader:
    """Reads what was answered to golden questions, outside of the sampling."""

    def __init__(
        self,
        judge: CapableJudge,
        *,
        clean: Callable[[str], str] = str,
        timeout_s: float | None = None,
        budget: GoldenBudget | None = None,
    ) -> None:
        """Ask nobody yet.

        Args:
            judge: Reads each text anew: what it remembers of earlier readings would hide that it
                has changed.
            clean: Redacts one text: what a judge's provider says of a failure.
            timeout_s: For one reading; None: as long as the judge takes.
            budget: What readings may cost; None: the judge costs nothing.
        """
        self._judge = judge
        self._budget = budget
        self._engine = ReadingEngine(
            table.select(GOLDEN_EVALUATORS),
            clean=clean,
            timeout_s=timeout_s,
        )
        self._captured: OrderedDict[str, Interaction] = OrderedDict()

    def note_captured(self, interaction: Interaction) -> None:
        """Keep what was captured in the application, until the asker's record comes."""
        golden = interaction.attributes.get(PROBE_BAGGAGE, "")
        if golden and interaction.chunks:
            self._captured[golden] = interaction
            while len(self._captured) > MAX_CAPTURED:
                self._captured.popitem(last=False)

    async def read(self, interaction: Interaction) -> Report:
        """Return the report on an answer; raises no judge's error."""
        interaction = self._completed(interaction)
        cause = unscorable(interaction)
        if cause is not None:
            return self._engine.unread(
                self._judge, "golden", interaction, cause, detail=interaction.error
            )
        report = await self._read(interaction)
        if report is None:
            return self._engine.unread(self._judge, "golden", interaction, Cause.OVER_BUDGET)
        return report

    async def _read(self, interaction: Interaction) -> Report | None:
        """Return what the judge found; None: it cannot be paid now."""
        if self._budget is None:
            return (await self._engine.read(self._judge, "golden", interaction)).report
        decision = self._budget.reserve(interaction)
        if decision is None:
            record_problem(
                "judge",
                f"golden answers are not judged: {BUDGET_SHARE:.0%} of the budget are theirs, and "
                "spent for now; ask fewer of them (per_hour), or raise the budget",
            )
            return None
        usage: JudgeUsage | None = None
        try:
            reading = await self._engine.read(self._judge, "golden", interaction)
            usage = reading.report.usage if reading.is_usage_known else None
            return reading.report
        finally:
            self._budget.refund(decision, usage)

    def _completed(self, interaction: Interaction) -> Interaction:
        """Return the asker's record with the chunks that were captured in the application."""
        probe = interaction.probe
        captured = None if probe is None else self._captured.pop(probe.golden, None)
        if probe is None or probe.knows_chunks or captured is None:
            return interaction
        if not interaction.started_ns <= captured.started_ns <= interaction.ended_ns:
            return interaction  # of an earlier asking
        return replace(
            interaction,
            chunks=captured.chunks,
            probe=replace(probe, knows_chunks=True),
        )
