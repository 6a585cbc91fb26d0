"""`nishant-ragkit`: chats with a PDF: Chroma, `MultiQueryRetriever`, a prompt and a model.

Retriever and chain are called one after another, unrelated to LangChain: each call of the
application stands in a block of ours.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tests.support.openai_server import refused
from tests.third_party_apps.scene import Scene, check, in_prompt, opened, says, server

server()

import pymupdf  # noqa: E402 - the environment goes first
from langchain_openai import OpenAIEmbeddings  # noqa: E402
from ragkit import PDFRAG, RAGConfig  # noqa: E402

from ragmonitor_langchain import instrument, uninstrument  # noqa: E402

TEXTS = (
    "The Eiffel Tower was built from 1887 to 1889.",
    "The tower is 330 metres tall and stands in Paris.",
    "The Great Wall is 21196 kilometres long.",
    "Big Ben is the nickname of a bell in London.",
)
QUESTION = "When was the Eiffel Tower built?"
VARIANTS = "When was the tower finished?\nIn which years was it built?\nHow old is it?"
ANSWER = "It was built from 1887 to 1889."
NEXT = "And how tall is it?"
REWRITTEN = "How tall is the Eiffel Tower?"
NEXT_ANSWER = "It is 330 metres tall."


def application(place: Path) -> PDFRAG:
    """Return the application over a PDF of one page per text."""
    with pymupdf.open() as pdf:
        for text in TEXTS:
            pdf.new_page().insert_text((50, 50), text)
        pdf.save(place / "facts.pdf")
    return PDFRAG(
        place / "facts.pdf",
        config=RAGConfig(persist_directory=place / "db", llm_provider="openai", top_k=1),
        llm_provider="openai",
        embeddings=OpenAIEmbeddings(),
    )


def tokens(*texts: str) -> tuple[int, int]:
    """Return what these replies cost."""
    return 1_000 * len(texts) + sum(map(len, texts)), sum(map(len, texts))


def one_question(scene: Scene, app: PDFRAG) -> None:
    """`ask`: the retriever's own model call is no answer, and its prompt shows no chunk."""
    with scene.played("ask", says(VARIANTS), says(ANSWER)) as played:  # noqa: SIM117
        with scene.monitor.interaction(query=QUESTION):
            found: Any = app.ask(QUESTION, return_sources=True)
    sources = [source["content"] for source in found["sources"]]
    assert found["answer"] == ANSWER
    assert in_prompt(played.chats[-1], TEXTS) == sources
    check(
        played.only,
        played,
        query=QUESTION,
        answer=ANSWER,
        shown=sources,
        usage=tokens(ANSWER),
        asked=1,
    )
    assert [r.name for r in played.only.retrievals] == ["MultiQueryRetriever"]


def conversation(scene: Scene, app: PDFRAG) -> None:
    """`chat`: the second question is rewritten before it is searched for."""
    with scene.played("chat", says(VARIANTS), says(ANSWER)) as played:  # noqa: SIM117
        with scene.monitor.interaction(query=QUESTION, session_id="s1"):
            assert app.chat(QUESTION, session_id="s1") == ANSWER
    check(
        played.only,
        played,
        query=QUESTION,
        answer=ANSWER,
        shown=in_prompt(played.chats[-1], TEXTS),
        asked=1,
    )
    steps = says(REWRITTEN), says(VARIANTS), says(NEXT_ANSWER)
    with scene.played("chat, second turn", *steps) as played:  # noqa: SIM117
        with scene.monitor.interaction(query=NEXT, session_id="s1"):
            assert app.chat(NEXT, session_id="s1") == NEXT_ANSWER
    check(
        played.only,
        played,
        query=NEXT,
        answer=NEXT_ANSWER,
        shown=in_prompt(played.chats[-1], TEXTS),
        usage=tokens(REWRITTEN, NEXT_ANSWER),
        asked=2,
    )
    assert played.only.retrievals[0].query == REWRITTEN


def without_a_block(scene: Scene, app: PDFRAG) -> None:
    """Then there is nothing that ties its calls together, and nothing is captured."""
    with scene.played("without a block", says(VARIANTS), says(ANSWER)) as played:
        assert app.ask(QUESTION) == ANSWER
    assert played.interactions == []


def failures(scene: Scene, app: PDFRAG) -> None:
    """Let the model refuse: the application's own exception comes out of the block."""
    raised = ""
    with scene.played("model fails", says(VARIANTS), refused(400, "no such model")) as played:
        try:
            with scene.monitor.interaction(query=QUESTION):
                app.ask(QUESTION)
        except Exception as error:  # noqa: BLE001 - whatever the client raises
            raised = f"{type(error).__name__}: {error}"
    assert "no such model" in raised
    assert (played.only.status, played.only.error) == ("error", raised)
    assert not played.only.answer, played.only.answer
    assert played.only.chunks


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, opened(instrument, uninstrument) as scene:
        app = application(Path(folder))
        one_question(scene, app)
        conversation(scene, app)
        without_a_block(scene, app)
        failures(scene, app)
