"""What every driver has: a scripted model on loopback, a monitor, and what came out of both.

What a model was really asked stands in the server's own list of requests, which neither the
application nor the monitor writes. Every expectation about chunks, prompts and tokens is taken
from there.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib.util
import json
import logging
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from opentelemetry.sdk.trace import TracerProvider

from ragmonitor import ExportSettings, Monitor
from ragmonitor.guard import errors
from ragmonitor.records import Chunk, Interaction, Status
from ragmonitor.testing import ListExporter
from tests.support.openai_server import OpenAiServer, Reply, Request, Step

T = TypeVar("T")

WITHIN_S = 30.0
_tracer = TracerProvider().get_tracer("strangers")


@dataclass
class Played:
    """What came of one scene."""

    chats: list[Request] = field(default_factory=list)
    """What the models were asked, in order."""
    interactions: list[Interaction] = field(default_factory=list)
    trace_id: str = ""
    """Of the span that the caller was in."""

    @property
    def only(self) -> Interaction:
        """The one interaction."""
        assert len(self.interactions) == 1, [(i.name, i.query) for i in self.interactions]
        return self.interactions[0]


class Scene:
    """An application's model and its monitor."""

    def __init__(self, server: OpenAiServer, monitor: Monitor, exporter: ListExporter) -> None:
        self.server = server
        self.monitor = monitor
        self._exporter = exporter
        # One loop for all scenes: OpenAI's clients keep connections, which belong to a loop.
        self._runner = asyncio.Runner()
        self._log = _Log()
        for name in (
            "ragmonitor",
            "opentelemetry",
            "langchain_core",
            "llama_index_instrumentation",
        ):
            logging.getLogger(name).addHandler(self._log)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine gives."""
        # Not in the context in which the runner began, which holds the first scene's span.
        return self._runner.run(work, context=contextvars.copy_context())

    @contextmanager
    def played(self, name: str, *steps: Step) -> Iterator[Played]:
        """Script the model, let the block call the application, collect what came of it.

        Args:
            name: For the driver's own output.
            steps: The model's replies, in order.

        Raises:
            AssertionError: Something is still open, a reply was not used, or an error of ours, of
                OpenTelemetry's or of the framework's callbacks was logged.
        """
        played = Played()
        self.server.script(*steps)
        asked, known = len(self.server.chats), len(list(self._exporter.interactions()))
        with _tracer.start_as_current_span("request") as span:
            played.trace_id = f"{span.get_span_context().trace_id:032x}"
            yield played
        assert self.monitor.flush(WITHIN_S), "not flushed"
        played.chats += self.server.chats[asked:]
        played.interactions += list(self._exporter.interactions())[known:]
        assert len(played.chats) >= len(steps), f"{len(steps)} replies, {len(played.chats)} chats"
        assert self.monitor.open_runs == 0, f"{self.monitor.open_runs} runs are open"
        assert not errors, dict(errors)
        assert not self._log.records, [r.getMessage() for r in self._log.records]
        _SCENES.append(name)


_SCENES: list[str] = []


@contextmanager
def opened(
    instrument: Callable[[Monitor], object],
    uninstrument: Callable[[], object],
    **options: Any,
) -> Iterator[Scene]:
    """Yield a scene with the process instrumented; the settings of OpenAI's clients lead to it."""
    exporter = ListExporter()
    with (
        _served() as server,
        Monitor(
            service="stranger",
            exporters=[exporter],
            server=False,
            export=ExportSettings(traces=False),
            **options,
        ) as monitor,
    ):
        instrument(monitor)
        try:
            yield Scene(server, monitor, exporter)
        finally:
            uninstrument()
    print(f"{Path(_main()).name}: {len(_SCENES)} scenes: {', '.join(_SCENES)}")


_server: OpenAiServer | None = None


@contextmanager
def _served() -> Iterator[OpenAiServer]:
    yield server()


def server() -> OpenAiServer:
    """Return the process's server; from the first call on, OpenAI's clients lead to it.

    To be called before an application is imported: many read the environment then.
    """
    global _server  # noqa: PLW0603 - one process, one environment
    if _server is None:
        _server = OpenAiServer(answer="UNSCRIPTED").__enter__()
        os.environ["OPENAI_API_KEY"] = "none"
        os.environ["ANONYMIZED_TELEMETRY"] = "False"  # Chroma's, for there is no network
        os.environ["OPENAI_API_BASE"] = os.environ["OPENAI_BASE_URL"] = _server.api_base
        # tiktoken downloads its tables; LlamaIndex brings them along.
        core = importlib.util.find_spec("llama_index.core")
        if core is not None and core.origin is not None:
            tables = Path(core.origin).parent / "_static" / "tiktoken_cache"
            os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(tables))
    return _server


