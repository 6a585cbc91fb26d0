"""Carries reports to where people look: traces, Prometheus, files, Phoenix, Langfuse."""

from ragmonitor.export.jsonl import JsonLinesExporter, report_line
from ragmonitor.export.langfuse import LangfuseExporter
from ragmonitor.export.otel import OtelExporter
from ragmonitor.export.phoenix import PhoenixExporter
from ragmonitor.export.prometheus import PrometheusExporter

__all__ = [
    "JsonLinesExporter",
    "LangfuseExporter",
    "OtelExporter",
    "PhoenixExporter",
    "PrometheusExporter",
    "report_line",
]
