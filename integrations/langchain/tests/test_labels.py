"""What the application says of an interaction: in its call, or in its context."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openinference.instrumentation import (
    using_attributes,
    using_metadata,
    using_session,
    using_tags,
    using_user,
)

from integrations.langchain.tests.matrix import ScriptedModel, lcel, question
from ragmonitor_langchain import instrument

QUERY = question(7)
MODES = ("invoke", "ainvoke", "stream", "astream", "batch", "abatch")


async def _ask(mode: str, config: Any = None) -> None:
    rag = lcel()
    if mode == "invoke":
        rag.invoke(QUERY, config)
    elif mode == "ainvoke":
        await rag.ainvoke(QUERY, config)
    elif mode == "stream":
        list(rag.stream(QUERY, config))
    elif mode == "astream":
        async for _ in rag.astream(QUERY, config):
            pass
    elif mode == "batch":
        rag.batch([QUERY], config)
    else:
        await rag.abatch([QUERY], config)


@pytest.mark.parametrize("mode", MODES)
class TestInTheCall:
    """`rag.invoke(question, {"tags": ..., "metadata": ...})`."""

    async def test_tags_and_metadata(self, monitor: Any, mode: str) -> None:
        """Name, tags, session, user and every other text; nothing of the framework's."""
        instrument(monitor)
        metadata = {"session_id": "s-1", "user_id": "u-1", "route": "/ask", "attempt": 2}
        await _ask(mode, {"tags": ["beta"], "run_name": "support", "metadata": metadata})
        found = monitor.only
        assert (found.name, found.tags) == ("support", ("beta",))
        assert (found.session_id, found.user_id) == ("s-1", "u-1")
        assert found.attributes == {"route": "/ask"}

    async def test_model_and_provider(self, monitor: Any, mode: str) -> None:
        """From LangChain's own metadata."""
        instrument(monitor)
        await _ask(mode)
        (generation,) = monitor.only.generations
        assert (generation.provider, generation.model) == ("scriptedmodel", "scripted-1")


@pytest.mark.parametrize("mode", MODES)
class TestInTheContext:
    """OpenInference's context managers, from the package `openinference-instrumentation`."""

    async def test_tags_and_metadata(self, monitor: Any, mode: str) -> None:
        """`using_tags`, `using_metadata`; beside those of the call."""
        instrument(monitor)
        with using_tags(["beta", "de"]), using_metadata({"route": "/ask", "attempt": 2}):
            await _ask(mode, {"tags": ["own"], "metadata": {"tenant": "acme"}})
        assert monitor.only.tags == ("own", "beta", "de")
        assert monitor.only.attributes == {"route": "/ask", "attempt": "2", "tenant": "acme"}

    async def test_all_at_once(self, monitor: Any, mode: str) -> None:
        """`using_attributes`, with the version of the prompt."""
        instrument(monitor)
        with using_attributes(
            session_id="s-1",
            user_id="u-1",
            tags=["beta"],
            metadata={"route": "/ask"},
            prompt_template="{context} {question}",
            prompt_template_version="v3",
        ):
            await _ask(mode)
        found = monitor.only
        assert (found.session_id, found.user_id, found.tags) == ("s-1", "u-1", ("beta",))
        assert found.attributes == {"route": "/ask", "prompt_version": "v3"}

    async def test_the_call_goes_before_its_context(self, monitor: Any, mode: str) -> None:
        """What is said of one call is meant for it."""
        instrument(monitor)
        with using_session("outer"), using_metadata({"route": "/outer"}):
            await _ask(mode, {"metadata": {"session_id": "own", "route": "/own"}})
        assert (monitor.only.session_id, monitor.only.attributes) == ("own", {"route": "/own"})


async def test_contexts_of_tasks_are_kept_apart(monitor: Any) -> None:
    """Each question has the session of the request that it came with."""
    instrument(monitor)

    async def request(number: int) -> None:
        with using_session(f"s-{number}"):
            await lcel().ainvoke(question(number))

    await asyncio.gather(*map(request, range(20)))
    assert {i.query: i.session_id for i in monitor.interactions} == {
        question(number): f"s-{number}" for number in range(20)
    }


def test_a_block_has_the_labels_of_its_context(monitor: Any) -> None:
    """And those of the calls in it."""
    instrument(monitor)
    with using_user("u-1"), monitor.interaction(query=QUERY):
        lcel(model=ScriptedModel()).invoke(QUERY, {"metadata": {"session_id": "s-1"}})
    assert (monitor.only.session_id, monitor.only.user_id) == ("s-1", "u-1")
