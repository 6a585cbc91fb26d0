"""Finds the span in which OpenInference traces the same run, for the setting `export.link_traces`.

OpenInference's tracer is one more callback handler. In a synchronous call it is told of a run
before ours is, unless ours was given to that one call; in an asynchronous one after ours, as it
does not run inline.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from uuid import UUID

from opentelemetry.trace import SpanContext

_MODULE = "openinference.instrumentation.langchain"


def span_of(run_id: Hashable) -> SpanContext | None:
    """Return the context of OpenInference's span of this open run; None if it has none.

    Args:
        run_id: A UUID's number, or whatever else the application gave as a run id.
    """
    # Not imported: an application that traces with it has done so.
    module = sys.modules.get(_MODULE)
    if module is None:
        return None
    instrumentor = module.LangChainInstrumentor()
    # Asked while it is off, `get_span` prints to the application's stdout.
    if not instrumentor.is_instrumented_by_opentelemetry:
        return None
    span = instrumentor.get_span(UUID(int=run_id) if isinstance(run_id, int) else run_id)
    context: SpanContext | None = None if span is None else span.get_span_context()
    return context if context is not None and context.is_valid else None
