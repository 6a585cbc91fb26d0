"""Everything that reads what others wrote: each with examples of it, and what it may raise.

A parser may refuse what it is given, by the error that its documentation names. Any other exception
is a defect, and so is an example that takes longer than its size allows.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.message import Message
from functools import cache
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.steps import fill, step_of
from ragmonitor.export import FeedbackIntake
from ragmonitor.export.endpoint import Endpoint
from ragmonitor.export.langfuse import Langfuse
from ragmonitor.judges.reply import read_reply
from ragmonitor.judges.sentences import split
from ragmonitor.offline.shapes import read_file
from ragmonitor.receive.otlp_bodies import JSON, PROTOBUF, UnreadableBodyError, request_of
from ragmonitor.redaction import Redactor
from ragmonitor.runtime import guard
from ragmonitor.runtime.errors import InputError, WireError
from ragmonitor.runtime.wire import decode, encode
from ragmonitor.stats.labels import Label, labels_of, read_rows, seal
from tests.support.receiving import answer, json_of
from tests.support.receiving import request_of as request_with
from tests.support.stories import interaction

CORPUS: Final = Path(__file__).parent / "corpus"
"""Inputs that once found a defect, by parser; they are tried again each time."""
ATTRIBUTES: Final = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.retrieval.documents",
    "gen_ai.system",
    "gen_ai.retrieval.query.text",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.result",
    "gen_ai.usage.input_tokens",
    "gen_ai.operation.name",
    "gen_ai.prompt.0.content",
    "gen_ai.completion.0.content",
    "input.mime_type",
    "input.value",
    "llm.input_messages.0.message.content",
    "llm.output_messages.0.message.content",
    "llm.prompt_template.variables",
    "llm.prompts",
    "llm.token_count.prompt",
    "metadata",
    "output.mime_type",
    "output.value",
    "reranker.input_documents",
    "reranker.query",
    "retrieval.documents.0.document.content",
    "retrieval.documents.0.document.metadata",
    "session.id",
    "tag.tags",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "traceloop.span.kind",
)


@dataclass(frozen=True, kw_only=True)
class Parser:
    """One way in."""

    read: Callable[[bytes], object]
    examples: Sequence[bytes]
    """To be changed a little."""
    refuses: tuple[type[Exception], ...] = ()
    """What it may raise."""
    pieces: Sequence[bytes] = ()
    """What its format is made of."""


# --- judges and servers


def _judge_reply(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    sentences = split("It is red. Paris is in Spain.")
    read_reply(text, sentences=sentences, chunks=["It is red.", "No."])


def _langfuse_reply(data: bytes) -> None:
    langfuse = Langfuse("http://127.0.0.1:1", public_key="pk", secret_key="sk")
    langfuse.refusals(data)


# --- records and spans


def _span(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    marks = ("openinference.span.kind", "traceloop.span.kind", "gen_ai.operation.name")
    for mark in marks:
        for kind in ("", "CHAIN", "RETRIEVER", "LLM", "workflow", "chat", "retrieval"):
            span = SpanRecord(
                span_id="0" * 16,
                name="x",
                scope="x",
                attributes=dict.fromkeys(ATTRIBUTES, text) | {mark: kind},
                started_ns=0,
                ended_ns=1,
            )
            fill(step_of(span))


# --- files


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="parsers-"))


def _file(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path


def _records(name: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        for _ in read_file(str(_file(name, data))):
            pass

    return read


def _parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    file = io.BytesIO()
    table = {"question": ["Why?"] * 3, "contexts": [["Red."]] * 3, "answer": ["It is red."] * 3}
    parquet.write_table(pa.table(table), file)
    return file.getvalue()


# --- HTTP


@cache
def _endpoint() -> Endpoint:
    registry = CollectorRegistry(auto_describe=True)
    Gauge("temperature", "of something", registry=registry).set(1)
    endpoint = Endpoint(registry, host="127.0.0.1", port=0, shared=False, state=dict)
    endpoint.open()
    return endpoint


def _request(data: bytes) -> None:
    url = _endpoint().url
    assert url is not None
    port = int(url.rpartition(":")[2].partition("/")[0])
    before = dict(guard.errors)
    with (
        contextlib.suppress(OSError),  # it may hang up at any time
        socket.create_connection(("127.0.0.1", port), 30) as client,
    ):
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: client.recv(65_536), b""))
        assert b" 500 " not in reply[:64]
    assert guard.errors == before


def _otlp(data: bytes) -> None:
    kind = JSON if data[:1] in (b"{", b"[") else PROTOBUF
    packing = "gzip" if data[:2] == b"\x1f\x8b" else ""
    request_of(data, content_type=kind, encoding=packing)


def _feedback(data: bytes) -> None:
    headers = Message()
    headers["Host"], headers["Content-Type"] = "localhost", "application/json"
    intake = FeedbackIntake(lambda _told: True)
    assert intake("/ragmonitor/feedback", headers, data).status in (202, 400)


# --- redaction


@cache
def _redactor() -> Redactor:
    return Redactor()


def _redaction(data: bytes) -> None:
    before = dict(guard.errors)
    text = data.decode("utf-8", "replace")
    _redactor().text(text)
    _redactor()(interaction(query=text[:1_000], answer=text))
    assert guard.errors == before


_RECORD: Final = json.dumps(
    {"question": "Why?", "contexts": ["It is red."], "answer": "It is red.", "hallucinated": False}
).encode()
_REPLY: Final = (
    b'{"s": [[1], "N"], "bad": [[2, "Spain"]], "rel": 3, "evasive": false, "ctx": [2, 0]}'
)
_JSON: Final = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"\\", b"\\u", b"\\ud800", b"null", b"NaN"),
    *(b"true", b"1e999", b"-0", b"9" * 40, b"\n", b"\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf"),
)
_MESSAGES: Final = json.dumps(
    [{"role": "user", "parts": [{"type": "text", "content": "Why?"}], "content": "Why?"}]
).encode()
_SEALED: Final = seal(Label(interaction_id="1", judged=True)).encode()
_SECRETS: Final = (
    b"Mail me at a.person@example.com, api_key=sk-abcdefghij0123456789abcdefghij0123456789.",
    b"AKIAIOSFODNN7EXAMPLE password: hunter2hunter2 postgres://u:p4ssw0rd@h/db",
    b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N Bearer abcdefghijklmnop",
    b"-----BEGIN RSA PRIVATE KEY-----\nMIIEabcdefghijklmnop\n-----END RSA PRIVATE KEY-----",
)


def parsers() -> dict[str, Parser]:
    """Return every parser by name."""
    header = (
        b"GET /metrics?name[]=a HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain;q=0.5\r\n\r\n"
    )
    return {
        "judge reply": Parser(
            read=_judge_reply,
            examples=(_REPLY, b"<think>no</think>```json\n" + _REPLY + b"\n```", b"'rel':3,"),
            pieces=(*_JSON, b"s", b"ctx", b'"rel":', b"[1],", b'"X",', b"```", b"</think>"),
        ),
        "langfuse reply": Parser(
            read=_langfuse_reply,
            examples=(b'{"successes": [], "errors": [{"id": "a", "status": 400}]}', b"{}"),
            pieces=_JSON,
        ),
        "wire record": Parser(
            read=decode,
            examples=(encode(interaction()),),
            refuses=(WireError,),
            pieces=(b"\x91", b"\xdd\xff\xff\xff\xff", b"\xc7\xff\x02", b"\xc1i\x01\x00"),
        ),
        "span": Parser(
            read=_span,
            examples=(_MESSAGES, b'{"input": "Why?", "documents": [{"page_content": "a"}]}', b"7"),
            pieces=(*_JSON, b'"content":', b'"role":', b'"parts":', b'{"kwargs":'),
        ),
        "JSON lines": Parser(
            read=_records("records.jsonl"),
            examples=(_RECORD + b"\n" + _RECORD, b'{"results": [' + _RECORD + b"]}"),
            refuses=(InputError,),
            pieces=_JSON,
        ),
        "CSV": Parser(
            read=_records("records.csv"),
            examples=(
                b"question,contexts,answer\nWhy?,\"['It is red.' 'No.']\",It is red.\n",
                b'question,contexts,answer\nWhy?,"[""It is red.""]",It is red.\n',
            ),
            refuses=(InputError,),
            pieces=(*_JSON, b'"', b'""', b"array(", b"...", b"(", b")"),
        ),
        "Parquet": Parser(
            read=_records("records.parquet"),
            examples=(_parquet(),),
            refuses=(InputError,),
            pieces=(b"PAR1", b"\x15", b"\x00" * 8, b"\xff" * 8),
        ),
        "labels": Parser(
            read=lambda data: labels_of(read_rows(_file("labels.csv", data))),
            examples=(
                b"id,human,sealed\n1,yes," + _SEALED + b"\n",
                "id;human;sealed\n1;否;".encode() + _SEALED + b"\n",
            ),
            refuses=(InputError,),
            pieces=(b",", b";", b"\t", b'"', b"yes", b"1e999", b"\n", b"\x00", b"\xff\xfe", b"vff"),
        ),
        "HTTP request": Parser(
            read=_request,
            examples=(header, b"GET / HTTP/1.0\r\n\r\n", b"GET /metrics.json HTTP/1.1\r\n\r\n"),
            pieces=(b"\r\n", b" ", b"\t", *b": ? % GET Accept: \xff [ ;".split(b" ")),
        ),
        "OTLP body": Parser(
            read=_otlp,
            examples=(
                json_of(request_with(*answer())),
                request_with(*answer()).SerializeToString(),
            ),
            refuses=(UnreadableBodyError,),
            pieces=(*_JSON, b'"spans":', b'"value":{"arrayValue":', b"\x0a\x00", b"\x1f\x8b\x08"),
        ),
        "feedback": Parser(
            read=_feedback,
            examples=(b'{"id": "a1", "value": true, "kind": "stars", "comment": "Why?"}',),
            pieces=(*_JSON, b'"value":', b'"up"'),
        ),
        "redaction": Parser(
            read=_redaction,
            examples=_SECRETS,
            pieces=(b" ", *b"@ . = : - / sk- :// key eyJ 0a".split()),
        ),
    }


def remembered(name: str) -> Iterator[bytes]:
    """Yield the inputs that once found a defect of this parser."""
    for file in sorted((CORPUS / name.replace(" ", "_")).glob("*")):
        yield file.read_bytes()


def check(parser: Parser, data: bytes) -> None:
    """Read an input. Raises what is a defect."""
    with contextlib.suppress(*parser.refuses):
        parser.read(data)