def _main() -> str:
    import __main__

    return getattr(__main__, "__file__", "") or ""


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


# What the model replies


def says(text: str) -> Reply:
    """Return a reply whose tokens are easy to tell from other replies': one per character."""
    return Reply(content=text, input_tokens=1_000 + len(text), output_tokens=len(text))


def calls(tool: str, **arguments: Any) -> Step:
    """Return a reply that calls a tool, streamed or not, as it was asked."""

    def step(request: Request) -> Reply:
        call = {
            "id": "call_1",
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps(arguments)},
        }
        common = {"id": "chatcmpl-1", "created": 0, "model": request.body["model"]}
        usage = {"prompt_tokens": 1_000, "completion_tokens": 7, "total_tokens": 1_007}
        if not request.body.get("stream"):
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            whole = common | {"object": "chat.completion", "choices": [choice], "usage": usage}
            return Reply(body=json.dumps(whole).encode())
        deltas: list[tuple[dict[str, Any], str | None]] = [
            ({"role": "assistant", "tool_calls": [{"index": 0, **call}]}, None),
            ({}, "tool_calls"),
        ]
        events: list[dict[str, Any]] = [
            common
            | {
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }
            for delta, reason in deltas
        ]
        if (request.body.get("stream_options") or {}).get("include_usage"):
            events.append(
                common | {"object": "chat.completion.chunk", "choices": [], "usage": usage}
            )
        lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
        return Reply(body="".join(lines).encode(), content_type="text/event-stream")

    return step


# What is expected


def prompt_of(request: Request) -> str:
    """Return all text that the model was shown, white space made one."""
    texts = []
    for message in request.messages:
        content = message.get("content") or ""
        parts = content if isinstance(content, list) else [{"text": content}]
        texts += [str(part.get("text", "")) for part in parts]
    return " ".join("\n".join(texts).split())


def check(
    interaction: Interaction,
    played: Played,
    *,
    query: str,
    answer: str,
    shown: Sequence[str],
    not_shown: Sequence[str] = (),
    usage: tuple[int | None, int | None] | None = None,
    status: Status = "ok",
    asked: int | None = None,
) -> None:
    """Compare a record with what happened.

    Args:
        interaction: What was captured.
        played: Where.
        query: What the application was asked.
        answer: What it gave its caller.
        shown: The texts that the model was shown, in the order of its prompt.
        not_shown: The texts that were retrieved and not shown, in any order.
        usage: Input and output tokens, as the server counted them.
        status: How it ended.
        asked: How many model calls worked on the answer; None: all of the scene's.

    Raises:
        AssertionError: Something differs; says everything that does.
    """
    found = {
        "query": interaction.query,
        "answer": interaction.answer,
        "chunks": _texts(interaction.chunks),
        "not shown": sorted(_texts(interaction.not_shown)),
        "status": interaction.status,
        "generations": len(interaction.generations),
        "prompts": all(_prompt_is_the_servers(g, played) for g in interaction.generations),
        "caller": interaction.caller.trace_id if interaction.caller else "",
        "incomplete": interaction.capture_incomplete,
    }
    expected = {
        "query": query,
        "answer": answer,
        "chunks": [" ".join(text.split()) for text in shown],
        "not shown": sorted(" ".join(text.split()) for text in not_shown),
        "status": status,
        "generations": len(played.chats) if asked is None else asked,
        "prompts": True,
        "caller": played.trace_id,
        "incomplete": False,
    }
    if usage is not None:
        found["usage"] = interaction.usage.input_tokens, interaction.usage.output_tokens
        expected["usage"] = usage
    wrong = [
        f"{key}: {found[key]!r}\n    instead of {expected[key]!r}"
        for key in found
        if found[key] != expected[key]
    ]
    assert not wrong, "\n  ".join(["captured wrong:", *wrong])


def in_prompt(request: Request, texts: Sequence[str]) -> list[str]:
    """Return those of the texts that stand in what was asked, in their order there."""
    prompt = prompt_of(request)
    places = {text: prompt.find(" ".join(text.split())) for text in texts}
    return sorted((t for t in places if places[t] >= 0), key=lambda t: places[t])


def _prompt_is_the_servers(generation: Any, played: Played) -> bool:
    asked = " ".join(" ".join(message.text for message in generation.input).split())
    # Compared without the brackets and names of tool calls, which have no text of their own.
    return any(_same(asked, prompt_of(request)) for request in played.chats)


def _same(ours: str, theirs: str) -> bool:
    return ours == theirs or (bool(theirs) and set(theirs.split()) <= set(ours.split()))


def _texts(chunks: Sequence[Chunk]) -> list[str]:
    return [" ".join(chunk.text.split()) for chunk in chunks]
