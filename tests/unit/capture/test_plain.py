"""Interactions of plain code."""

import pytest
from opentelemetry.sdk.trace import TracerProvider

from ragmonitor.capture import InteractionRecorder
from ragmonitor.records import Chunk, Usage


def test_a_block_is_one_interaction():
    """What was said inside is in the record, in order."""
    handed = []
    with InteractionRecorder(handed.append, query="Why?", session_id="s1", tags=["beta"]) as i:
        i.retrieved(["Blue sky.", Chunk(text="Rayleigh", score=0.5)], name="search")
        i.answered("It scatters.", model="m", usage=Usage(input_tokens=3, output_tokens=2))
        i.tag("gold", route="/ask")
    found = handed[0].interaction()
    assert (found.query, found.answer, found.framework) == ("Why?", "It scatters.", "python")
    assert [c.text for c in found.chunks] == ["Blue sky.", "Rayleigh"]
    assert (found.tags, dict(found.attributes)) == (("beta", "gold"), {"route": "/ask"})
    assert (found.session_id, found.usage.input_tokens, found.status) == ("s1", 3, "ok")


def test_an_exception_is_noted_and_goes_on_its_way():
    """The application sees its own error."""
    handed = []
    with (
        pytest.raises(KeyError, match="index"),
        InteractionRecorder(handed.append, query="Why?"),
    ):
        raise KeyError("index")
    assert handed[0].interaction().status == "error"
    assert handed[0].interaction().error == "KeyError: 'index'"


def test_wrong_arguments_hurt_nobody():
    """A chunk that is no text is our problem, logged and counted, not the application's."""
    handed = []
    with InteractionRecorder(handed.append, query="Why?") as i:
        i.retrieved(None)
        i.answered("x")
    assert handed[0].interaction().answer == "x"


def test_the_caller_s_span_is_the_parent():
    """The span current when the block begins."""
    handed = []
    with TracerProvider().get_tracer("app").start_as_current_span("request") as span:
        recorder = InteractionRecorder(handed.append, query="Why?")
    with recorder as i:
        i.answered("x")
    assert handed[0].interaction().caller.trace_id == f"{span.get_span_context().trace_id:032x}"
