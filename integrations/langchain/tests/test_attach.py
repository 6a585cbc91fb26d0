"""One call or the whole process: whatever is attached, and however often, counts once."""

from __future__ import annotations

import copy
import gc
import weakref
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.tracers import context as tracer_context
from opentelemetry.sdk.trace import TracerProvider

from ragmonitor_langchain import RagMonitorHandler, instrument, uninstrument


async def test_a_handler_observes_the_call_it_is_given_to(
    monitor: Any, build: Any, way: Any
) -> None:
    """`callbacks=[RagMonitorHandler(monitor)]` is enough."""
    await way(build(), ["a", "b"], {"callbacks": [RagMonitorHandler(monitor)]})
    assert len(monitor.interactions) == 2


async def test_a_handler_and_instrument_together_count_once(
    monitor: Any, build: Any, way: Any
) -> None:
    """Both are on: each question is still one interaction with one retrieval and one answer."""
    instrument(monitor)
    await way(build(), ["a", "b"], {"callbacks": [RagMonitorHandler(monitor)]})
    counted = [(len(i.retrievals), len(i.generations)) for i in monitor.interactions]
    assert counted == [(1, 1), (1, 1)]


async def test_a_handler_bound_to_the_chain_and_given_to_the_call_counts_once(
    monitor: Any, build: Any, way: Any
) -> None:
    """LangChain joins the two lists without looking; the record does not show it."""
    app = build()
    handler = RagMonitorHandler(monitor)
    app.chain = app.chain.with_config(callbacks=[handler])
    await way(app, ["a"], {"callbacks": [handler]})
    assert [len(i.generations) for i in monitor.interactions] == [1]


def test_a_stream_of_a_handler_given_twice_has_each_piece_once(monitor: Any, apps: Any) -> None:
    """Bound to the chain and given to the call, and closed early: what the user saw."""
    handler = RagMonitorHandler(monitor)
    chain = apps.lcel().chain.with_config(callbacks=[handler])
    stream = chain.stream("a", {"callbacks": [handler]})
    seen = next(stream) + next(stream)
    stream.close()
    assert monitor.only.answer == seen


def test_a_monitor_has_one_handler(monitor: Any) -> None:
    """Asked for twice, copied or deep-copied, it is the same object."""
    handler = RagMonitorHandler(monitor)
    assert RagMonitorHandler(monitor) is handler
    assert copy.copy(handler) is handler
    assert copy.deepcopy({"callbacks": [handler]})["callbacks"][0] is handler


def test_a_run_id_of_another_type_is_taken(monitor: Any, apps: Any) -> None:
    """LangChain wants a UUID and lets a text pass; so do we."""
    instrument(monitor)
    apps.lcel().chain.invoke("a", {"run_id": "request-7"})
    assert monitor.only.id == "request-7"


def test_a_run_id_is_the_interaction_s(monitor: Any, apps: Any) -> None:
    """Feedback that the application keeps by run id finds its interaction."""
    instrument(monitor)
    run_id = uuid4()
    apps.lcel().chain.invoke("a", {"run_id": run_id})
    assert monitor.only.id == run_id.hex


def test_two_monitors_have_two_handlers(monitor: Any, apps: Any) -> None:
    """Each monitor's handler reports to it alone."""
    other = apps.ListeningMonitor()
    apps.lcel().chain.invoke(
        "a", {"callbacks": [RagMonitorHandler(monitor), RagMonitorHandler(other)]}
    )
    assert (len(monitor.interactions), len(other.interactions)) == (1, 1)


def test_a_monitor_that_nobody_uses_is_let_go(apps: Any) -> None:
    """The one-handler-per-monitor rule keeps neither of them alive."""
    monitor = apps.ListeningMonitor()
    RagMonitorHandler(monitor)
    gone = weakref.ref(monitor)
    del monitor
    gc.collect()
    assert gone() is None


