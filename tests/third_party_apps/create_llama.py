"""`create-llama` (npm): its agentic RAG template, served by `llama-index-server`.

An `AgentWorkflow` with a query engine as its tool, whose synthesizer asks the model once per chunk.
Served over HTTP, streamed as the browser reads it.

Usage: python -m tests.third_party_apps.create_llama TEMPLATES
    TEMPLATES: `dist/templates` of the unpacked npm package.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.openai_server import refused
from tests.third_party_apps.scene import Scene, calls, check, in_prompt, opened, says, server

server()

import httpx  # noqa: E402 - the environment goes first
from llama_index.core.agent.workflow import AgentStream  # noqa: E402
from llama_index.server import LlamaIndexServer  # noqa: E402

from ragmonitor_llama_index import instrument, uninstrument  # noqa: E402

TEXTS = {
    "tower.txt": "The Eiffel Tower was built from 1887 to 1889.",
    "wall.txt": "The Great Wall is 21196 kilometres long.",
}
QUESTION = "When was the Eiffel Tower built?"
SEARCH = "construction of the Eiffel Tower"
PARTS = ("It was built from 1887 to 1889 [citation:1].", "The text says nothing of it.")
ANSWER = "The Eiffel Tower was built from 1887 to 1889."
STEPS = (calls("query_index", input=SEARCH), says(PARTS[0]), says(PARTS[1]), says(ANSWER))


def scaffold(templates: Path) -> None:
    """Put the template's files where the command puts them, in the current folder."""
    shutil.copytree(templates / "types/llamaindexserver/fastapi/src", "src")
    for file in (templates / "components/use-cases/python/agentic_rag").glob("*.py"):
        shutil.copy(file, "src")
    data = Path("ui/data")
    data.mkdir(parents=True)
    for name, text in TEXTS.items():
        (data / name).write_text(text)
    sys.path.insert(0, str(Path.cwd()))


def expect(played: Any) -> None:
    """Compare with what all ways of asking have in common."""
    first, *parts, last = played.chats
    texts = list(TEXTS.values())
    shown = [text for part in parts for text in in_prompt(part, texts)]
    assert sorted(shown) == sorted(texts), "each chunk in a prompt of its own"
    assert PARTS[0] in json.dumps(last.messages), "what the tool gave"
    assert first.user.endswith(QUESTION)
    found = [chunk.text for each in played.only.retrievals for chunk in each.chunks]
    assert sorted(found) == sorted(texts)
    check(
        played.only,
        played,
        query=QUESTION,
        answer=ANSWER,
        shown=found,
        # The agent's own calls are streamed, and LlamaIndex does not ask OpenAI to count those.
        usage=(2_000 + len("".join(PARTS)), len("".join(PARTS))),
    )
    assert played.only.retrievals[0].query == SEARCH


def workflow_run(scene: Scene, workflow: Any) -> None:
    """Run the template's own workflow object and read its events as they come."""

    async def ask() -> tuple[str, str]:
        handler = workflow.run(user_msg=QUESTION, chat_history=[])
        pieces = [e.delta async for e in handler.stream_events() if isinstance(e, AgentStream)]
        return "".join(pieces), str(await handler)

    with scene.played("workflow.run", *STEPS) as played:
        streamed, whole = scene.run(ask())
    assert (streamed, whole) == (ANSWER, ANSWER)
    expect(played)


def served(scene: Scene, create_workflow: Any) -> None:
    """POST /api/chat, read to its end."""
    app = LlamaIndexServer(
        workflow_factory=create_workflow, ui_config={"enabled": False}, suggest_next_questions=False
    )
    body = {"id": "1", "messages": [{"role": "user", "content": QUESTION}]}

    async def ask() -> str:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app")
        async with client, client.stream("POST", "/api/chat", json=body) as response:
            assert response.status_code == 200
            lines = [line async for line in response.aiter_lines()]
        return "".join(json.loads(line[2:]) for line in lines if line.startswith("0:"))

    with scene.played("POST /api/chat", *STEPS) as played:
        assert scene.run(ask()) == ANSWER
    expect(played)


def failures(scene: Scene, workflow: Any) -> None:
    """Let the model refuse after the search."""

    async def ask() -> None:
        await workflow.run(user_msg=QUESTION, chat_history=[])

    raised = ""
    with scene.played("model fails", *STEPS[:3], refused(400, "no such model")) as played:
        try:
            scene.run(ask())
        except Exception as error:  # noqa: BLE001 - whatever the workflow raises
            raised = str(error)
    assert "no such model" in raised
    assert played.only.status == "error", played.only.status
    assert "no such model" in played.only.error
    assert len(played.only.chunks) == len(TEXTS)
    assert not played.only.answer, played.only.answer


def cancelled(scene: Scene, workflow: Any) -> None:
    """Whoever asks stops the run when the answer begins."""

    async def ask() -> None:
        handler = workflow.run(user_msg=QUESTION, chat_history=[])
        async for event in handler.stream_events():
            if isinstance(event, AgentStream) and event.delta:
                await handler.cancel_run()
        with contextlib.suppress(Exception):
            await handler

    with scene.played("cancelled", *STEPS) as played:
        scene.run(ask())
    assert played.only.status == "cancelled", played.only.status
    assert len(played.only.chunks) == len(TEXTS)
    assert ANSWER.startswith(played.only.answer), played.only.answer


if __name__ == "__main__":
    templates = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder, opened(instrument, uninstrument) as scene:
        os.chdir(folder)
        scaffold(templates)
        from src.generate import generate_index

        generate_index()
        from src.workflow import create_workflow, workflow

        workflow_run(scene, workflow)
        served(scene, create_workflow)
        failures(scene, workflow)
        cancelled(scene, workflow)
