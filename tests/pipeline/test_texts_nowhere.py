"""No text of the application's gets where the content switch forbids it: whoever fails.

Each part of a monitor that is anybody's code is made to fail with the application's texts in
its message, notes and causes; then logs, spans, events, files and what is posted are searched.
"""

from __future__ import annotations

import logging

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
from ragmonitor import Cause, JudgeError, LlmJudge, Monitor
from ragmonitor.records import Chunk
from ragmonitor.testing import ListExporter, ScriptedJudge
from ragmonitor_langchain.driver import AnsweringModel
from tests.support.openai_server import OpenAiServer, refused, truthful
from tests.support.scoring_server import FakeLangfuse, FakePhoenix
from tests.support.stories import assessment, interaction

CANARY = "Mrs Winterbottom's diagnosis"
KEY = "sk-proj-" + "a1B2c3D4e5" * 4
CONTENTS = ("none", "hashed")


def fail(*_args, **_kwargs):
    """Raise what quotes the application's texts in every way that a traceback shows."""
    try:
        raise KeyError(CANARY)
    except KeyError as cause:
        error = ValueError(f"cannot read {CANARY}")
        error.add_note(f"it was {CANARY}")
        raise ExceptionGroup(CANARY, [error]) from cause


class Failing(ListExporter):
    """An exporter of which one method fails."""

    def __init__(self, method):
        super().__init__()
        setattr(self, method, fail)


class AskingJudge(ScriptedJudge):
    def asker(self, *_args):
        fail()


async def prepare_fails(_self):
    fail()


class ConnectedJudge(ScriptedJudge):
    prepare = close = prepare_fails


def judge_that(script):
    return {"judge": ScriptedJudge(script), "sample": 1.0}


def refuse(_interaction):
    raise JudgeError("m", f"no: {CANARY}", cause=Cause.JUDGE_ERROR, retryable=False)


def supported(_interaction):
    return assessment("supported")


PARTS = {
    "judge": lambda: judge_that(fail),
    "judge's own error": lambda: judge_that(refuse),
    "asker": lambda: {"judge": AskingJudge(supported), "sample": 1.0},
    "connection": lambda: {"judge": ConnectedJudge(supported), "sample": 1.0},
    "export": lambda: {"exporters": [Failing("export")]},
    "flush": lambda: {"exporters": [Failing("flush")]},
    "close": lambda: {"exporters": [Failing("close")]},
    "snapshot": lambda: {"exporters": [Failing("snapshot")]},
    "redact": lambda: {"content": {"redaction": ("secrets", fail)}},
}


@pytest.fixture
def everything(monkeypatch, tmp_path, caplog):
    """Return what has left the process so far, as one text."""
    spans, events = InMemorySpanExporter(), InMemoryLogRecordExporter()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    loggers = LoggerProvider(shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(events))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracers)
    monkeypatch.setattr(_logs, "get_logger_provider", lambda: loggers)
    caplog.set_level(logging.DEBUG)
    with FakePhoenix() as phoenix, FakeLangfuse("pk", "sk") as langfuse:
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
        places = (f"phoenix:{phoenix.url}", f"langfuse:{langfuse.url}", f"jsonl:{tmp_path}/r.jsonl")
        monkeypatch.setenv("RAGMONITOR_EXPORTERS", ",".join(places))
        monkeypatch.setenv("RAGMONITOR_SERVER", "false")

        def text():
            posted = b"".join(r.body for r in (*phoenix.requests, *langfuse.requests))
            return "\n".join(
                (
                    caplog.text,
                    *(span.to_json() for span in spans.get_finished_spans()),
                    *(repr(vars(each.log_record)) for each in events.get_finished_logs()),
                    (tmp_path / "r.jsonl").read_text("utf-8")
                    if (tmp_path / "r.jsonl").exists()
                    else "",
                    posted.decode(),
                )
            )

        yield text


TOLD = {
    "query": f"What is {CANARY}?",
    "texts": (f"{CANARY} is unknown.",),
    "answer": f"{CANARY} is unknown. Napoleon told {CANARY}.",
    "error": f"ValueError: {CANARY}",
    "reference": CANARY,
    "not_shown": (Chunk(text=CANARY, metadata={"note": CANARY}),),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("part", PARTS)
def test_no_failing_part_quotes_a_text(everything, content, part):
    """Message, notes, causes and groups stay out of logs, spans, events, files and posts."""
    options = PARTS[part]()
    options["content"] = {"policy": content} | options.get("content", {})
    with Monitor(service="test", **options) as made:
        made.observe(interaction(**TOLD))
        made.observe(interaction(**{**TOLD, "id": "2" * 32}, status="error"))
        assert made.flush(60) == (part != "flush")  # in each place of work
    assert CANARY not in everything()
    assert "Winterbottom" not in everything()


def test_the_strictest_monitor_of_a_process_decides(caplog):
    """An error does not say whose it is."""
    with (
        Monitor(service="strict", content="none", server=False),
        Monitor(service="lax", server=False, **judge_that(fail)) as made,
    ):
        made.observe(interaction())
        assert made.flush(60)
    assert "error in stage judge" in caplog.text
    assert "Winterbottom" not in caplog.text


def quote_key(*_args):
    raise ValueError(f"the key {KEY} is wrong")


def test_what_redaction_takes_out_is_in_no_log(everything, caplog):
    """Under `content="all"` messages are logged, without the secrets in them."""
    with Monitor(service="test", **judge_that(quote_key)) as made:
        made.observe(interaction())
        assert made.flush(60)
    assert "the key [redacted:api_key] is wrong" in caplog.text
    assert KEY not in everything()


async def at_once(_seconds: float) -> None:
    """Wait for nothing between two attempts."""


def echo(status):
    return lambda request: refused(status, f"cannot read: {request.user[-300:]}")


REPLIES = {
    "truth": truthful,
    "no JSON": CANARY,
    "a refusal": echo(400),
    "no key": echo(401),
    "a fault": echo(500),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("reply", REPLIES)
def test_no_text_gets_out_through_a_model(everything, content, reply):
    """Neither what a real litellm is sent, nor what a provider says of it, at any level of log."""
    with OpenAiServer(REPLIES[reply]) as server:
        judge = LlmJudge("openai/judge", api_base=server.api_base, api_key="none", pause=at_once)
        budget = {"calls_per_day": 10**6}
        made = Monitor("test", judge=judge, sample=1.0, budget=budget, content=content)
        with made:
            made.observe(interaction(**TOLD))
            assert made.flush(60)
        assert server.chats
    assert "Winterbottom" not in everything()


def quote(_question):
    raise ValueError(CANARY)


@pytest.mark.parametrize("content", CONTENTS)
def test_no_text_gets_out_through_a_framework(everything, content):
    """Its exceptions, and those of a retriever and of a model, quote what they were given."""
    question, error = f"What is {CANARY}?", ValueError(CANARY)
    with Monitor("test", content=content) as made:
        ragmonitor_langchain.instrument(made)
        ragmonitor_llama_index.instrument(made)
        try:
            lcel().chain.invoke(question)
            query_engine().query(question)
            model = AnsweringModel(respond=quote)
            for ask in (
                lcel(Notes(failure=error)).chain.invoke,
                lcel(llm=model).chain.invoke,
                query_engine(retriever=ListRetriever([], error)).query,
            ):
                with pytest.raises(ValueError, match=CANARY):
                    ask(question)
        finally:
            ragmonitor_langchain.uninstrument()
            ragmonitor_llama_index.uninstrument()
        assert made.flush(60)
    assert "Winterbottom" not in everything()
    assert "ValueError" in everything()
