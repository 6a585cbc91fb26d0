"""One call or the whole process: whatever is attached, and however often, counts once."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from langchain_core.tracers import context as tracer_context

from ragmonitor_langchain import RagMonitorHandler, instrument, uninstrument


async def test_a_handler_and_instrument_together_count_once(
    monitor: Any, build: Any, way: Any
) -> None:
    """Both are on: each question is still one interaction with one retrieval and one answer."""
    instrument(monitor)
    await way(build(), ["a", "b"], {"callbacks": [RagMonitorHandler(monitor)]})
    counted = [(len(i.retrievals), len(i.generations)) for i in monitor.interactions]
    assert counted == [(1, 1), (1, 1)]


def test_a_stream_of_a_handler_given_twice_has_each_piece_once(monitor: Any, apps: Any) -> None:
    """Bound to the chain and given to the call, and closed early: what the user saw."""
    handler = RagMonitorHandler(monitor)
    chain = apps.lcel().chain.with_config(callbacks=[handler])
    stream = chain.stream("a", {"callbacks": [handler]})
    seen = next(stream) + next(stream)
    stream.close()
    assert monitor.only.answer == seen


def test_a_run_id_of_another_type_is_taken(monitor: Any, apps: Any) -> None:
    """LangChain wants a UUID and lets a text pass; so do we."""
    instrument(monitor)
    apps.lcel().chain.invoke("a", {"run_id": "request-7"})
    assert monitor.only.id == "request-7"


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


def test_another_monitor_takes_over(monitor: Any, apps: Any) -> None:
    """`instrument` with another monitor replaces the first."""
    other = apps.ListeningMonitor()
    instrument(other)
    instrument(monitor)
    apps.lcel().chain.invoke("a")
    assert (len(other.interactions), len(monitor.interactions)) == (0, 1)


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
