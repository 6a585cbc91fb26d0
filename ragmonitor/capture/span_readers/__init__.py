"""Interactions read off the spans of other instrumentations, in three dialects.

OpenInference, OpenLLMetry and OpenTelemetry's GenAI conventions; `docs/otel-spans.md` says what
each of them carries. No instrumentation is imported; `processor` imports `opentelemetry-sdk`, which
an application with spans has.
"""

from ragmonitor.capture.span_readers.ancestry import Ancestry
from ragmonitor.capture.span_readers.dialects import dialect_of
from ragmonitor.capture.span_readers.finished import FinishedTree
from ragmonitor.capture.span_readers.span_events import with_contents
from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.trees import JoinedTrace

__all__ = [
    "Ancestry",
    "FinishedTree",
    "JoinedTrace",
    "SpanRecord",
    "dialect_of",
    "with_contents",
]