def test_instrument_twice_is_once(monitor: Any, apps: Any) -> None:
    """The second call changes nothing and returns the same handler."""
    assert instrument(monitor) is instrument(monitor)
    apps.lcel().chain.invoke("a")
    assert len(monitor.interactions) == 1


def test_uninstrument_restores_silence(monitor: Any, apps: Any) -> None:
    """LangChain's hooks are what they were before, and nothing is recorded any more."""
    hooks = list(tracer_context._configure_hooks)
    instrument(monitor)
    uninstrument()
    apps.lcel().chain.invoke("a")
    assert (tracer_context._configure_hooks, monitor.interactions) == (hooks, [])


def test_uninstrument_twice_is_once(monitor: Any) -> None:
    """Nothing to remove is no error."""
    instrument(monitor)
    uninstrument()
    uninstrument()


def test_instrument_works_again(monitor: Any, apps: Any) -> None:
    """Off and on again records again, once."""
    instrument(monitor)
    uninstrument()
    instrument(monitor)
    apps.lcel().chain.invoke("a")
    assert len(monitor.interactions) == 1


def test_another_monitor_takes_over(monitor: Any, apps: Any) -> None:
    """`instrument` with another monitor replaces the first."""
    other = apps.ListeningMonitor()
    instrument(other)
    instrument(monitor)
    apps.lcel().chain.invoke("a")
    assert (len(other.interactions), len(monitor.interactions)) == (0, 1)


def test_silence_without_the_private_list(
    monitor: Any, apps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If LangChain's list of hooks cannot be reached, the handler ignores every event instead."""
    instrument(monitor)
    hooks = tracer_context._configure_hooks
    monkeypatch.delattr(tracer_context, "_configure_hooks")
    uninstrument()
    monkeypatch.setattr(tracer_context, "_configure_hooks", hooks, raising=False)
    try:
        apps.lcel().chain.invoke("a")
        silent = not monitor.interactions
        instrument(monitor)
        apps.lcel().chain.invoke("b")
        assert silent
        assert [i.query for i in monitor.interactions] == ["b"]
    finally:
        uninstrument()
        hooks[:] = [entry for entry in hooks if entry[0].name != "ragmonitor_langchain"]


async def test_the_callers_span_is_kept(monitor: Any, build: Any, way: Any) -> None:
    """The span that was current when the question came is the record's caller."""
    instrument(monitor)
    provider = TracerProvider()
    app = build()
    with provider.get_tracer("app").start_as_current_span("request") as span:
        with suppress(StopIteration):
            await way(app, ["a"], {})
        current = span.get_span_context()
    provider.shutdown()
    caller = monitor.only.caller
    if way.__name__ == "_threads":
        # A pool of the application's own does not carry the context; then there is no caller.
        assert caller is None
    else:
        assert (int(caller.trace_id, 16), int(caller.span_id, 16)) == (
            current.trace_id,
            current.span_id,
        )


def test_documents_changed_afterwards_do_not_change_the_record(monitor: Any, apps: Any) -> None:
    """The record has the documents as the retriever gave them."""
    instrument(monitor)
    retriever = apps.Notes()
    output = apps.retrieval_chain(retriever).chain.invoke({"input": "a"})
    for document in (*retriever.found, *output["context"]):
        document.page_content = "changed"
        document.metadata["score"] = 0.0
        document.id = "changed"
    output["context"].clear()
    first = monitor.only.chunks[0]
    assert (first.text, first.id, first.score) == ("Serviced every six months.", "manual-7", 0.9)
    assert monitor.only.retrievals[0].chunks[0] == first


def test_a_question_changed_afterwards_does_not_change_the_record(monitor: Any, apps: Any) -> None:
    """The record has the input as it was given."""
    instrument(monitor)
    given = {"input": "a"}
    apps.retrieval_chain().chain.invoke(given)
    given["input"] = "changed"
    assert monitor.only.query == "a"
