"""Every shape of application in every mode: one question is one interaction, and all of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id

from integrations.langchain.tests.matrix import (
    IMPOSSIBLE,
    MODES,
    RUNS,
    SHAPES,
    Asked,
    BusyError,
    Shape,
    pump_in,
    reply,
)
from ragmonitor import Generation, Interaction, Usage
from ragmonitor_langchain import instrument


def _cells(*, possible: bool) -> list[Any]:
    return [
        pytest.param(shape, mode, id=f"{shape.name}-{mode}")
        for shape in SHAPES
        for mode in MODES
        if ((shape.name, mode) not in IMPOSSIBLE) is possible
    ]


@pytest.fixture
def tracer() -> Any:
    """Give the application's own tracer."""
    provider = TracerProvider()
    yield provider.get_tracer("application")
    provider.shutdown()


def _words(text: str) -> int:
    return len(text.split())


def _is_of(generation: Generation, asked: Asked) -> bool:
    """Return whether this is the record of that call."""
    prompts = zip(generation.input, asked.messages, strict=False)
    shown = len(generation.input) == len(asked.messages) and all(
        message.text == str(given.text)
        or any(f"{call['name']}(" in message.text for call in getattr(given, "tool_calls", ()))
        for message, given in prompts
    )
    return shown and generation.output == asked.reply and bool(generation.error) == asked.failed


def _check(found: Interaction, shape: Shape, asked: list[Asked]) -> None:
    pump = pump_in(found.query)
    assert [(c.text, c.id, c.score) for c in found.chunks] == shape.chunks(pump)
    assert [c.text for c in found.not_shown] == shape.not_shown(pump)
    assert found.answer == reply(pump)
    assert (found.status, found.error, found.capture_incomplete) == ("ok", "", False)
    assert found.framework == shape.framework
    assert len(found.retrievals) == shape.retrievals
    assert len(found.generations) == len(asked)
    assert all(any(_is_of(generation, each) for each in asked) for generation in found.generations)
    answered = [each for each in asked if not each.failed]
    assert found.usage == Usage(
        input_tokens=sum(_words(each.prompt) for each in answered),
        output_tokens=sum(_words(each.reply) for each in answered),
    )
    assert {g.model for g in found.generations} == {"scripted-1"}
    times = [g.started_ns for g in found.generations] + [r.ended_ns for r in found.retrievals]
    assert found.started_ns <= min(times) <= max(times) <= found.ended_ns


@pytest.mark.parametrize(("shape", "mode"), _cells(possible=True))
async def test_a_question_is_captured_whole(
    monitor: Any, tracer: Any, shape: Shape, mode: str
) -> None:
    """Query, chunks, answer, tokens, status, caller and prompts are those of the application.

    The `monitor` fixture does the rest: nothing is left open and nobody was warned.
    """
    instrument(monitor)
    app = shape.build(monitor)
    answers = await RUNS[mode](shape, app, tracer)
    assert {query: text for query, (text, _) in answers.items()} == {
        query: reply(pump_in(query)) for query in answers
    }
    interactions = monitor.interactions
    assert Counter(i.query for i in interactions) == Counter(answers.keys())
    for found in interactions:
        _, span = answers[found.query]
        assert found.caller is not None
        assert found.caller.span_id == format_span_id(span.span_id)
        pump = pump_in(found.query)
        _check(found, shape, [each for each in app.log if pump_in(each.prompt) == pump])


@pytest.mark.parametrize(("shape", "mode"), _cells(possible=False))
async def test_what_langchain_refuses_is_an_error(
    monitor: Any, tracer: Any, shape: Shape, mode: str
) -> None:
    """The application gets LangChain's own exception, and the record says so."""
    instrument(monitor)
    with pytest.raises(BusyError):
        await RUNS[mode](shape, shape.build(monitor), tracer)
    assert [(i.status, i.error) for i in monitor.interactions] == [("error", "BusyError: 0")]
