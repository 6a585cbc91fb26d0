"""Interactions read off the spans of other instrumentations, of three dialects.

OpenInference, OpenLLMetry and OpenTelemetry's GenAI conventions; `docs/foreign-spans.md` says what
each of them carries. Only `opentelemetry-sdk` is needed, none of the instrumentations.
"""

from ragmonitor.capture.foreign.dialects import DIALECTS, Dialect, dialect_of
from ragmonitor.capture.foreign.processor import InteractionSpanProcessor
from ragmonitor.capture.foreign.reading import FinishedTree, Tree
from ragmonitor.capture.foreign.spans import ForeignSpan
from ragmonitor.capture.foreign.trees import Choice, OpenSpan, trees_of

__all__ = [
    "DIALECTS",
    "Choice",
    "Dialect",
    "FinishedTree",
    "ForeignSpan",
    "InteractionSpanProcessor",
    "OpenSpan",
    "Tree",
    "dialect_of",
    "trees_of",
]
