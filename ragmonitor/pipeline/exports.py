"""The places to which reports, alarms and feedback go: traces, series, and exporters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragmonitor.pipeline.ledger import Account
from ragmonitor.records import AlarmEvent, Report, Snapshot, SpanReference
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.guard import contained, logger
from ragmonitor.runtime.lock_slices import give_back
from ragmonitor.runtime.protocols import Exporter, TraceExporter

if TYPE_CHECKING:
    from ragmonitor.export.prometheus import PrometheusExporter


@dataclass(frozen=True, slots=True)
class Exports:
    """Passes on what there is to say of answers; one that fails costs the others nothing."""

    traces: TraceExporter
    """Emits each interaction's trace."""
    meters: PrometheusExporter
    """What people scrape."""
    exporters: Sequence[Exporter]
    """Further places for reports."""
    clean: Callable[[str], str]
    """Redacts one text: what people say."""

    def deliver(self, account: Account, *reports: Report) -> SpanReference | None:
        """Emit the trace of an answer and export its reports; return the reference of its root."""
        interaction, target = reports[0].interaction, None
        with contained("export"):
            target = self.traces.emit(interaction, reports)
        give_back()
        with contained("export"):
            self.meters.answered(interaction, target)
        for report in reports:
            self.export(account, replace(report, target=target))
        return target

    def export(self, account: Account, report: Report) -> None:
        """Export a report that is owed; a late one goes out as a span of its own, too."""
        if not account.reported(report):
            return  # who closes the monitor has counted it
        for exporter in (self.meters, *self.exporters):
            with contained("export"):
                exporter.export(report)
            give_back()
        if report.late:
            with contained("export"):
                self.traces.export(report)

    def announce(self, event: AlarmEvent) -> None:
        """Log an alarm's transition, and pass it on to whoever listens."""
        logger.warning("ragmonitor: %s", event)
        self._tell((self.meters, *self.exporters), "alarm", event)

    def pass_on(self, joined: JoinedFeedback) -> None:
        """Export what people said: as a score by people, and never among a judge's."""
        with contained("export"):
            joined = replace(joined, feedback=joined.feedback.redacted(self.clean))
            self._tell((self.traces, *self.exporters), "feedback", joined)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Pass every number of now on to the exporters that listen."""
        self._tell(self.exporters, "snapshot", snapshot)

    def _tell(self, exporters: Sequence[Exporter], name: str, news: object) -> None:
        """Call a method of the exporters that have it: see `Exporter`."""
        for exporter in exporters:
            with contained("export"):
                if (take := getattr(exporter, name, None)) is not None:
                    take(news)

    def flush(self, deadline: float) -> bool:
        """Send what is buffered; return whether all of it was sent."""
        flushed = True
        exporters: list[Exporter] = [self.traces, self.meters, *self.exporters]
        for exporter in exporters:
            is_done = False
            with contained("export"):
                # On this thread: at exit no executor takes work any more, and nothing else waits.
                is_done = exporter.flush(max(0.1, deadline - time.monotonic()))
            flushed = is_done and flushed
        return flushed

    def close(self) -> None:
        """Close all of them."""
        for exporter in (self.meters, *self.exporters, self.traces):
            with contained("export"):
                exporter.close()
