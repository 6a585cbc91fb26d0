"""Fakes that keep the protocols, for tests of applications and of integrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ragmonitor.records import Assessment, Interaction, JudgeIdentity, Report


class ManualClock:
    """A clock that goes on when it is told to."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the time, in seconds."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


class ScriptedJudge:
    """A judge that says what its script says.

    The script maps an interaction to an `Assessment`; an exception it raises is the judge's own.
    """

    def __init__(
        self, script: Callable[[Interaction], Assessment], *, name: str = "scripted"
    ) -> None:
        self.identity = JudgeIdentity(name=name, version="1", kind="CODE")
        self.asked: list[Interaction] = []
        self._script = script

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the script says."""
        self.asked.append(interaction)
        return self._script(interaction)


class ListExporter:
    """Keeps every report, in the order they came."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def export(self, report: Report) -> None:
        """Keep it."""
        self.reports.append(report)

    def flush(self, timeout_s: float) -> bool:
        """Have nothing to send."""
        return timeout_s >= 0

    def close(self) -> None:
        """Have nothing to release."""

    def interactions(self) -> Iterable[Interaction]:
        """Return each interaction once, in order."""
        return {r.interaction.id: r.interaction for r in self.reports}.values()
