"""The reports on the newest answer, for who sits before the application."""

from __future__ import annotations

from ragmonitor.records import Report
from ragmonitor.runtime.protocols import Exporter


class NewestReports(Exporter):
    """Keeps the reports on the answer that was reported last, in memory; after its end, too."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._reports: tuple[Report, ...] = ()

    def newest(self) -> Report | None:
        """Return the judge's report if it read that answer, else the built-in judge's."""
        reports = self._reports
        read = [each for each in reports if each.assessment is not None]
        return (read or reports)[-1] if reports else None

    def export(self, report: Report) -> None:
        """Keep it, with the others on the same answer."""
        same = [each for each in self._reports if each.interaction.id == report.interaction.id]
        self._reports = (*same, report)
