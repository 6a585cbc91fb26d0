"""`local-deep-research`: a LangGraph agent that searches a LangChain retriever, and cites.

`quick_summary` with the strategy `langgraph-agent`: `create_agent` with a search tool around the
application's own search engine, streamed; then model calls outside the graph that check facts and
write the answer that the caller gets.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

from tests.support.openai_server import refused
from tests.third_party_apps.scene import (
    Played,
    Scene,
    calls,
    check,
    in_prompt,
    opened,
    says,
    server,
)

server()
os.environ["LDR_DATA_DIR"] = tempfile.mkdtemp()

from langchain_core.documents import Document  # noqa: E402 - the environment goes first
from langchain_core.embeddings import DeterministicFakeEmbedding  # noqa: E402
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402
from local_deep_research.api import quick_summary  # noqa: E402
from loguru import logger  # noqa: E402

from ragmonitor_langchain import instrument, uninstrument  # noqa: E402

TEXTS = (
    "The Eiffel Tower was built from 1887 to 1889.",
    "The tower is 330 metres tall and stands in Paris.",
    "The Great Wall is 21196 kilometres long.",
)
QUESTION = "When was the Eiffel Tower built?"
SEARCH = "Eiffel Tower construction dates"
DRAFT = "From 1887 to 1889 [1]."
CHECKED = "No conflicts."
ANSWER = "The Eiffel Tower was built from 1887 to 1889 [1]."
STEPS = (calls("web_search", query=SEARCH), says(DRAFT), says(CHECKED), says(ANSWER))


def ask() -> dict[str, Any]:
    """Call the application as its documentation does."""
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document(text, metadata={"title": text[:9]}) for text in TEXTS])
    found: dict[str, Any] = quick_summary(
        QUESTION,
        retrievers={"library": store.as_retriever(search_kwargs={"k": 2})},
        llms={"scripted": ChatOpenAI(model="gpt-4o-mini", max_retries=0)},
        provider="scripted",
        search_tool="library",
        search_strategy="langgraph-agent",
        settings_override={"search.tool": "library"},
    )
    return found


def shown(played: Played) -> list[str]:
    """Return the chunks that the last model was shown."""
    texts = in_prompt(played.chats[-1], TEXTS)
    assert len(texts) == 2
    return texts


def in_block(scene: Scene) -> None:
    """Make one interaction of the agent and of what writes the answer after it."""
    with scene.played("quick_summary in a block", *STEPS) as played:  # noqa: SIM117
        with scene.monitor.interaction(query=QUESTION, name="quick_summary"):
            assert ask()["summary"] == ANSWER
    check(
        played.only,
        played,
        query=QUESTION,
        answer=ANSWER,
        shown=shown(played),
        usage=(
            1_000 + sum(1_000 + len(t) for t in (DRAFT, CHECKED, ANSWER)),
            7 + len(DRAFT + CHECKED + ANSWER),
        ),
    )
    assert [r.query for r in played.only.retrievals] == [SEARCH]


def unaided(scene: Scene) -> None:
    """Without a block the graph is the interaction, and its own last message the answer."""
    with scene.played("quick_summary", *STEPS) as played:
        assert ask()["summary"] == ANSWER
    agent = in_prompt(played.chats[1], TEXTS)
    assert len(agent) == 2
    check(
        played.only,
        played,
        query=QUESTION,
        answer=DRAFT,
        shown=agent,
        usage=(1_000 + 1_000 + len(DRAFT), 7 + len(DRAFT)),
        asked=2,
    )


def failures(scene: Scene) -> None:
    """Let the model refuse once it has searched: the application writes from what was found."""
    steps = (*STEPS[:1], refused(400, "no such model"), says(DRAFT), *STEPS[2:])
    with scene.played("agent's model fails", *steps) as played:
        assert ask()["summary"] == ANSWER
    graph = played.only
    assert graph.status == "error", graph.status
    assert "no such model" in graph.error
    assert not graph.answer, graph.answer
    assert len(graph.chunks) == 2

    with scene.played("agent's model fails in a block", *steps) as played:  # noqa: SIM117
        with scene.monitor.interaction(query=QUESTION):
            assert ask()["summary"] == ANSWER
    check(played.only, played, query=QUESTION, answer=ANSWER, shown=shown(played))


if __name__ == "__main__":
    logger.remove()
    with opened(instrument, uninstrument) as scene:
        in_block(scene)
        unaided(scene)
        failures(scene)
