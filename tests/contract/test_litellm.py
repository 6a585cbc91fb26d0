"""What is recorded of chat completions through litellm: `data/records/litellm.jsonl` says it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

# litellm asks the network for prices while it is imported, unless told not to.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import litellm  # isort: skip
from ragmonitor_litellm import (  # isort: skip
    first_of,
    from_template,
    instrument,
    tagged,
    tool_messages,
    uninstrument,
)
from tests.contract.kit_capture import (  # isort: skip
    THINGS,
    Watched,
    about,
    cases,
    check,
    until,
    watching,
)

CASES = {case["cell"]: case for case in cases("records/litellm.jsonl")}
READ = first_of(
    from_template("Context:\n{context}\n\nQuestion: {question}"),
    tagged("<context>", "</context>"),
    tool_messages("*search*"),
)


class Provider(BaseHTTPRequestHandler):
    """An OpenAI-compatible server: answers on the thing of the prompt, or fails if that says so."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = json.dumps(asked["messages"])
        if "out of order" in prompt:
            self._send(500, "application/json", json.dumps({"error": {"message": "no model"}}))
            return
        thing = max(THINGS, key=prompt.rfind)
        words = [f"The {thing} ", "is serviced ", "every six months."]
        usage = {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}
        base = {"id": "1", "created": 1, "model": asked["model"]}
        if not asked.get("stream"):
            message = {"role": "assistant", "content": "".join(words)}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            whole = base | {"object": "chat.completion", "choices": [choice], "usage": usage}
            self._send(200, "application/json", json.dumps(whole))
            return
        deltas: list[dict[str, Any]] = [{"content": word} for word in words]
        choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
        choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
        chunks = [{"choices": each} for each in choices] + [{"choices": [], "usage": usage}]
        kind = {"object": "chat.completion.chunk"}
        events = [f"data: {json.dumps(base | kind | chunk)}\n\n" for chunk in chunks]
        self._send(200, "text/event-stream", "".join(events) + "data: [DONE]\n\n")

    def _send(self, status: int, kind: str, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Give the address of the provider."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """Give the event loop that all asynchronous calls run on: litellm's own worker stays there."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def watched() -> Iterator[Watched]:
    """Give a monitor to which litellm is known."""
    litellm.suppress_debug_info = True
    with watching() as watched:
        instrument(watched.monitor, extract=READ)
        yield watched
        gc.collect()
        uninstrument()


def completion(loop: asyncio.Runner, call: dict[str, Any]) -> str:
    """Ask in this thread."""
    return str(litellm.completion(**call).choices[0].message.content)


def acompletion(loop: asyncio.Runner, call: dict[str, Any]) -> str:
    """Ask in a task."""
    return str(
        loop.run(litellm.acompletion(**call), context=copy_context()).choices[0].message.content
    )


def stream(loop: asyncio.Runner, call: dict[str, Any]) -> str:
    """Ask, and read a stream to its end."""
    return "".join(map(_piece, litellm.completion(**call, **_STREAMED)))


def astream(loop: asyncio.Runner, call: dict[str, Any]) -> str:
    """Ask, and read an asynchronous stream to its end."""

    async def read() -> str:
        pieces = await litellm.acompletion(**call, **_STREAMED)
        return "".join([_piece(piece) async for piece in pieces])

    return str(loop.run(read(), context=copy_context()))


_STREAMED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
MODES = (completion, acompletion, stream, astream)


def _piece(piece: Any) -> str:
    return (piece.choices[0].delta.content or "") if piece.choices else ""


def call_of(url: str, case: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a case's call."""
    parts = {"api_base": url, "api_key": "none", "max_retries": 0, "model": "openai/scripted-1"}
    return parts | case["call"]


def recorded(watched: Watched, loop: asyncio.Runner, number: int) -> list[dict[str, Any]]:
    """Return the records when so many have come; litellm tells of a call a moment after it."""

    def look() -> list[dict[str, Any]]:
        loop.run(asyncio.sleep(0.001))
        if watched.monitor.open_runs:
            return []
        found = watched.told()
        return found if len(found) >= number else []

    return until("litellm has told of the call", look)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cell", [name for name, case in CASES.items() if "call" in case])
def test_a_completion_is_recorded(
    watched: Watched,
    url: str,
    loop: asyncio.Runner,
    cell: str,
    mode: Callable[[asyncio.Runner, dict[str, Any]], str],
) -> None:
    """However the call says its chunks, and in every mode of it."""
    case = CASES[cell]
    if case.get("status") == "error":
        with pytest.raises(litellm.InternalServerError):
            mode(loop, call_of(url, case))
        (found,) = recorded(watched, loop, 1)
        assert found["error"].startswith(case["error"])
        check([found | {"error": case["error"]}], case, framework="litellm")
        return
    assert mode(loop, call_of(url, case)) == case["answer"]
    check(recorded(watched, loop, 1), case, framework="litellm")


@pytest.mark.parametrize("mode", MODES)
def test_a_completion_in_a_block_is_a_part_of_it(
    watched: Watched,
    url: str,
    loop: asyncio.Runner,
    mode: Callable[[asyncio.Runner, dict[str, Any]], str],
) -> None:
    """Its answer and its tokens are the block's, which says what was retrieved."""
    case = CASES["in a block"]
    plain = {"call": {"messages": [{"role": "user", "content": "Write on the pump."}]}}
    with watched.monitor.interaction(query=case["question"]) as i:
        i.retrieved([text for text, *_ in case["chunks"]])
        assert mode(loop, call_of(url, plain)) == case["answer"]
    check(recorded(watched, loop, 1), case, framework="python")


def test_completions_at_the_same_time_are_kept_apart(
    watched: Watched, url: str, loop: asyncio.Runner
) -> None:
    """In tasks of one event loop, each with its own chunks and answer."""
    expected = [about(CASES["from_template"], thing) for thing in THINGS]

    async def ask() -> None:
        calls = (litellm.acompletion(**call_of(url, case)) for case in expected)
        await asyncio.gather(*calls)

    loop.run(ask())
    check(recorded(watched, loop, 3), *expected, framework="litellm")


def test_a_completion_without_chunks_is_no_interaction(watched: Watched, url: str) -> None:
    """Nothing is kept of a call in which no context is recognised, or which is left out."""
    case = CASES["from_template"]
    left_out = case["call"] | {"metadata": {"ragmonitor": False}}
    hello = {"messages": [{"role": "user", "content": "Hello, pump."}]}
    for call in (hello, left_out):
        litellm.completion(**call_of(url, {"call": call}))
    litellm.completion(**call_of(url, case))
    until("the last call is told", watched.told)
    check(watched.told(), case, framework="litellm")
