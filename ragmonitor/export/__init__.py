"""Carries reports to where people look: traces, Prometheus, a page, files, Phoenix, Langfuse."""

from collections.abc import Callable

from ragmonitor.export.feedback_intake import FeedbackIntake
from ragmonitor.export.jsonl import JsonLines, is_feedback
from ragmonitor.export.langfuse import Langfuse
from ragmonitor.export.newest import NewestReports
from ragmonitor.export.otel import OtelExporter
from ragmonitor.export.phoenix import Phoenix
from ragmonitor.export.prometheus import PrometheusExporter
from ragmonitor.export.view import View, is_loopback
from ragmonitor.runtime.protocols import Exporter

EXPORTERS: dict[str, Callable[[str], Exporter]] = {
    "jsonl": JsonLines,
    "langfuse": Langfuse,
    "phoenix": Phoenix,
}
"""The exporters that the setting `exporters` may name, as `name:rest`; each makes its exporter of
the rest."""

__all__ = [
    "EXPORTERS",
    "FeedbackIntake",
    "JsonLines",
    "Langfuse",
    "NewestReports",
    "OtelExporter",
    "Phoenix",
    "PrometheusExporter",
    "View",
    "is_feedback",
    "is_loopback",
]
