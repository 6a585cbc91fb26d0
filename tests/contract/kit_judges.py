"""Scripted judges and their data, for the tests of judges and scores."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import ragmonitor
from ragmonitor import FunctionJudge

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

DATA = Path(__file__).parent / "data"


def cases(path: str) -> list[dict[str, Any]]:
    """Return the lines of a file of cases, relative to `data/`."""
    lines = (DATA / path).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def record(case: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a case, in the columns that `ragmonitor.evaluate` reads."""
    names = {"chunks": "contexts"}
    kept = ("question", "chunks", "answer", "reference", "reference_contexts")
    return {names.get(name, name): case[name] for name in kept if name in case}


def reply_to(prompt: str, replies: dict[str, Any]) -> str:
    """Return a judge's reply, by the JSON that the prompt shows as an example.

    `verdicts` are the documented entries: the chunks that support a sentence, "N" (absent),
    ["X", chunk] (contradicted), "-" (no claim). This is the one place that knows the reply's form.
    """
    if '{"a":' in prompt:
        keys = {"right": "a", "reference_in_chunks": "r", "reference_in_answer": "in"}
    elif '"s":{' in prompt:
        keys = {"verdicts": "s", "bad": "bad", "relevancy": "rel", "declines": "evasive"}
        keys["chunk_ratings"] = "ctx"
    else:
        return json.dumps(replies["asked"])
    return json.dumps({key: replies[name] for name, key in keys.items() if name in replies})


def scripted(replies: dict[str, Any]) -> FunctionJudge:
    """Return a judge that replies as a case says."""
    defaults = {"bad": [], "relevancy": 3, "declines": False}

    def ask(prompts: list[str]) -> list[str]:
        return [reply_to(prompt, defaults | replies) for prompt in prompts]

    return FunctionJudge(ask, name="scripted", version="1")


def scored(case: dict[str, Any], evaluators: Iterable[str]) -> Any:
    """Return what `ragmonitor.evaluate` makes of a case that its scripted judge reads."""
    result = ragmonitor.evaluate(
        [record(case)],
        evaluators=[*evaluators],
        judge=scripted(case["judge"]),
        budget_tokens=1_000_000,
    )
    assert not result.errors
    return result


def outcome(evaluation: dict[str, Any]) -> float | str:
    """Return the score of an evaluation as it is written, or the cause why there is none."""
    return evaluation["score"] if "score" in evaluation else evaluation["unscored"]


Respond = Callable[[dict[str, Any]], Any]


class ModelServer:
    """An OpenAI-compatible server on loopback whose replies a test scripts.

    `respond` gets the request's body and returns the reply's text, an HTTP status, or None for no
    reply at all until the server ends.
    """

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.asked: list[dict[str, Any]] = []
        self._over = threading.Event()
        served = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                served.asked.append(body)
                reply = served.respond(body)
                if reply is None:
                    served._over.wait(30)
                    return
                status, content = (reply, "") if isinstance(reply, int) else (200, reply)
                raw = json.dumps(completion(content) if status == 200 else failure()).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.api_base = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()


def prompt_of(body: dict[str, Any]) -> str:
    """Return all that a request asks."""
    return "\n".join(str(message["content"]) for message in body["messages"])


def completion(content: str) -> dict[str, Any]:
    """Return a reply in OpenAI's form."""
    message = {"role": "assistant", "content": content}
    return {
        "id": "reply",
        "object": "chat.completion",
        "created": 1,
        "model": "judge",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70},
    }


def failure() -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    return {"error": {"message": "refused", "type": "auth", "param": None, "code": None}}
