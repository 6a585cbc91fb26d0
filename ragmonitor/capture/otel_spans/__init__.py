"""Interactions read off the spans of other instrumentations, in three conventions.

OpenInference, OpenLLMetry and OpenTelemetry's GenAI conventions; `docs/otel-spans.md` says what
each of them carries. Only `opentelemetry-sdk` is needed, none of the instrumentations.
"""

from ragmonitor.capture.otel_spans.known_conventions import convention_of
from ragmonitor.capture.otel_spans.processor import InteractionSpanProcessor
from ragmonitor.capture.otel_spans.reading import FinishedTree
from ragmonitor.capture.otel_spans.span_events import EVENTS, with_contents
from ragmonitor.capture.otel_spans.spans import SpanRecord
from ragmonitor.capture.otel_spans.trees import Choice, trees_of

__all__ = [
    "EVENTS",
    "Choice",
    "FinishedTree",
    "InteractionSpanProcessor",
    "SpanRecord",
    "convention_of",
    "trees_of",
    "with_contents",
]
