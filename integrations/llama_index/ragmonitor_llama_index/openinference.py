"""Finds the span in which OpenInference traces the same call, for the setting `export.link_traces`.

OpenInference's span handler keeps its open spans by LlamaIndex's own span id. Which of two handlers
is told of a call first depends on which was installed first.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable

from opentelemetry.trace import SpanContext

_MODULE = "openinference.instrumentation.llama_index"


def span_of(span_id: Hashable) -> SpanContext | None:
    """Return the context of OpenInference's span of this LlamaIndex span; None if it has none.

    A span that waits for its stream is in a queue of its own; by then a run below the root has
    started, and the root's span was found.
    """
    # Not imported: an application that traces with it has done so.
    module = sys.modules.get(_MODULE)
    if module is None:
        return None
    instrumentor = module.LlamaIndexInstrumentor()
    # Private, both: its public `get_current_span` knows the innermost span only. A version without
    # them costs the link, and our own trace is emitted as if the setting were off.
    handler = getattr(instrumentor, "_span_handler", None)
    open_span = None if handler is None else handler.open_spans.get(span_id)
    span = getattr(open_span, "_otel_span", None)
    context: SpanContext | None = None if span is None else span.get_span_context()
    return context if context is not None and context.is_valid else None
