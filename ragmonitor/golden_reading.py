"""Has the judge read answers to golden questions, and the reference answers beside them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ragmonitor.capabilities import CapableJudge
from ragmonitor.conventions import PROBE_BAGGAGE
from ragmonitor.evaluators import table, unscorable
from ragmonitor.judging import ReadingEngine
from ragmonitor.records import GoldenAnswer, Interaction, Report, Severity

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
"""What golden questions are scored by; docs/evaluations.md defines each."""
MAX_CAPTURED: Final = 200
"""Records that wait for what the asker says of the same question."""


class GoldenReader:
    """Reads what was answered to golden questions, outside of the sampling and its budget."""

    def __init__(
        self,
        judge: CapableJudge,
        *,
        clean: Callable[[str], str] = str,
        timeout_s: float | None = None,
        min_severity: Severity = Severity.MAJOR,
    ) -> None:
        """Ask nobody yet.

        Args:
            judge: Reads each text anew: what it remembers of earlier readings would hide that it
                has changed.
            clean: Redacts one text: what a judge's provider says of a failure.
            timeout_s: For one reading; None: as long as the judge takes.
            min_severity: The least severity of a finding that makes an answer hallucinated.
        """
        self._judge = judge
        self._engine = ReadingEngine(
            table.select(GOLDEN_EVALUATORS),
            clean=clean,
            timeout_s=timeout_s,
            min_severity=min_severity,
        )
        self._captured: OrderedDict[str, Interaction] = OrderedDict()

    def note_captured(self, interaction: Interaction) -> None:
        """Keep what was captured in the application, until the asker's record comes."""
        golden = interaction.attributes.get(PROBE_BAGGAGE, "")
        if golden and interaction.chunks:
            self._captured[golden] = interaction
            while len(self._captured) > MAX_CAPTURED:
                self._captured.popitem(last=False)

    async def read(self, interaction: Interaction) -> GoldenAnswer:
        """Return the reports on an answer and on the reference answer; raises no judge's error."""
        interaction = self._completed(interaction)
        cause = unscorable(interaction)
        if cause is not None:
            return GoldenAnswer(
                report=self._engine.unread(
                    self._judge, "golden", interaction, cause, detail=interaction.error
                )
            )
        reading = await self._engine.read(self._judge, "golden", interaction)
        return GoldenAnswer(report=reading.report, reference=await self._reference(interaction))

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

    async def _reference(self, interaction: Interaction) -> Report | None:
        if not (interaction.reference.strip() and interaction.reference_chunks):
            return None
        own = replace(
            interaction,
            id=f"{interaction.id}-reference",
            answer=interaction.reference,
            chunks=interaction.reference_chunks,
            retrievals=(),
            generations=(),
        )
        return (await self._engine.read(self._judge, "golden", own)).report
