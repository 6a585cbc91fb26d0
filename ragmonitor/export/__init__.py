"""Carries reports to where people look: traces, Prometheus, files."""

from ragmonitor.export.jsonl import JsonLinesExporter, report_line
from ragmonitor.export.otel import OtelExporter
from ragmonitor.export.prometheus import PrometheusExporter

__all__ = ["JsonLinesExporter", "OtelExporter", "PrometheusExporter", "report_line"]
