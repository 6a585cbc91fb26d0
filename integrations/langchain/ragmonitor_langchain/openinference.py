"""Finds the span in which OpenInference traces the same run, for the setting `export.link_traces`.

OpenInference's tracer is one more callback handler. In a synchronous call it is told of a run
before ours is, unless ours was given to that one call; in an asynchronous one after ours, as it
does not run inline. So its span is looked for three times: when the root starts, when anything
below it starts, and before its end is reported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any
from uuid import UUID

from opentelemetry.trace import SpanContext

from ragmonitor import Recorder

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


def linked(recorder: Recorder) -> tuple[Callable[..., None], ...]:
    """Return the recorder's `started`, `ended` and `failed`, each of which looks for the span."""
    link = recorder.link

    def started(run_id: Hashable, parent_id: Hashable | None, *args: Any, **kwargs: Any) -> None:
        recorder.started(run_id, parent_id, *args, **kwargs)
        # Of a run below the root, this asks for the root's span.
        link(run_id, span_of)

    def ended(run_id: Hashable, *args: Any, **kwargs: Any) -> None:
        link(run_id, span_of)
        recorder.ended(run_id, *args, **kwargs)

    def failed(run_id: Hashable, *args: Any, **kwargs: Any) -> None:
        link(run_id, span_of)
        recorder.failed(run_id, *args, **kwargs)

    return started, ended, failed
