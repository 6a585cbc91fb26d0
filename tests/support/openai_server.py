"""An OpenAI-compatible server on loopback, scripted, for tests and demonstrations.

```python
with OpenAiServer() as server:
    judge = LlmJudge("openai/judge", api_base=server.api_base, api_key="none")
    server.script(rate_limited(retry_after_s=1), fenced)   # the next two replies; then the default
    ...
    assert len(server.chats) == 3                           # what was asked, in order
```

The default responder is a scripted judge: it reads the chunks and sentences out of our own prompt
and replies truthfully as far as plain containment of words can tell, so that tests of the whole
pipeline get sensible verdicts. Any other chat gets `server.answer`.

A step of a script is a `Reply`, a text (the content of a reply), or a function of the `Request`
that returns either; the faults below are such functions or make them. Steps are used once each,
in order; `server.always(step)` stays until it is changed. Only chat requests use steps.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

# litellm asks the network for prices while it is imported, unless told not to.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

MAX_ENDLESS = 2**28
"""Bytes after which even an endless body ends: the client was to hang up long before."""
HANG_MOST_S = 30.0
"""A hanging reply is let go after this long even if nobody releases it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Mapping[str, Any]
    """The decoded JSON; empty for GET."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat's messages."""
        return list(self.body.get("messages", []))

    @property
    def system(self) -> str:
        """The text of its system messages."""
        return "\n".join(str(m["content"]) for m in self.messages if m["role"] == "system")

    @property
    def user(self) -> str:
        """The text of its user messages."""
        return "\n".join(str(m["content"]) for m in self.messages if m["role"] == "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply to a chat request."""

    content: str = ""
    """What the model says."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    input_tokens: int | None = None
    """None: about the real number, from the request's length."""
    output_tokens: int | None = None
    body: bytes | None = None
    """Sent as it is instead of a completion."""
    content_type: str = "application/json"
    hangs: bool = False
    """Sent only after `OpenAiServer.release`."""
    drips: bool = False
    """Sent a byte every 20 ms, until `OpenAiServer.release`."""
    is_endless: bool = False
    """`body` is sent again and again, until the client hangs up; `OpenAiServer.endless_bytes`."""
    breaks_off: bool = False
    """Half of it is sent, and the connection closed."""


Step = Reply | str | Callable[[Request], "Reply | str"]


# Faults


def truthful(request: Request) -> Reply:
    """Reply as the scripted judge does."""
    if " REFERENCE\n" in request.user:
        return Reply(content=json.dumps(compared(request)))
    return Reply(content=json.dumps(judged(request), ensure_ascii=False))


def malformed(_request: Request) -> Reply:
    """Reply with what no parser can make sense of."""
    return Reply(content='{"s": [[1], [1')


def empty(_request: Request) -> Reply:
    """Reply with no text at all."""
    return Reply(content="")


def truncated(request: Request) -> Reply:
    """Reply with the first third of the truth, cut for length."""
    whole = truthful(request).content
    return Reply(content=whole[: len(whole) // 3], finish_reason="length")


def fenced(request: Request) -> Reply:
    """Reply with the truth in a Markdown code block."""
    return Reply(content=f"```json\n{truthful(request).content}\n```")


def in_prose(request: Request) -> Reply:
    """Reply with the truth between two sentences."""
    return Reply(
        content=f"Here is my assessment: {truthful(request).content}\nLet me know if it helps!"
    )


def wrong_counts(request: Request) -> Reply:
    """Reply with one verdict and one rating too many."""
    verdict = judged(request)
    verdict["s"].append([1])
    verdict["ctx"].append(2)
    return Reply(content=json.dumps(verdict))


def wrong_content_type(_request: Request) -> Reply:
    """Reply with a web page, as proxies do."""
    return Reply(body=b"<html><body>Welcome</body></html>", content_type="text/html")


def rate_limited(retry_after_s: float | None = None) -> Reply:
    """Return a 429, with a `Retry-After` header if a time is given."""
    headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
    return refused(429, "Rate limit reached", kind="rate_limit_error", headers=headers)


def refused(
    status: int,
    message: str = "The server had an error",
    *,
    kind: str = "server_error",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Return an error of any status, in OpenAI's form."""
    error = {"error": {"message": message, "type": kind, "param": None, "code": None}}
    return Reply(status=status, body=json.dumps(error).encode(), headers=headers or {})


def hanging(_request: Request) -> Reply:
    """Reply with nothing before `OpenAiServer.release`."""
    return Reply(hangs=True)


def dripping(request: Request) -> Reply:
    """Reply with the truth, byte by byte: every read succeeds and the whole never comes."""
    return replace(truthful(request), drips=True)


def breaking_off(request: Request) -> Reply:
    """Reply with the first half of the truth, and close the connection."""
    return replace(truthful(request), breaks_off=True)


# The scripted judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a prompt of ours holds."""

    border: str
    chunks: tuple[str, ...]
    question: str
    sentences: tuple[str, ...]


def read_prompt(user: str) -> Asked | None:
    """Return the sections of a judge's user message; None if it is none."""
    opening = re.match(r"<<(\d+) CHUNKS\n", user)
    if opening is None:
        return None
    border = opening[1]

    def section(name: str) -> str:
        found = re.search(rf"<<{border} {name}\n(.*?)\n{border}>>", user, re.DOTALL)
        return "" if found is None else found[1]

    chunks = re.split(rf"(?:^|\n)\[C\d+ {border}\]\n", section("CHUNKS"))[1:]
    return Asked(
        border=border,
        chunks=tuple(chunks),
        question=section("QUESTION"),
        sentences=tuple(re.findall(r"^S\d+ (.*)$", section("ANSWER"), re.MULTILINE)),
    )


_REFUSAL = re.compile(
    r"\b(?:i (?:do not|don't) know|cannot (?:answer|help)|no information|unable to)\b"
    r"|不知道|无法回答|没有(?:相关)?信息",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"^(?:sure|hello|hi|thanks|thank you|you're welcome|here you go|let me know)\b"
    r"|^(?:你好|您好|谢谢|希望)|[?？]$",
    re.IGNORECASE,
)
_SMALL = (
    "a an and are as at be by can do does for from has have how in is it its of on or that the "
    "their there this to was were what when where which who why will with you your"
)
_SMALL_WORDS = frozenset(_SMALL.split())
_TERM = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_\u4e00-\u9fff]+|[\u4e00-\u9fff]")


def judged(request: Request) -> dict[str, Any]:
    """Return a truthful reply to a judge's prompt, by containment of words.

    Supported: a chunk holds the sentence, or all its terms (a Chinese character is a term).
    Contradicted: all its terms but numbers. Otherwise absent; courtesy and refusals claim nothing.
    """
    asked = read_prompt(request.user)
    if asked is None:
        raise ValueError("this is no judge's prompt")
    verdicts: list[Any] = []
    bad: list[list[Any]] = []
    chunk_terms = [_terms(chunk) for chunk in asked.chunks]
    question = _terms(asked.question)
    evasive = all(_REFUSAL.search(s) or _COURTESY.search(s) for s in asked.sentences)
    for number, sentence in enumerate(asked.sentences, 1):
        if _REFUSAL.search(sentence) or _COURTESY.search(sentence):
            verdicts.append("-")
            continue
        terms = _terms(sentence)
        holding = [i for i, known in enumerate(chunk_terms, 1) if terms <= known]
        verbatim = [
            i
            for i, chunk in enumerate(asked.chunks, 1)
            if sentence.rstrip(".。!！").casefold() in " ".join(chunk.split()).casefold()
        ]
        if verbatim or holding:
            verdicts.append(verbatim or holding)
            continue
        figures = {term for term in terms if term[0].isdigit()}
        near = [i for i, known in enumerate(chunk_terms, 1) if figures and terms - figures <= known]
        verdicts.append(["X", near[0]] if near else "N")
        missing = terms - (chunk_terms[near[0] - 1] if near else set().union(*chunk_terms))
        words = [m.group() for m in _TERM.finditer(sentence) if m.group().casefold() in missing]
        if words:
            bad.append([number, words[0]])
    return {
        "s": verdicts,
        "bad": bad,
        "rel": 3 if question & set().union(*map(_terms, asked.sentences)) else 0,
        "evasive": evasive and bool(asked.sentences),
        "ctx": [min(2, len(question & known)) for known in chunk_terms],
    }


def compared(request: Request) -> dict[str, Any]:
    """Return a truthful reply to a prompt about a reference answer, by containment of words."""
    asked = read_prompt(request.user)
    if asked is None:
        raise ValueError("this is no judge's prompt")

    def sentences(name: str, mark: str) -> list[str]:
        section = rf"<<{asked.border} {name}\n(.*?)\n{asked.border}>>"
        found = re.search(section, request.user, re.DOTALL)
        lines = "" if found is None else found[1]
        return re.findall(rf"^{mark}\d+ (.*)$", lines, re.MULTILINE)

    answer, reference = sentences("ANSWER", "A"), sentences("REFERENCE", "R")
    said, known = _terms(" ".join(answer)), _terms(" ".join(reference))
    chunks = [_terms(chunk) for chunk in asked.chunks]
    return {
        "a": [int(_terms(sentence) <= known) for sentence in answer],
        "r": [
            "-"
            if _COURTESY.search(sentence)
            else [n for n, chunk in enumerate(chunks, 1) if _terms(sentence) <= chunk]
            for sentence in reference
        ],
        "in": [int(_terms(sentence) <= said) for sentence in reference],
    }


def _terms(text: str) -> set[str]:
    return {term.casefold() for term in _TERM.findall(text)} - _SMALL_WORDS


# The server


class OpenAiServer:
    """Serves /v1/chat/completions (also streamed), /v1/models and /v1/embeddings on loopback."""

    def __init__(self, default: Step | None = None, *, answer: str = "I do not know.") -> None:
        """Bind a free port; `with` serves.

        Args:
            default: Used when the script is empty; the scripted judge, if none is given.
            answer: What the default says to a chat that is no judge's prompt.
        """
        self.answer = answer
        self.requests: list[Request] = []
        """All of them, in the order they came."""
        self.embeds: Reply | None = None
        """Sent instead of vectors, if set; with a `body`."""
        self.endless_bytes = 0
        """Sent of endless bodies before their clients hung up."""
        self._default: Step = default or self._respond
        self._steps: deque[Step] = deque()
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._hangs = threading.Semaphore(0)
        self._http = _Http(self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def api_base(self) -> str:
        """The address that clients are given, with /v1."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def chats(self) -> list[Request]:
        """The chat requests, in the order they came."""
        return [request for request in self.requests if request.path.endswith("/completions")]

    def script(self, *steps: Step) -> None:
        """Add the replies to the next chat requests, one step each."""
        with self._lock:
            self._steps.extend(steps)

    def always(self, step: Step) -> None:
        """Reply like this whenever the script is empty."""
        self._default = step

    def release(self) -> None:
        """Let go whatever hangs, now and from now on."""
        self._released.set()

    def wait_until_hanging(self, timeout_s: float = HANG_MOST_S) -> bool:
        """Return once a request hangs; False if none did in time."""
        return self._hangs.acquire(timeout=timeout_s)

    def _respond(self, request: Request) -> Reply:
        return truthful(request) if read_prompt(request.user) else Reply(content=self.answer)

    def _next(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            step = self._default
            if request.path.endswith("/completions") and self._steps:
                step = self._steps.popleft()
        if callable(step):
            step = step(request)
        return Reply(content=step) if isinstance(step, str) else step

    def _record(self, request: Request) -> None:
        with self._lock:
            self.requests.append(request)

    def _hang(self) -> None:
        self._hangs.release()
        self._released.wait(HANG_MOST_S)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    block_on_close = False

    def __init__(self, owner: OpenAiServer) -> None:
        self.owner = owner
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that time out hang up, which is what they are tested for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Print nothing."""

    def do_GET(self) -> None:
        self.server.owner._record(self._request({}))
        if self.path.rstrip("/").endswith("/models"):
            self._send_json({"object": "list", "data": [{"id": "judge", "object": "model"}]})
        else:
            self._send_json({"error": {"message": f"no such path: {self.path}"}}, status=404)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError:
            self._send_json({"error": {"message": "the body is no JSON"}}, status=400)
            return
        request = self._request(body)
        if self.path.endswith("/embeddings"):
            self.server.owner._record(request)
            self._embed(body, self.server.owner.embeds)
        elif self.path.endswith(("/completions", "/messages")):  # the latter: Anthropic's
            self._chat(request)
        else:
            self.server.owner._record(request)
            self._send_json({"error": {"message": f"no such path: {self.path}"}}, status=404)

    def _embed(self, body: Mapping[str, Any], reply: Reply | None) -> None:
        if reply is None or reply.body is None:
            self._send_json(_embeddings(body))
        elif reply.is_endless:
            self._send_endlessly(reply.body, reply)
        elif reply.breaks_off:
            self._break_off(reply.body, reply)
        else:
            self._send(reply.body, reply.status, reply.content_type, reply.headers)

    def _request(self, body: Mapping[str, Any]) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(method=self.command, path=self.path, headers=headers, body=body)

    def _chat(self, request: Request) -> None:
        reply = self.server.owner._next(request)
        if reply.hangs:
            self.server.owner._hang()
            reply = replace(refused(503, "released"), hangs=False)
        if reply.body is not None and reply.is_endless:
            self._send_endlessly(reply.body, reply)
        elif reply.body is not None:
            self._send(reply.body, reply.status, reply.content_type, reply.headers)
        elif request.body.get("stream"):
            self._send_stream(request, reply)
        else:
            body = json.dumps(_completion(request, reply)).encode()
            if reply.breaks_off:
                self._break_off(body, reply)
            else:
                self._send(body, reply.status, "application/json", reply.headers, drips=reply.drips)

    def _send_stream(self, request: Request, reply: Reply) -> None:
        head = _completion(request, reply)
        common = {"id": head["id"], "object": "chat.completion.chunk", "created": 0}
        common["model"] = head["model"]
        pieces = re.findall(r"\S+\s*|\s+", reply.content)
        deltas: list[tuple[dict[str, Any], str | None]] = [
            ({"role": "assistant", "content": ""}, None),
            *(({"content": piece}, None) for piece in pieces),
            ({}, reply.finish_reason),
        ]
        events = [
            common | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
            for delta, reason in deltas
        ]
        if (request.body.get("stream_options") or {}).get("include_usage"):
            events.append(common | {"choices": [], "usage": head["usage"]})
        lines = [f"data: {json.dumps(event)}\n\n" for event in events]
        body = "".join([*lines, "data: [DONE]\n\n"]).encode()
        self._send(body, reply.status, "text/event-stream", reply.headers)

    def _send_json(
        self, value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self._send(json.dumps(value).encode(), status, "application/json", headers or {})

    def _break_off(self, body: bytes, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        self.close_connection = True

    def _send_endlessly(self, piece: bytes, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Connection", "close")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        owner = self.server.owner
        with contextlib.suppress(OSError):
            while owner.endless_bytes < MAX_ENDLESS:
                self.wfile.write(piece)
                owner.endless_bytes += len(piece)

    def _send(
        self,
        body: bytes,
        status: int,
        content_type: str,
        headers: Mapping[str, str],
        *,
        drips: bool = False,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        for at in range(0, len(body), 1 if drips else max(1, len(body))):
            if drips and self.server.owner._released.wait(0.02):
                return
            self.wfile.write(body[at : at + 1] if drips else body)


def _completion(request: Request, reply: Reply) -> dict[str, Any]:
    asked = sum(len(str(message["content"])) for message in request.messages)
    inputs = asked // 4 if reply.input_tokens is None else reply.input_tokens
    outputs = len(reply.content) // 4 if reply.output_tokens is None else reply.output_tokens
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": request.body.get("model", "judge"),
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": reply.content},
                "finish_reason": reply.finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": inputs,
            "completion_tokens": outputs,
            "total_tokens": inputs + outputs,
        },
    }


def _embeddings(body: Mapping[str, Any]) -> dict[str, Any]:
    given = body.get("input", "")
    texts: Sequence[Any] = given if isinstance(given, list) else [given]
    return {
        "object": "list",
        "model": body.get("model", "judge"),
        "data": [
            {"object": "embedding", "index": index, "embedding": embed(str(text))}
            for index, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)},
    }


def embed(text: str) -> list[float]:
    """Return eight numbers from -1 to 1, the same for the same text."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return [byte / 127.5 - 1 for byte in digest]
