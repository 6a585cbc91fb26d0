"""Stands in a helper process for the exporters and tracer providers of its applications."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from ragmonitor.back_half.setup import HostExporter
from ragmonitor.export import NewestReports, OtelExporter
from ragmonitor.feedback import JoinedFeedback
from ragmonitor.protocols import Exporter
from ragmonitor.records import AlarmEvent, Interaction, Report, SpanReference


class HostConnection(Protocol):
    """A connection to one monitor of an application."""

    has_provider: bool
    """Whether the application has a tracer provider of its own."""
    newest: NewestReports
    """The newest reports on its own answers."""

    def tell(self, name: str, *args: object) -> bool:
        """Send a message; return whether it will arrive, or none is needed."""
        ...

    def flush_exporter(self, number: int, timeout_s: float) -> bool:
        """Have an exporter in the application flush, after all that it was sent."""
        ...

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Have a trace emitted there; return its root's reference, if it comes in time."""
        ...


class Hosts(Protocol):
    """The applications whose records one back half works off."""

    is_shared: bool
    """Whether it goes on without the connection for which it was built."""

    def lose(self, reason: str, n: int) -> None:
        """Count what did not arrive."""
        ...

    def first(self) -> HostConnection | None:
        """Return the oldest connection that is heard: what is told once is told to it."""
        ...

    def first_provider(self) -> HostConnection | None:
        """Return a connection to an application with a tracer provider of its own."""
        ...

    def sender_of(self, interaction: Interaction) -> HostConnection | None:
        """Return the connection that an interaction came by."""
        ...


class ExporterStandIn:
    """Stands for an exporter in the applications: a report goes where its answer came from."""

    def __init__(self, hosts: Hosts, number: int) -> None:
        self._hosts, self._number = hosts, number

    def export(self, report: Report) -> None:
        """Have it export there."""
        self._tell(self._hosts.sender_of(report.interaction), "export", report)

    def hear(self, method: str, news: object) -> None:
        """Have one of them hear what concerns all answers."""
        self._tell(self._hosts.first(), method, news)

    def _tell(self, connection: HostConnection | None, method: str, news: object) -> None:
        if connection is not None and not connection.tell("export", self._number, method, news):
            self._hosts.lose("exporter_full", 1)

    def flush(self, timeout_s: float) -> bool:
        """Have it flush there, after all that it was sent."""
        if self._hosts.is_shared:  # each application waits for its own exporters only
            return True
        connection = self._hosts.first()
        return connection is not None and connection.flush_exporter(self._number, timeout_s)

    def close(self) -> None:
        """Leave it open: the application closes its own exporters."""


def exporter_stand_in(hosts: Hosts, number: int, exporter: HostExporter) -> Exporter:
    """Return what stands for an exporter in the applications, with the same optional methods."""
    stand_in = ExporterStandIn(hosts, number)
    for method in exporter.hears:
        setattr(stand_in, method, partial(stand_in.hear, method))
    return stand_in


class NewestByMonitor:
    """Keeps the newest reports of each connection."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    def export(self, report: Report) -> None:
        """Keep it where its answer came from."""
        connection = self._hosts.sender_of(report.interaction)
        if connection is not None:
            connection.newest.export(report)

    def flush(self, timeout_s: float) -> bool:  # noqa: ARG002 - an exporter's
        """Return True: nothing is buffered."""
        return True

    def close(self) -> None:
        """Keep what there is."""


class TracesStandIn:
    """Emits here; or in the application, where that has a tracer provider of its own."""

    def __init__(self, hosts: Hosts, own: OtelExporter) -> None:
        self._hosts, self._own = hosts, own

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Emit the trace, and return its root's reference."""
        sender = self._hosts.sender_of(interaction)
        if sender is None or not sender.has_provider:
            return self._own.emit(interaction, reports)
        return sender.emit(interaction, reports)

    def export(self, report: Report) -> None:
        """Emit a late report."""
        sender = self._hosts.sender_of(report.interaction)
        if sender is not None and sender.has_provider:
            sender.tell("late", report)
        else:
            self._own.export(report)

    def alarm(self, event: AlarmEvent) -> None:
        """Emit an alarm."""
        connection = self._hosts.first_provider()
        if connection is not None:
            connection.tell("alarm", event)
        else:
            self._own.alarm(event)

    def feedback(self, joined: JoinedFeedback) -> None:
        """Emit what a person said."""
        connection = self._hosts.first_provider()
        if connection is not None:
            connection.tell("told", joined)
        else:
            self._own.feedback(joined)

    def destination(self) -> str:
        """Say where traces go."""
        if self._hosts.first_provider() is not None:
            return "the application's tracer provider"
        return self._own.destination()

    def flush(self, timeout_s: float) -> bool:
        """Send what is buffered here; the application flushes its own provider."""
        return self._own.flush(timeout_s)

    def close(self) -> None:
        """Shut down what is ours."""
        self._own.close()
