"""`gpt-researcher`: plans sub-questions, compresses documents for each, streams a report.

LangChain retrievers and models that it calls by hand, one after another and in threads: to
LangChain these are unrelated, so its two calls stand in a block of ours.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from tests.support.openai_server import Reply, Request, refused
from tests.third_party_apps.scene import Played, Scene, check, in_prompt, opened, says, server

server()
# Documents so short as ours would be shown as they are, without a retriever.
os.environ |= {"RETRIEVER": "custom", "COMPRESSION_THRESHOLD": "0", "SIMILARITY_THRESHOLD": "0"}

from gpt_researcher import GPTResearcher  # noqa: E402 - the environment goes first
from langchain_core.documents import Document  # noqa: E402

from ragmonitor_langchain import instrument, uninstrument  # noqa: E402

QUESTION = "What is known of the Eiffel Tower?"
MORE = ["When was the tower built?", "How tall is the tower?"]
REPORT = "# The tower\n\nIt was built from 1887 to 1889.\nIt is 330 metres tall."
TEXTS = (
    "The Eiffel Tower was built from 1887 to 1889 for a world's fair.",
    "The tower is 330 metres tall and stands in Paris.",
    "Its iron weighs 7300 tonnes, and it is painted every seven years.",
    "The Great Wall is 21196 kilometres long.",
    "The Colosseum was finished in the year 80.",
)


def model(request: Request) -> Reply:
    """Reply to each of the application's prompts."""
    if request.body.get("stream"):
        return says(REPORT)
    if "agent_role_prompt" in request.system:
        return says(json.dumps({"server": "Guide", "agent_role_prompt": "You are a guide."}))
    return says(json.dumps(MORE))


def researcher(**settings: Any) -> GPTResearcher:
    """Return the application for one question."""
    given: dict[str, Any] = {
        "report_source": "langchain_documents",
        "documents": [Document(text, metadata={"title": f"t{n}"}) for n, text in enumerate(TEXTS)],
    }
    return GPTResearcher(query=QUESTION, verbose=False, **given | settings)


async def research(app: GPTResearcher) -> str:
    """Call it as its documentation does."""
    await app.conduct_research()
    report: str = await app.write_report()
    return report


async def in_block(scene: Scene, app: GPTResearcher) -> str:
    """Do the same, as one interaction."""
    async with scene.monitor.interaction(query=QUESTION, name="GPTResearcher"):
        return await research(app)


def told(played: Played) -> tuple[int, int]:
    """Return the tokens of the calls that counted any: none did that was streamed."""
    said = [model(chat).content for chat in played.chats if not chat.body.get("stream")]
    return sum(1_000 + len(text) for text in said), sum(map(len, said))


def documents(scene: Scene) -> None:
    """Three retrievals in threads, three model calls: one interaction."""
    with scene.played("conduct_research, write_report") as played:
        assert scene.run(in_block(scene, researcher())) == REPORT
    *_, last = played.chats
    shown = in_prompt(last, TEXTS)
    assert 0 < len(shown) < len(TEXTS), "the compressor is to leave out some"
    check(
        played.only,
        played,
        query=QUESTION,
        answer=REPORT,
        shown=shown,
        not_shown=set(TEXTS) - set(shown),
        usage=told(played),
        asked=3,
    )
    assert sorted(r.query for r in played.only.retrievals) == sorted([*MORE, QUESTION])


def without_a_block(scene: Scene) -> None:
    """Then there is nothing that ties its calls together, and nothing is captured."""
    with scene.played("without a block") as played:
        assert scene.run(research(researcher())) == REPORT
    assert played.interactions == []


def without_a_retriever(scene: Scene) -> None:
    """Show documents as they are: no run of LangChain's tells of them."""
    os.environ["COMPRESSION_THRESHOLD"] = "8000"
    with scene.played("documents shown without a retriever") as played:
        assert scene.run(in_block(scene, researcher())) == REPORT
    os.environ["COMPRESSION_THRESHOLD"] = "0"
    assert in_prompt(played.chats[-1], TEXTS), "the model was shown documents"
    check(played.only, played, query=QUESTION, answer=REPORT, shown=(), usage=told(played))


def failures(scene: Scene) -> None:
    """Let the model refuse the report: the application prints so and gives an empty one."""

    def refusing(request: Request) -> Reply:
        return refused(400, "no such model") if request.body.get("stream") else model(request)

    app = researcher(websocket=_Socket())  # without one it tries ten times, with long pauses

    async def ask() -> None:
        async with scene.monitor.interaction(query=QUESTION):
            await app.conduct_research()
            assert not await app.write_report()

    scene.server.always(refusing)
    with scene.played("model fails") as played:
        scene.run(ask())
    scene.server.always(model)
    found = played.only
    assert (found.status, found.answer) == ("error", ""), (found.status, found.answer)
    assert "no such model" in found.error
    assert found.retrievals


class _Socket:
    async def send_json(self, message: dict[str, Any]) -> None:
        """Take what the browser would be sent."""


class _Search(BaseHTTPRequestHandler):
    """What the application asks the web, first of all, to plan with."""

    def do_GET(self) -> None:
        body = b'[{"url": "http://127.0.0.1/1", "raw_content": "A page about towers."}]'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def web() -> Iterator[None]:
    """Serve the search."""
    http = HTTPServer(("127.0.0.1", 0), _Search)
    os.environ["RETRIEVER_ENDPOINT"] = f"http://127.0.0.1:{http.server_address[1]}/"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        http.shutdown()
        http.server_close()


if __name__ == "__main__":
    with web(), opened(instrument, uninstrument) as scene:
        scene.server.always(model)
        documents(scene)
        without_a_block(scene)
        without_a_retriever(scene)
        failures(scene)
