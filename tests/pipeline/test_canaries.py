"""Every way a text can get in, by every way out, under every content switch.

Each way in carries a word of its own, so that a word that is found says which way it took. Ways out
are all that a process has: spans, log events, the file of lines, what Phoenix and Langfuse are
posted, /metrics, the page, what `state` and the folder of several processes keep, the log of
everybody at DEBUG, and both standard streams.
"""

from __future__ import annotations

import json
import logging
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ragmonitor_langchain
import ragmonitor_llama_index
from integrations.langchain.tests.conftest import Notes, lcel
from integrations.llama_index.tests.scripted import ListRetriever, query_engine
from ragmonitor import (
    Cause,
    JsonLines,
    JudgeError,
    Langfuse,
    Monitor,
    NotScorableError,
    Phoenix,
    ServerSettings,
)
from ragmonitor.evaluators import table
from ragmonitor.evaluators.table import evaluator
from ragmonitor.judges.llm import LlmJudge
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Retrieval,
)
from ragmonitor_langchain.driver import AnsweringModel
from tests.support.openai_server import OpenAiServer, refused, truthful
from tests.support.scoring_server import FakeLangfuse, FakePhoenix
from tests.support.settings import merged
from tests.support.stories import BEGAN_NS, SECOND_NS

CANARY = re.compile("zq[a-z]+zq", re.IGNORECASE)
CONTENTS = ("none", "hashed", "all")


def canary(way: str) -> str:
    """Return the word that stands in the text of one way in."""
    return f"zq{way}zq"


def text(way: str) -> str:
    """Return a sentence with that word, not all of it in the chunks."""
    return f"The {canary(way)} was built in 1999 by Napoleon."


class Everything:
    """All that has left the process so far, by the way it took."""

    def __init__(self, folder, caplog, capfd, servers) -> None:
        self.folder, self.caplog, self.capfd = folder, caplog, capfd
        self.spans, self.events = InMemorySpanExporter(), InMemoryLogRecordExporter()
        self.phoenix, self.langfuse = servers
        for server in servers:
            server.requests.clear()
        self._served: dict[str, str] = {"metrics": "", "page": ""}
        self._streams = ""

    def serve(self, monitor: Monitor) -> None:
        """Read what the monitor serves."""
        accepts = ("application/openmetrics-text; version=1.0.0", "text/plain")
        for accept in accepts:
            self._served["metrics"] += _got(monitor.metrics_url, accept)
        self._served["metrics"] += _got(f"{monitor.metrics_url}.json")
        for name in ("state.json", "answers.json?n=100"):
            self._served["page"] += _got(f"{monitor.ui_url}{name}")

    def ways(self) -> dict[str, str]:
        """Return the texts."""
        streams = self.capfd.readouterr()
        self._streams += streams.out + streams.err
        files = {
            path: path.read_bytes().decode("utf-8", "replace")
            for path in self.folder.rglob("*")
            if path.is_file()
        }
        lines = self.folder / "r.jsonl"
        return {
            "spans": "\n".join(span.to_json() for span in self.spans.get_finished_spans()),
            "events": "\n".join(
                repr(vars(each.log_record)) for each in self.events.get_finished_logs()
            ),
            "jsonl": files.pop(lines, ""),
            "incidents": "\n".join(
                files.pop(path) for path in tuple(files) if path.name.startswith("incidents-")
            ),
            "files": "\n".join(f"{path}\n{told}" for path, told in files.items()),
            "phoenix": b"".join(r.body for r in self.phoenix.requests).decode(),
            "langfuse": b"".join(r.body for r in self.langfuse.requests).decode(),
            "log": self.caplog.text + "".join(map(_variables, self.caplog.records)),
            "streams": self._streams,
            **self._served,
        }

    def found(self) -> dict[str, set[str]]:
        """Return the canaries by way out, those that have any."""
        return {
            way: {each.lower() for each in words}
            for way, told in self.ways().items()
            if (words := CANARY.findall(told.replace("\\u007a", "z")))
        }


def _variables(record: logging.LogRecord) -> str:
    return repr(record.exc_info) + repr(record.args)


def _got(url: str | None, accept: str = "*/*") -> str:
    assert url is not None
    with urllib.request.urlopen(
        urllib.request.Request(url, headers={"Accept": accept}), timeout=10
    ) as reply:
        return reply.read().decode()


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[FakePhoenix, FakeLangfuse]]:
    with FakePhoenix() as phoenix, FakeLangfuse("pk", "sk") as langfuse:
        yield phoenix, langfuse


