"""Every way to call a chain gives the same record."""

from __future__ import annotations

from typing import Any

import pytest

from ragmonitor_langchain import instrument

QUESTIONS = ["how often?", "which colour?", "where?"]


@pytest.fixture
async def captured(monitor: Any, build: Any, way: Any, apps: Any) -> Any:
    """Three questions, asked of one shape of application in one way."""
    instrument(monitor)
    config = {
        "tags": ["beta"],
        "run_name": "support",
        "metadata": {"session_id": "s-1", "user_id": "u-1", "route": "/ask", "attempt": 2},
    }
    answers = await way(build(), QUESTIONS, config)
    assert answers == [apps.ANSWER] * 3
    return monitor.interactions


def test_each_question_is_one_interaction(captured: Any) -> None:
    """Three questions are three interactions with ids of their own."""
    assert len({i.id for i in captured}) == len(captured) == 3


def test_the_query_is_what_the_user_asked(captured: Any) -> None:
    """The query is the chain's input, streamed or not."""
    assert sorted(i.query for i in captured) == sorted(QUESTIONS)


def test_the_chunks_are_complete_and_in_order(captured: Any) -> None:
    """Every document is there, in the retriever's order, with id, score and metadata."""
    for interaction in captured:
        assert [(c.text, c.id, c.score, dict(c.metadata)) for c in interaction.chunks] == [
            ("Serviced every six months.", "manual-7", 0.9, {"score": 0.9}),
            ("The pump is blue.", "manual-2", 0.5, {"relevance_score": 0.5}),
            ("See page " + interaction.query, "", None, {"source": "index"}),
        ]


def test_the_answer_is_whole(captured: Any, apps: Any) -> None:
    """The answer is all of the text, streamed or not."""
    assert [i.answer for i in captured] == [apps.ANSWER] * 3


def test_an_answer_that_came_to_its_end_is_ok(captured: Any) -> None:
    """The status is ok and there is no error."""
    assert {(i.status, i.error, i.capture_incomplete) for i in captured} == {("ok", "", False)}


def test_tokens_are_counted_once(captured: Any) -> None:
    """Usage is the model's own count, in the generation and in the sum."""
    for interaction in captured:
        (generation,) = interaction.generations
        assert interaction.usage == generation.usage
        assert generation.usage.output_tokens == 7
        assert generation.usage.input_tokens


def test_the_model_has_its_name(captured: Any) -> None:
    """Model and provider are known from LangChain's own metadata."""
    named = {(g.provider, g.model) for i in captured for g in i.generations}
    assert named == {("answeringmodel", "scripted-1")}


def test_times_are_nested(captured: Any) -> None:
    """Retrieval and generation lie within the interaction, in that order."""
    for i in captured:
        (retrieval,), (generation,) = i.retrievals, i.generations
        times = [
            i.started_ns,
            retrieval.started_ns,
            retrieval.ended_ns,
            generation.started_ns,
            generation.ended_ns,
            i.ended_ns,
        ]
        assert times == sorted(times)


def test_what_the_application_says_of_itself_is_kept(captured: Any) -> None:
    """Name, tags, session, user and the application's own texts; nothing of the framework's."""
    for i in captured:
        assert (i.name, i.tags, i.session_id, i.user_id) == ("support", ("beta",), "s-1", "u-1")
        assert i.attributes == {"route": "/ask"}


def test_it_is_known_as_langchain(captured: Any) -> None:
    """The framework label is `langchain`."""
    assert {i.framework for i in captured} == {"langchain"}
