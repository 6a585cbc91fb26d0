"""`llama-index-cli`: its `RagCLI`, which chats with files from the command line.

A pipeline that ingests files, `CondenseQuestionChatEngine` over a streaming query engine, one
question or a conversation on the terminal. `RagCLI` takes the pipeline; the vector store is Chroma,
as in the command's own default.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path

from tests.support.openai_server import refused
from tests.third_party_apps.scene import Scene, check, in_prompt, opened, says, server

server()

import chromadb  # noqa: E402 - the environment goes first
from llama_index.cli.rag import RagCLI  # noqa: E402
from llama_index.core.ingestion import IngestionCache, IngestionPipeline  # noqa: E402
from llama_index.core.node_parser import SentenceSplitter  # noqa: E402
from llama_index.core.storage.docstore import SimpleDocumentStore  # noqa: E402
from llama_index.embeddings.openai import OpenAIEmbedding  # noqa: E402
from llama_index.vector_stores.chroma import ChromaVectorStore  # noqa: E402

from ragmonitor_llama_index import instrument, uninstrument  # noqa: E402

TEXTS = {
    "tower.txt": "The Eiffel Tower was built from 1887 to 1889.",
    "wall.txt": "The Great Wall is 21196 kilometres long.",
    "bell.txt": "Big Ben is the nickname of a bell in London.",
}
QUESTION = "When was the Eiffel Tower built?"
ANSWER = "It was built from 1887 to 1889."
NEXT = "And how long is the wall?"
REWRITTEN = "How long is the Great Wall?"
NEXT_ANSWER = "It is 21196 kilometres long."


def cli(place: Path) -> RagCLI:
    """Return the application over a pipeline as its command builds one."""
    store = ChromaVectorStore(
        chroma_collection=chromadb.PersistentClient(str(place / "db")).create_collection("default")
    )
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(), OpenAIEmbedding()],
        vector_store=store,
        docstore=SimpleDocumentStore(),
        cache=IngestionCache(),
    )
    return RagCLI(ingestion_pipeline=pipeline, persist_dir=str(place / "db"))


def questions(scene: Scene, app: RagCLI, place: Path) -> None:
    """Ingest, ask; then ask what only the conversation explains."""
    out = io.StringIO()
    with (
        scene.played("handle_cli --files --question", says(ANSWER)) as played,
        contextlib.redirect_stdout(out),
    ):
        scene.run(app.handle_cli(files=[str(place / "*.txt")], question=QUESTION))
    shown = in_prompt(played.chats[-1], list(TEXTS.values()))
    assert len(shown) == len(TEXTS)
    tokens = 1_000 + len(ANSWER), len(ANSWER)
    check(played.only, played, query=QUESTION, answer=ANSWER, shown=shown, usage=tokens)
    assert out.getvalue().strip() == ANSWER

    with (
        scene.played("follow-up question", says(REWRITTEN), says(NEXT_ANSWER)) as played,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        scene.run(app.handle_cli(question=NEXT))
    check(
        played.only,
        played,
        query=NEXT,
        answer=NEXT_ANSWER,
        shown=in_prompt(played.chats[-1], list(TEXTS.values())),
        # Both calls': the question's new wording costs tokens too.
        usage=(
            2_000 + len(REWRITTEN) + len(NEXT_ANSWER),
            len(REWRITTEN) + len(NEXT_ANSWER),
        ),
    )
    assert played.only.retrievals[0].query == REWRITTEN


def conversation(scene: Scene, app: RagCLI) -> None:
    """Two turns on the terminal, streamed."""
    out, stdin = io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(f"{QUESTION}\n{NEXT}\nexit\n")
    try:
        with (
            scene.played("chat", says(ANSWER), says(REWRITTEN), says(NEXT_ANSWER)) as played,
            contextlib.redirect_stdout(out),
        ):
            scene.run(app.handle_cli(chat=True))
    finally:
        sys.stdin = stdin
    assert ANSWER in out.getvalue()
    assert NEXT_ANSWER in out.getvalue()
    first, second = played.interactions
    for one, query, answer, asked in ((first, QUESTION, ANSWER, 1), (second, NEXT, NEXT_ANSWER, 2)):
        chat = next(c for c in played.chats if query in c.user or REWRITTEN in c.user)
        check(
            one,
            played,
            query=query,
            answer=answer,
            shown=in_prompt(chat if one is first else played.chats[-1], list(TEXTS.values())),
            asked=asked,
            # Streamed calls count none: LlamaIndex does not ask OpenAI to.
            usage=(None, None) if one is first else (1_000 + len(REWRITTEN), len(REWRITTEN)),
        )


def failures(scene: Scene, app: RagCLI) -> None:
    """Let the model refuse."""
    app.chat_engine.reset()
    raised = ""
    with scene.played("model fails", refused(400, "no such model")) as played:
        try:
            scene.run(app.handle_cli(question=QUESTION))
        except Exception as error:  # noqa: BLE001 - whatever the client raises
            raised = f"{type(error).__name__}: {error}"
    assert raised
    assert played.only.status == "error", played.only.status
    assert played.only.error == raised, played.only.error
    assert len(played.only.chunks) == len(TEXTS)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, opened(instrument, uninstrument) as scene:
        place = Path(folder)
        for name, text in TEXTS.items():
            (place / name).write_text(text)
        app = cli(place)
        questions(scene, app, place)
        app.chat_engine.reset()
        conversation(scene, app)
        failures(scene, app)
