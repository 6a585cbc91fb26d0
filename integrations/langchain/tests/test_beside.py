"""Other projects' instrumentation in the same process: neither changes what the other sees."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

pytest.importorskip("openinference.instrumentation.langchain", reason="the group `peers`")

import requests
import wrapt
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListLLM
from langchain_core.tracers import LangChainTracer
from langfuse import Langfuse
from langfuse.langchain import CallbackHandler
from langsmith import Client
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.instrumentation import langchain as openllmetry_langchain
from opentelemetry.instrumentation.langchain import LangchainInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmonitor import Interaction
from ragmonitor_langchain import RagMonitorHandler, instrument, uninstrument

Told = list[Any]
"""What an instrumentation tells its backend, less ids and times, in a fixed order."""

_FLEETING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)?"
)


class Peer:
    """Another project's instrumentation while it is on."""

    def __init__(self, told: Callable[[], Told], *callbacks: BaseCallbackHandler) -> None:
        self.told = told
        """What it has told since it was last asked."""
        self.callbacks = callbacks
        """To be given to each call; empty: it reaches every call by itself."""


@contextmanager
def spans_in_memory() -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    yield provider, kept
    provider.shutdown()


def take(kept: InMemorySpanExporter) -> Told:
    spans = kept.get_finished_spans()
    kept.clear()
    by_id = {span.context.span_id: span for span in spans}

    def path(span: ReadableSpan) -> list[str]:
        parent = None if span.parent is None else by_id.get(span.parent.span_id)
        return [*([] if parent is None else path(parent)), span.name]

    return sorted(
        (
            steady(
                [
                    path(span),
                    span.kind.name,
                    span.status.status_code.name,
                    dict(span.attributes or {}),
                    [(event.name, dict(event.attributes or {})) for event in span.events],
                ]
            )
            for span in spans
        ),
        key=str,
    )