@pytest.fixture
def everything(servers, monkeypatch, tmp_path, caplog, capfd) -> Everything:
    found = Everything(tmp_path, caplog, capfd, servers)
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(found.spans))
    loggers = LoggerProvider(shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(found.events))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracers)
    monkeypatch.setattr(_logs, "get_logger_provider", lambda: loggers)
    caplog.set_level(logging.DEBUG)
    return found


@pytest.fixture
def watched(everything, monkeypatch):
    """Return what makes a monitor with every exporter there is."""

    def make(policy: str, **options: Any) -> Monitor:
        monkeypatch.setattr("ragmonitor.runtime.guard._logged", set())
        monkeypatch.setattr("ragmonitor.runtime.guard._quoting.withheld", False)
        return Monitor(
            service="shop",
            server=ServerSettings(ui=True, port=0),
            exporters=[
                JsonLines(everything.folder / "r.jsonl"),
                Phoenix(everything.phoenix.url),
                Langfuse(everything.langfuse.url, public_key="pk", secret_key="sk"),
                *options.pop("exporters", ()),
            ],
            state=everything.folder / "state",
            **merged(
                {
                    "content": {"policy": policy},
                    "sample": 1.0,
                    "estimation": {"group_by": ("language",)},
                },
                options,
            ),
        )

    return make


NAMES = ("session", "user", "tag", "attribute", "name", "model", "retriever", "id", "key")
"""What the application calls things; these stay, on its traces and where answers are listed."""
NAMED = {"spans", "events", "jsonl", "page", "incidents"}
"""Where they may stand, under any switch; sessions and other labels nowhere else."""
MEASURED = {way: {"model"} for way in ("metrics", "state", "files")}
"""What series are told apart by: model calls by their model, as OpenTelemetry has it."""


def told(n: int = 0, **changes: Any) -> Interaction:
    """Return an interaction with a canary in every text and name."""
    chunk = Chunk(
        text=text("chunk"),
        id=canary("id"),
        score=0.5,
        metadata={
            "title": text("metadata"),
            "nested": [{"deep": (text("nested"),)}],
            "object": type("Odd", (), {"__str__": lambda _: text("object")})(),
            canary("key"): 1,
        },
    )
    given: dict[str, Any] = {
        "id": f"{n:032x}",
        "query": f"When was the {canary('question')} built?",
        "chunks": (chunk,),
        "answer": f"{text('answer')} It is {n} metres tall.",
        "framework": "python",
        "started_ns": BEGAN_NS,
        "ended_ns": BEGAN_NS + 2 * SECOND_NS,
        "name": canary("name"),
        "session_id": canary("session"),
        "user_id": canary("user"),
        "tags": (canary("tag"),),
        "attributes": {"route": canary("attribute")},
        "retrievals": (
            Retrieval(
                query=text("search"),
                chunks=(chunk,),
                started_ns=BEGAN_NS,
                ended_ns=BEGAN_NS + SECOND_NS,
                name=canary("retriever"),
            ),
        ),
        "generations": (
            Generation(
                input=(Message(role="user", text=text("prompt")),),
                output=text("output"),
                started_ns=BEGAN_NS + SECOND_NS,
                ended_ns=BEGAN_NS + 2 * SECOND_NS,
                model=canary("model"),
                provider="openai",
            ),
        ),
        "not_shown": (Chunk(text=text("hidden"), metadata={"t": text("hiddenmeta")}),),
        "reference": text("reference"),
        "reference_chunks": (Chunk(text=text("referencechunk")),),
    }
    return Interaction(**(given | changes))


def failed(error: str, n: int = 1) -> Interaction:
    """Return one whose every step failed with that error."""
    steps = told()
    return told(
        n,
        status="error",
        error=error,
        retrievals=tuple(replace(step, error=error) for step in steps.retrievals),
        generations=tuple(replace(step, error=error) for step in steps.generations),
    )


def fail(*_args: Any, **_options: Any) -> Any:
    """Raise what quotes in every way that a traceback shows."""
    try:
        raise KeyError(text("cause"))
    except KeyError as cause:
        error = ValueError(text("message"))
        error.add_note(text("note"))
        raise ExceptionGroup(text("group"), [error]) from cause


class Panic(BaseException):
    """What an extension module raises."""


def _raise(error: BaseException) -> Any:
    raise error


ERRORS = {
    "usual": f"ValueError: {text('error')}",
    "without a colon": text("error"),
    "colon in the text": f"{text('error')} at 10:30: no",
    "no type": f": {text('error')}",
    "no end": f"{text('error')}: ",
    "of a module": f"app.errors.Odd: {text('error')}",
}


def leaks(everything: Everything) -> dict[str, set[str]]:
    """Return what no switch but `all` lets out."""
    names = {canary(name) for name in NAMES}
    return {
        way: rest
        for way, words in everything.found().items()
        if (rest := words - (names if way in NAMED else set(map(canary, MEASURED.get(way, ())))))
    }


