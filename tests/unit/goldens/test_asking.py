"""Golden questions put to an application, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from ragmonitor.capture.probe_mark import current_mark
from ragmonitor.goldens.asking import (
    MAX_HUNG_CALLS,
    Asker,
    AskError,
    HttpAsk,
    chunks_of,
)
from ragmonitor.goldens.golden import Golden
from ragmonitor.records import Chunk, Interaction

GOLDEN = Golden(id="g1", question="How tall is it?", answer="It is 330 m tall.")


def put(ask: Any, golden: Golden = GOLDEN, timeout_s: float = 5.0) -> Interaction:
    return asyncio.run(Asker(ask, timeout_s=timeout_s).put(golden))


@contextmanager
def served(
    *replies: tuple[int, Any], headers: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[tuple[dict[str, str], Any]]]]:
    """Serve the replies in order, the last again and again; yield the address and what came."""
    came: list[tuple[dict[str, str], Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            came.append(({k.lower(): v for k, v in self.headers.items()}, json.loads(body)))
            status, value = replies[min(len(came), len(replies)) - 1]
            sent = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(sent)))
            for name, text in (headers or {}).items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/ask", came
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_answer_of_a_callable_carries_the_reference_and_the_mark():
    """The interaction has the golden's question, reference and id; the callable saw the mark."""
    marks: list[str] = []

    def ask(_question: str) -> str:
        marks.append(current_mark())
        return "330 m."

    found = put(ask)
    assert found.probe is not None
    assert (found.answer, found.reference, found.probe.golden) == (
        "330 m.",
        GOLDEN.answer,
        "g1",
    )
    assert (found.probe.outcome, marks, found.probe.knows_chunks) == ("answered", ["g1"], False)
    assert not current_mark()


def test_a_coroutine_function_is_awaited_and_marked():
    """It runs on the loop of whoever asks, and its tasks inherit the mark."""

    async def ask(_question: str) -> dict[str, Any]:
        mark = await asyncio.create_task(asyncio.sleep(0, current_mark()))
        return {"answer": mark, "contexts": ["one", {"text": "two", "id": "2"}]}

    found = put(ask)
    assert (found.answer, found.chunks) == ("g1", (Chunk(text="one"), Chunk(text="two", id="2")))


def test_documents_of_frameworks_are_chunks():
    """LangChain's documents and LlamaIndex's nodes with scores."""
    document = SimpleNamespace(page_content="a", id="d", metadata={"source": "x.md"})
    node = SimpleNamespace(node=SimpleNamespace(text="b", id_="n", metadata={}), score=0.5)
    assert chunks_of([document, node, 3]) == (
        Chunk(text="a", id="d", metadata={"source": "x.md"}),
        Chunk(text="b", id="n", score=0.5),
    )


@pytest.mark.parametrize("error", [SystemExit(0), asyncio.CancelledError()], ids=["exit", "cancel"])
def test_an_application_that_ends_the_process_gave_no_answer(error):
    """Its `sys.exit(0)`, or a cancellation that nobody asked for, is no success of the asker's."""

    async def ask(_):
        raise error

    assert put(ask).error.startswith("exception: ")


def wordless():
    class WordlessError(Exception):
        def __str__(self) -> str:
            raise TypeError

    raise WordlessError


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (lambda _: 1 / 0, "exception"),
        (lambda _: wordless(), "exception"),
        (lambda _: {"text": "x"}, "no_answer"),
        (lambda _: None, "no_answer"),
        (lambda _: (piece for piece in "abc"), "no_answer"),
        (lambda _: asyncio.sleep(60), "timeout"),
    ],
)
def test_failures_have_a_kind(ask: Any, kind: AskError):
    """Whatever happens is an outcome, and its record is an interaction with the status error."""
    asked = put(ask, timeout_s=0.05)
    assert (asked.status, asked.answer) == ("error", "")
    assert asked.error.startswith(f"{kind}: ")


def test_a_callable_that_hangs_collects_no_threads():
    """After so many calls that did not return, no further one is begun."""
    release, begun = threading.Event(), []

    def ask(question: str) -> str:
        begun.append(question)
        release.wait()
        return "late"

    async def main() -> list[str]:
        asker = Asker(ask, timeout_s=0.01)
        return [
            (await asker.put(GOLDEN)).error.partition(":")[0] for _ in range(MAX_HUNG_CALLS + 4)
        ]

    try:
        errors = asyncio.run(main())
    finally:
        release.set()
    assert errors == ["timeout"] * (MAX_HUNG_CALLS + 4)
    assert len(begun) == MAX_HUNG_CALLS


def test_a_service_is_asked_with_the_mark_and_read_by_paths():
    """The header and the baggage name the golden question; paths may begin as JSONPath's do."""
    reply = {"data": {"text": "330 m."}, "docs": [{"body": "It is 330 m tall."}]}
    with served((200, reply)) as (url, came):
        ask = HttpAsk(
            url,
            question_field="q",
            answer_path="$.data.text",
            contexts_path="docs[*].body",
            headers={"authorization": "Bearer x"},
        )
        found = put(ask)
    assert (found.answer, found.chunks) == ("330 m.", (Chunk(text="It is 330 m tall."),))
    headers, body = came[0]
    assert body == {"q": GOLDEN.question}
    assert headers["x-ragmonitor-probe"] == "g1"
    assert headers["baggage"] == "ragmonitor.probe=g1"
    assert headers["authorization"] == "Bearer x"
