"""Carries reports to where people look: traces, Prometheus, a page, files, Phoenix, Langfuse."""

from ragmonitor.export.jsonl import JsonLinesExporter, report_line
from ragmonitor.export.langfuse import LangfuseExporter
from ragmonitor.export.otel import OtelExporter
from ragmonitor.export.phoenix import PhoenixExporter
from ragmonitor.export.prometheus import PrometheusExporter
from ragmonitor.export.view import View, is_loopback

__all__ = [
    "JsonLinesExporter",
    "LangfuseExporter",
    "OtelExporter",
    "PhoenixExporter",
    "PrometheusExporter",
    "View",
    "is_loopback",
    "report_line",
]