@pytest.fixture(autouse=True)
def _evaluators():
    """Register some that are anybody's code, and take them back."""
    known = dict(table._entries)

    @evaluator("raises", needs_context=False)
    def _(_interaction, _assessment):
        fail()

    @evaluator("panics", needs_context=False)
    def _(_interaction, _assessment):
        raise Panic(text("message"))

    @evaluator("cannot", needs_context=False)
    def _(_interaction, _assessment):
        raise NotScorableError(Cause.NO_CLAIMS, text("detail"))

    @evaluator("explains", needs_context=False, explain=lambda _: text("explanation"))
    def _(_interaction, _assessment):
        return 0.5

    @evaluator("asks", needs_context=False)
    async def _(*_args):
        raise JudgeError("m", text("refusal"), cause=Cause.JUDGE_ERROR, retryable=False)

    yield
    table._entries.clear()
    table._entries.update(known)


def observed(everything, watched, content, options) -> None:
    """Have one monitor meet everything that an application may hand over."""
    monitor = watched(content, **options)
    monitor.observe(told())
    for n, error in enumerate(ERRORS.values(), 1):
        monitor.observe(failed(error, n))
    monitor.observe(told(10))
    ask_in_plain_code(monitor)
    monitor.flush(60)  # False where exporters fail
    everything.serve(monitor)
    monitor.close()


def ask_in_plain_code(monitor: Monitor) -> None:
    """Have decorators and blocks meet exceptions of the application, and what they cannot read."""

    @monitor.retrieves(chunks=lambda _found: fail())
    def search(_question):
        return [text("chunk")]

    @monitor.answers(answer=lambda _answer: fail())
    def answer(question):
        search(question)
        return text("answer")

    @monitor.answers
    def answer_in_vain(question):
        search(question)
        return fail()

    answer(f"What is {canary('question')}?")
    with pytest.raises(ExceptionGroup):
        answer_in_vain(f"What is {canary('question')}?")
    with monitor.interaction(query=told) as i:  # type: ignore[arg-type]
        i.retrieved(text("chunk"))
        i.answered({"a": text("answer")})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def openai() -> Iterator[OpenAiServer]:
    with OpenAiServer() as server:
        yield server


async def _at_once(_seconds: float) -> None:
    """Wait for nothing between two attempts."""


def _echoes(status: int) -> Any:
    return lambda request: refused(status, f"cannot read: {request.user[-300:]}")


REPLIES: dict[str, Any] = {
    "truth": truthful,
    "no JSON": text("reply"),
    "words of its own": json.dumps(
        {"s": ["N"], "bad": [[1, canary("word")]], "rel": canary("rel"), "evasive": text("evasive")}
    ),
    "echo in a refusal": _echoes(400),
    "echo with no key": _echoes(401),
    "echo in a fault": _echoes(500),
}


@pytest.mark.parametrize("content", CONTENTS[:2])
@pytest.mark.parametrize("reply", REPLIES)
def test_no_text_gets_out_through_a_model(everything, watched, openai, content, reply):
    """Neither what a real litellm is sent, nor what a provider says of it, at any level of log."""
    openai.always(REPLIES[reply])
    judge = LlmJudge("openai/judge", api_base=openai.api_base, api_key="none", pause=_at_once)
    observed(
        everything,
        watched,
        content,
        {"judge": {"model": judge}, "budget": {"calls_per_day": 10**6}},
    )
    assert openai.chats
    assert leaks(everything) == {}


@pytest.mark.parametrize("content", CONTENTS[:2])
def test_no_text_gets_out_through_a_framework(everything, watched, content):
    """Its exceptions, and those of a retriever and of a model, quote what they were given."""
    monitor = watched(content)
    ragmonitor_langchain.instrument(monitor)
    ragmonitor_llama_index.instrument(monitor)
    question = f"What is {canary('question')}?"
    error = ValueError(text("message"))
    try:
        lcel().chain.invoke(question)
        query_engine().query(question)
        for run in (
            lambda: lcel(Notes(failure=error)).chain.invoke(question),
            lambda: lcel(llm=AnsweringModel(respond=lambda _: _raise(error))).chain.invoke(
                question
            ),
            lambda: query_engine(retriever=ListRetriever([], error)).query(question),
        ):
            with pytest.raises(ValueError, match="zqmessagezq"):
                run()
    finally:
        ragmonitor_langchain.uninstrument()
        ragmonitor_llama_index.uninstrument()
    assert monitor.flush(60)
    everything.serve(monitor)
    monitor.close()
    assert leaks(everything) == {}
    assert "ValueError" in everything.ways()["spans"]
