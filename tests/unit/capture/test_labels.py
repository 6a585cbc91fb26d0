"""What the caller's context says of an interaction."""

import pytest
from opentelemetry import context

from ragmonitor.capture.interaction_labels import merged
from ragmonitor.capture.plain import InteractionRecorder
from ragmonitor.capture.recorder import Recorder
from tests.support.plain_framework import Plain

SAID = {
    "session.id": "s1",
    "user.id": "u1",
    "tag.tags": ["beta"],
    "metadata": '{"route": "/ask", "k": 4}',
    "llm.prompt_template.version": "v7",
}


@pytest.fixture
def attached():
    token = context.attach(context.Context(SAID))
    yield
    context.detach(token)


@pytest.mark.usefixtures("attached")
def test_openinference_s_context_is_honoured_in_framework_runs():
    """Session, user, tags and metadata stand in the record."""
    handed = []
    recorder = Recorder(Plain(), handed.append)
    recorder.started("r", None, "chain", "qa", "Why?", {"tags": ("own",), "user_id": "u2"})
    recorder.started("s", "r", "retriever", "search")
    recorder.ended("s", ["c"])
    recorder.started("m", "r", "model", "llm")
    recorder.ended("m", "a")
    recorder.ended("r", "a")
    found = handed[0].interaction()
    assert (found.session_id, found.user_id, found.tags) == ("s1", "u2", ("own", "beta"))
    assert found.attributes == {"route": "/ask", "k": "4", "prompt_version": "v7"}


@pytest.mark.usefixtures("attached")
def test_openinference_s_context_is_honoured_in_plain_code():
    """What the block itself says goes first."""
    handed = []
    with InteractionRecorder(handed.append, query="Why?", attributes={"route": "/own"}) as i:
        i.answered("x")
    found = handed[0].interaction()
    assert (found.session_id, found.tags) == ("s1", ("beta",))
    assert found.attributes["route"] == "/own"


@pytest.mark.parametrize("metadata", ["no json", "[1]", 7, None])
def test_metadata_that_is_none_is_left_out(metadata):
    """Anybody may put anything into a context."""
    assert merged({}, {"metadata": metadata})["attributes"] == {}
