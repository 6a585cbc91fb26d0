"""Interactions read off the spans of other instrumentations, of three dialects.

OpenInference, OpenLLMetry and OpenTelemetry's GenAI conventions; `docs/otel-spans.md` says what
each of them carries. Only `opentelemetry-sdk` is needed, none of the instrumentations.
"""

from ragmonitor.capture.otel_spans.conventions import CONVENTIONS, Convention, convention_of
from ragmonitor.capture.otel_spans.processor import InteractionSpanProcessor
from ragmonitor.capture.otel_spans.reading import FinishedTree, Tree
from ragmonitor.capture.otel_spans.spans import ForeignSpan
from ragmonitor.capture.otel_spans.trees import Choice, OpenSpan, trees_of

__all__ = [
    "CONVENTIONS",
    "Choice",
    "Convention",
    "FinishedTree",
    "ForeignSpan",
    "InteractionSpanProcessor",
    "OpenSpan",
    "Tree",
    "convention_of",
    "trees_of",
]