def steady(value: Any) -> Any:
    """Return the value without ids, times, and the order of keys in JSON.

    In a stream, the order of a map's keys is that in which LangChain's threads finished.
    """
    if isinstance(value, dict):
        return {str(key): steady(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [steady(item) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith(("{", "[")):
        with suppress(ValueError):
            return steady(json.loads(value))
    return _FLEETING.sub("*", value)


@contextmanager
def openinference() -> Iterator[Peer]:
    with spans_in_memory() as (provider, kept):
        LangChainInstrumentor().instrument(tracer_provider=provider)
        try:
            yield Peer(lambda: take(kept))
        finally:
            LangChainInstrumentor().uninstrument()


@contextmanager
def openllmetry() -> Iterator[Peer]:
    # Its own way back (0.62) leaves everything wrapped, and later tests traced.
    wrapped: list[tuple[Any, str, Any]] = []

    def wrap(module: str, name: str, wrapper: Any) -> Any:
        wrapped.append(wrapt.resolve_path(module, name))
        return wrapt.wrap_function_wrapper(module, name, wrapper)

    with (
        spans_in_memory() as (provider, kept),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(openllmetry_langchain, "wrap_function_wrapper", wrap)
        LangchainInstrumentor().instrument(tracer_provider=provider)
        try:
            yield Peer(lambda: take(kept))
        finally:
            LangchainInstrumentor().uninstrument()
            for parent, name, original in reversed(wrapped):
                setattr(parent, name, original)


_numbers = count()


@contextmanager
def langfuse() -> Iterator[Peer]:
    # Clients are kept by key for good, one that is shut down too.
    key = f"pk-{next(_numbers)}"
    with spans_in_memory() as (provider, _):
        kept = InMemorySpanExporter()
        client = Langfuse(
            public_key=key,
            secret_key="sk-test",
            base_url="http://127.0.0.1:9",
            tracer_provider=provider,
            span_exporter=kept,
        )

        def told() -> Told:
            client.flush()
            return take(kept)

        try:
            yield Peer(told, CallbackHandler(public_key=key))
        finally:
            client.shutdown()


class _KeptRequests(requests.Session):
    """Sends nothing and keeps every request's body."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        self.bodies.append(json.loads(kwargs["data"]) | {"method": method})
        response = requests.Response()
        response.status_code = 202
        response.raw = None
        response._content = b"{}"
        return response


@contextmanager
def langsmith() -> Iterator[Peer]:
    session = _KeptRequests()
    client = Client(
        api_url="http://127.0.0.1:9", api_key="test", session=session, auto_batch_tracing=False
    )
    fields = ("name", "run_type", "inputs", "outputs", "error", "tags", "events", "extra")

    def told() -> Told:
        bodies, session.bodies = session.bodies, []
        names = {body["id"]: body["name"] for body in bodies if "name" in body}
        return sorted(
            (
                steady(
                    {field: body.get(field) for field in fields}
                    | {"under": names.get(body.get("parent_run_id")), "method": body["method"]}
                )
                for body in bodies
            ),
            key=str,
        )

    yield Peer(told, LangChainTracer(project_name="test", client=client))


PEERS: dict[str, Callable[[], AbstractContextManager[Peer]]] = {
    "openinference": openinference,
    "openllmetry": openllmetry,
    "langfuse": langfuse,
    "langsmith": langsmith,
}


@pytest.fixture(params=PEERS.values(), ids=PEERS.keys())
def peer(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Peer]]:
    """One of the others, to be turned on."""
    return request.param


def alike(interaction: Interaction) -> Interaction:
    """Return the record without what differs from run to run, and without its place in a trace."""
    return replace(
        interaction,
        id="",
        started_ns=0,
        first_token_ns=0,
        ended_ns=0,
        caller=None,
        retrievals=tuple(replace(r, started_ns=0, ended_ns=0) for r in interaction.retrievals),
        generations=tuple(
            replace(g, started_ns=0, ended_ns=0, first_token_ns=0) for g in interaction.generations
        ),
    )


@pytest.mark.parametrize("we_come", ["first", "last"])
async def test_neither_changes_what_the_other_tells(  # noqa: PLR0917 - fixtures
    monitor: Any, apps: Any, build: Any, way: Any, peer: Any, we_come: str
) -> None:
    """Each tells of the same calls what it tells alone; tokens are counted once; nobody warns."""
    questions = ["a", "b"]
    instrument(monitor)
    await way(build(), questions, {})
    uninstrument()
    ours_alone = [alike(i) for i in monitor.interactions]
    with peer() as other:
        await way(build(), questions, {"callbacks": [*other.callbacks]})
        theirs_alone = other.told()
    monitor.finished.clear()

    if we_come == "first":
        instrument(monitor)
    with peer() as other:
        callbacks = [*other.callbacks]
        if we_come == "last":
            instrument(monitor)
            callbacks.append(RagMonitorHandler(monitor))
        elif callbacks:
            callbacks.insert(0, RagMonitorHandler(monitor))
        await way(build(), questions, {"callbacks": callbacks})
        theirs = other.told()

    ours = [alike(i) for i in monitor.interactions]
    assert theirs_alone
    assert theirs == theirs_alone
    assert sorted(ours, key=str) == sorted(ours_alone, key=str)
    assert all(i.usage.output_tokens == len(apps.ANSWER.split()) for i in ours)


async def _completed(chain: Any, how: str, callbacks: list[Any]) -> None:
    if how == "ainvoke":
        await chain.ainvoke("a", {"callbacks": callbacks})
    else:
        async for _ in chain.astream("a", {"callbacks": callbacks}):
            pass


@pytest.mark.parametrize(
    ("other", "run_inline"),
    [(openinference, False), (langfuse, False), (openllmetry, True), (langsmith, True)],
    ids=["openinference", "langfuse", "openllmetry", "langsmith"],
)
@pytest.mark.parametrize("how", ["ainvoke", "astream"])
async def test_an_asynchronous_completion_model_is_seen_by_both(
    monitor: Any,
    apps: Any,
    other: Callable[[], AbstractContextManager[Peer]],
    run_inline: bool,
    how: str,
) -> None:
    """As long as both handlers are inline, or neither is."""
    chain = apps.lcel(llm=FakeListLLM(responses=["whole"])).chain
    with other() as peer:
        await _completed(chain, how, [*peer.callbacks])
        alone = peer.told()
        instrument(monitor, run_inline=run_inline)
        await _completed(chain, how, [*peer.callbacks])
        assert peer.told() == alone
    assert monitor.only.answer == "whole"
    assert len(monitor.only.generations) == 1


@pytest.mark.parametrize("how", ["ainvoke", "astream"])
async def test_langchain_hides_completion_models_while_any_handler_is_inline(
    apps: Any, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The reason for `run_inline`. When this fails, LangChain has mended it, and it may go."""
    chain = apps.lcel(llm=FakeListLLM(responses=["whole"])).chain
    try:
        with openinference() as other:
            instrument(apps.ListeningMonitor())
            await _completed(chain, how, [])
            assert not any("FakeListLLM" in str(span) for span in other.told())
    finally:
        uninstrument()
    assert "No indexed run ID" in caplog.text


@pytest.mark.parametrize("other", [openllmetry, langsmith])
async def test_beside_an_inline_handler_ours_had_better_be_inline(
    monitor: Any, apps: Any, other: Callable[[], AbstractContextManager[Peer]]
) -> None:
    """The same defect from the other side: nothing shows that a model was asked."""
    chain = apps.lcel(llm=FakeListLLM(responses=["whole"])).chain
    with other() as peer:
        instrument(monitor, run_inline=False)
        await _completed(chain, "ainvoke", [*peer.callbacks])
    assert monitor.finished == []
