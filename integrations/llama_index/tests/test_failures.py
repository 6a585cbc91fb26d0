"""What fails in the application is recorded and passes unchanged; what fails in us is ours."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from integrations.llama_index.tests.scripted import (
    ANSWER,
    FakeMonitor,
    ListRetriever,
    ScriptedLLM,
    chat_engine,
    query_engine,
)

from ragmonitor import guard
from ragmonitor_llama_index import handler, instrument, uninstrument
from ragmonitor_llama_index.handler import SpanListener

FAILURE = RuntimeError("broken")


@pytest.mark.parametrize("engine", ["query", "context", "condense_plus_context"])
@pytest.mark.parametrize("culprit", ["retriever", "model"])
async def test_a_failure_is_recorded_and_passes_unchanged(
    monitor: FakeMonitor, engine: str, culprit: str
) -> None:
    """Status error with its type and message; the application catches the very exception."""
    llm = ScriptedLLM(fails_after=0 if culprit == "model" else None, failure=FAILURE)
    retriever = ListRetriever([], FAILURE) if culprit == "retriever" else None
    target: Any = (
        query_engine(llm, retriever)
        if engine == "query"
        else chat_engine(engine, llm, retriever=retriever)
    )
    with pytest.raises(RuntimeError) as caught:
        await (target.aquery("How heavy?") if engine == "query" else target.achat("How heavy?"))
    assert caught.value is FAILURE
    interaction = monitor.only()
    assert (interaction.status, interaction.error) == ("error", "RuntimeError: broken")
    assert interaction.query == "How heavy?"


def test_a_failure_between_retrieval_and_model_is_recorded(
    monitor: FakeMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No model was asked, but the user saw an error; the chunks are known."""
    engine = query_engine()

    def breaks(*args: Any, **kwargs: Any) -> None:
        raise FAILURE

    monkeypatch.setattr(engine._response_synthesizer, "_make_compact_text_chunks", breaks)
    with pytest.raises(RuntimeError) as caught:
        engine.query("How heavy?")
    assert caught.value is FAILURE
    interaction = monitor.only()
    assert (interaction.status, interaction.error) == ("error", "RuntimeError: broken")
    assert [c.id for c in interaction.chunks] == ["n0", "n1", "n2"]


def test_nodes_that_cannot_be_read_do_not_cost_the_interaction(
    quiet_monitor: FakeMonitor,
) -> None:
    """Question and answer are recorded; our error is counted."""

    class Stubborn(TextNode):
        def get_content(self, metadata_mode: MetadataMode = MetadataMode.ALL) -> str:
            if metadata_mode is MetadataMode.NONE:
                raise OSError("store closed")
            return self.text

    before = guard.errors["capture"]
    instrument(quiet_monitor)
    nodes = [NodeWithScore(node=Stubborn(text="x"))]
    assert str(query_engine(retriever=ListRetriever(nodes)).query("How heavy?")) == ANSWER
    interaction = quiet_monitor.only()
    assert (interaction.query, interaction.answer) == ("How heavy?", ANSWER)
    assert guard.errors["capture"] > before


@pytest.mark.parametrize("method", ["span_enter", "span_exit", "span_drop"])
@pytest.mark.parametrize("mode", ["query", "stream"])
def test_a_bug_of_ours_never_reaches_the_application(
    quiet_monitor: FakeMonitor,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    mode: str,
) -> None:
    """The answer is the same, and our error is logged and counted."""
    before = guard.errors["capture"]

    def bug(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError(method)

    inner = {
        "span_enter": (SpanListener, "_member"),
        "span_exit": (handler, "note_nodes"),
        "span_drop": (handler, "_note_synthesised"),
    }[method]
    monkeypatch.setattr(*inner, bug)
    instrument(quiet_monitor)
    if method == "span_drop":
        with pytest.raises(RuntimeError) as caught:
            query_engine(ScriptedLLM(fails_after=0, failure=FAILURE)).query("How heavy?")
        assert caught.value is FAILURE
    else:
        assert str(query_engine(streaming=mode == "stream").query("How heavy?")) == ANSWER
    uninstrument()
    handler._places.clear()
    handler._listening.stop()
    assert guard.errors["capture"] > before


def test_a_bug_in_the_recorder_never_reaches_the_application(
    quiet_monitor: FakeMonitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from a call nor from a stream."""

    def bug(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError

    instrument(quiet_monitor)
    for name in ("piece", "ended", "failed"):
        monkeypatch.setattr(type(quiet_monitor._recorder), name, bug)
    assert str(query_engine().query("How heavy?")) == ANSWER
    assert str(query_engine(streaming=True).query("How heavy?")) == ANSWER
    assert "".join(chat_engine("context").stream_chat("How heavy?").response_gen) == ANSWER
    uninstrument()
    handler._places.clear()
    handler._listening.stop()
