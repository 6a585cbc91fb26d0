"""Every way to call litellm, with every way to end."""

import litellm
import pytest

pytestmark = pytest.mark.slow


async def test_the_times_are_those_of_the_call(watched, way):
    """From before the request until after the reply, in order."""
    import time

    before_ns = time.time_ns()
    await way(watched.call)
    after_ns = time.time_ns()
    (interaction,) = await watched.later()
    assert before_ns - 2_000_000 <= interaction.started_ns < interaction.ended_ns
    assert interaction.started_ns <= after_ns


def test_a_stream_that_is_held_unread_is_given_up(server, story, monkeypatch):
    """A sweep ends what is open for too long."""
    from ragmonitor_litellm import from_template, instrument, uninstrument

    watched = story.Watched(server)
    instrument(watched.monitor, extract=from_template(story.TEMPLATE))
    try:
        pieces = litellm.completion(**watched.call, stream=True)
        monkeypatch.setattr("ragmonitor.capture.recorder.OPEN_RUN_AGE_S", 1e-6)
        next(pieces)
        watched.recorder.sweep()
        assert watched.only.status == "partial"
        assert list(pieces)  # and the application reads on
    finally:
        uninstrument()
        watched.monitor.close()


async def test_what_the_application_changes_afterwards_is_not_seen(watched, way, story):
    """Messages are appended to, and rewritten for the next question."""
    messages = story.asked()
    await way(watched.call | {"messages": messages})
    messages[1]["content"] = "Context:\nnothing\n\nQuestion: none?"
    messages.append({"role": "assistant", "content": "no"})
    (interaction,) = await watched.later()
    assert interaction.query == story.QUESTION
