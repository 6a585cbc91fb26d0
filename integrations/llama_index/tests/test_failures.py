"""What fails in the application is recorded and passes unchanged; what fails in us is ours."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from integrations.llama_index.tests.scripted import (
    ANSWER,
    FakeMonitor,
    ScriptedLLM,
    chat_engine,
    query_engine,
)
from ragmonitor.runtime import guard
from ragmonitor_llama_index import handler, instrument, uninstrument

FAILURE = RuntimeError("broken")


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
        "span_enter": (handler, "_begin_member"),
        "span_exit": (handler, "note_nodes"),
        "span_drop": (handler._Root, "note_synthesized"),
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


class Raising:
    """Raises whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    __bool__ = __hash__ = __str__ = None  # type: ignore[assignment]


ODD: tuple[Any, ...] = (None, 5, "RetrieverQueryEngine.query-" + "0" * 36, [], object(), Raising())


@pytest.mark.parametrize("name", ["span_enter", "span_exit", "span_drop", "handle"])
def test_no_listener_raises_whatever_it_is_given(quiet_monitor: FakeMonitor, name: str) -> None:
    """Other code may call them, too, with values of any type."""
    instrument(quiet_monitor)
    listeners = (handler._spans, handler._events)
    listener = next(getattr(each, name) for each in listeners if hasattr(each, name))
    given = 1 if name == "handle" else 4 + (name == "span_enter")
    for instance in (query_engine(), ScriptedLLM()):
        for values in itertools.product((*ODD, instance), repeat=given):
            listener(*values)
    uninstrument()
