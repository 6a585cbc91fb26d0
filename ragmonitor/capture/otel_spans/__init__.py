"""Interactions read off the spans of other instrumentations, in three conventions.

OpenInference, OpenLLMetry and OpenTelemetry's GenAI conventions; `docs/otel-spans.md` says what
each of them carries. Only `opentelemetry-sdk` is needed, none of the instrumentations.
"""

from ragmonitor.capture.otel_spans.convention import Convention
from ragmonitor.capture.otel_spans.known_conventions import CONVENTIONS, convention_of
from ragmonitor.capture.otel_spans.processor import InteractionSpanProcessor
from ragmonitor.capture.otel_spans.reading import FinishedTree, Tree
from ragmonitor.capture.otel_spans.spans import SpanRecord
from ragmonitor.capture.otel_spans.trees import Choice, OpenSpan, trees_of

__all__ = [
    "CONVENTIONS",
    "Choice",
    "Convention",
    "FinishedTree",
    "InteractionSpanProcessor",
    "OpenSpan",
    "SpanRecord",
    "Tree",
    "convention_of",
    "trees_of",
]
