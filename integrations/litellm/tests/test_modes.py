"""Every way to call litellm, with every way to end."""

import litellm
import pytest
from opentelemetry.sdk.trace import TracerProvider

from ragmonitor.integration import Usage
from tests.support.openai_server import Reply

pytestmark = pytest.mark.slow

TRACER = TracerProvider().get_tracer("app")


async def test_it_is_scored(watched, way):
    """The built-in judge reads it."""
    await way(watched.call)
    await watched.later()
    (report,) = watched.exporter.reports
    scores = {e.evaluator: getattr(e, "score", None) for e in report.evaluations}
    assert scores["faithfulness@1"] == 1.0


async def test_the_prompt_and_the_model_stand_in_its_generation(watched, way):
    """As the model was asked, role by role."""
    await way(watched.call)
    ((generation,),) = [i.generations for i in await watched.later()]
    assert [m.role for m in generation.input] == ["system", "user"]
    assert generation.input[0].text == "Be brief."
    assert (generation.provider, generation.model) == ("openai", "answering-1")


async def test_tokens_are_the_providers(watched, server, way):
    """Each call counted once; streams tell them on demand."""
    server.script(Reply(content="Yes.", input_tokens=100, output_tokens=7))
    options = {"stream_options": {"include_usage": True}} if "stream" in way.__name__ else {}
    await way(watched.call | options)
    (interaction,) = await watched.later()
    assert interaction.usage == Usage(input_tokens=100, output_tokens=7)


async def test_the_times_are_those_of_the_call(watched, way):
    """From before the request until after the reply, in order."""
    import time

    before_ns = time.time_ns()
    await way(watched.call)
    after_ns = time.time_ns()
    (interaction,) = await watched.later()
    assert before_ns - 2_000_000 <= interaction.started_ns < interaction.ended_ns
    assert interaction.started_ns <= after_ns


async def test_the_callers_span_is_its_parent(watched, way):
    """Whichever thread or task litellm tells of the call on."""
    with TRACER.start_as_current_span("request") as span:
        await way(watched.call)
    (interaction,) = await watched.later()
    assert interaction.caller is not None
    assert int(interaction.caller.span_id, 16) == span.get_span_context().span_id


async def test_chinese_arrives_unchanged(watched, server, way, story):
    """Question, chunks and answer."""
    server.script("水泵每六个月保养一次。")
    messages = story.asked("水泵多久保养一次？", ["水泵每六个月保养一次。", "水泵是蓝色的。"])
    await way(watched.call | {"messages": messages})
    (interaction,) = await watched.later()
    assert interaction.query == "水泵多久保养一次？"
    assert [c.text for c in interaction.chunks] == ["水泵每六个月保养一次。", "水泵是蓝色的。"]
    assert interaction.answer == "水泵每六个月保养一次。"


def test_a_stream_that_is_held_unread_is_given_up(server, story):
    """A sweep ends what is older than the setting says."""
    from ragmonitor_litellm import from_template, instrument, uninstrument

    watched = story.Watched(server)
    instrument(watched.monitor, extract=from_template(story.TEMPLATE))
    try:
        pieces = litellm.completion(**watched.call, stream=True)
        watched.recorder._open_run_age_ns = 1_000
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
