"""Interactions of plain code."""

from opentelemetry.sdk.trace import TracerProvider

from ragmonitor.capture import InteractionRecorder


def test_the_caller_s_span_is_the_parent():
    """The span current when the block begins."""
    handed = []
    with TracerProvider().get_tracer("app").start_as_current_span("request") as span:
        recorder = InteractionRecorder(handed.append, query="Why?")
    with recorder as i:
        i.answered("x")
    assert handed[0].interaction().caller.trace_id == f"{span.get_span_context().trace_id:032x}"
