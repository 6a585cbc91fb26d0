"""Fakes that keep the protocols, for tests of applications and of integrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ragmonitor.records import Assessment, Interaction, JudgeIdentity, Report
from ragmonitor.runtime.protocols import BudgetUnit, Exporter


class ManualClock:
    """A clock that a test advances."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the time, in seconds."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


class ScriptedJudge:
    """A judge that follows a script.

    The script maps an interaction to an `Assessment`; an exception it raises is the judge's own.
    It costs nothing, whatever a budget counts.
    """

    budget_unit: BudgetUnit | None = None

    def __init__(
        self, script: Callable[[Interaction], Assessment], *, name: str = "scripted"
    ) -> None:
        self.identity = JudgeIdentity(name=name, version="1", kind="CODE")
        self.asked: list[Interaction] = []
        self._script = script

    def expected_cost(self, interaction: Interaction) -> float:  # noqa: ARG002 - of the protocol
        """Return 0."""
        return 0.0

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the script says."""
        self.asked.append(interaction)
        return self._script(interaction)


class ListExporter(Exporter):
    """Keeps every report, in the order they came."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def export(self, report: Report) -> None:
        """Keep it."""
        self.reports.append(report)

    def interactions(self) -> Iterable[Interaction]:
        """Return each interaction once, in order."""
        return {r.interaction.id: r.interaction for r in self.reports}.values()
