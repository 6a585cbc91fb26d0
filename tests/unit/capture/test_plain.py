"""Interactions of plain code."""

from types import SimpleNamespace

from opentelemetry.sdk.trace import TracerProvider

from ragmonitor.capture.plain import InteractionRecorder
from ragmonitor.records import Usage


def test_the_caller_s_span_is_the_parent():
    """The span current when the block begins."""
    handed = []
    with TracerProvider().get_tracer("app").start_as_current_span("request") as span:
        recorder = InteractionRecorder(handed.append, query="Why?")
    with recorder as i:
        i.answered("x")
    assert handed[0].interaction().caller.trace_id == f"{span.get_span_context().trace_id:032x}"


def test_what_is_noted_after_a_guard_has_read_it_is_recorded():
    """The model's name and its tokens often come last."""
    handed = []
    with InteractionRecorder(handed.append, query="Why?") as i:
        i.retrieved(["Blue sky."])
        assert "".join(i.streamed(["It ", "scatters."])) == i.interaction().answer
        i.answered("It scatters.", model="m", usage=Usage(input_tokens=7))
    (generation,) = handed[0].interaction().generations
    assert (generation.model, generation.usage.input_tokens) == ("m", 7)


def test_an_object_that_raises_costs_no_other_chunk():
    """A proxy outside its request, for one."""

    class Raising:
        def __getattribute__(self, name):
            raise RuntimeError(name)

    handed = []
    with InteractionRecorder(handed.append, query="Why?") as i:
        i.retrieved([Raising(), "Blue sky."])
    found = handed[0].interaction()
    assert ([c.text for c in found.chunks], found.capture_incomplete) == (["Blue sky."], True)


def test_documents_that_are_shortened_afterwards_are_recorded_as_they_were():
    """Applications cut what they show as sources, and need not wait for us."""
    handed = []
    found = [
        {"text": "a whole text", "id": "1"},
        SimpleNamespace(page_content="a whole document", metadata={"score": 0.5}, id="2"),
        ({"text": "a whole pair"}, 0.25),
    ]
    with InteractionRecorder(handed.append, query="Why?") as i:
        i.retrieved(found)
        i.answered("x")
    found[0]["text"] = found[1].page_content = found[2][0]["text"] = "a"
    chunks = handed[0].interaction().chunks
    assert [(chunk.text, chunk.id, chunk.score) for chunk in chunks] == [
        ("a whole text", "1", None),
        ("a whole document", "2", 0.5),
        ("a whole pair", "", 0.25),
    ]
