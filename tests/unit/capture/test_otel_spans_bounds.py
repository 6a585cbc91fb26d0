"""Spans that are hostile, or many: what they cost, and what becomes of their interaction."""

import sys

import pytest

from ragmonitor.capture.span_readers import processor
from tests.support.otel_spans import Told


@pytest.fixture
def told():
    yield (made := Told())
    made.provider.shutdown()


def calls_of(work):
    """Return how many functions are called by some work."""
    count = 0

    def note(_frame, event, _arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def flat(told, n):
    """Many models under one root."""
    root = told.root()
    for _ in range(n):
        told.ask(root)
    return [root]


def request(told, n):
    """Many models under a request, each within a step of its own."""
    root = told.start("GET /", scope="http")
    for _ in range(n // 2):
        step = told.start("step", root, scope="http")
        told.ask(step)
        step.end()
    return [root]


def deep(told, n):
    """Chains within chains, each with a model, all open."""
    spans = [told.root()]
    for _ in range(n // 2):
        spans.append(told.start("step", spans[-1], "CHAIN"))
        told.ask(spans[-1])
    return spans


def deep_and_ended(told, n):
    """Chains within chains, each with a model, of which only the root is open."""
    root, *spans = deep(told, n)
    for span in reversed(spans):
        span.end()
    return [root]


def trees(told, n):
    """Whole interactions that wait for a stream under the same request."""
    root = told.start("GET /", scope="http")
    streams = []
    for _ in range(n // 4):
        qa = told.root(root)
        told.retrieve(qa)
        streams.append(told.start("stream", qa, "LLM"))
        qa.end()
    return [root, *streams]


@pytest.mark.parametrize("shape", [flat, request, deep, deep_and_ended, trees])
def test_a_sweep_is_linear_in_the_spans(shape):
    """Four times as many spans cost some four times as many calls, not sixteen times."""
    costs = []
    for n in (200, 800):
        told = Told()
        held = shape(told, n)
        told.clock.advance(5)
        costs.append(calls_of(told.processor.sweep))
        assert held
        assert told.handed == []
    assert costs[1] < 6 * costs[0]


@pytest.mark.parametrize("shape", [flat, request, deep, deep_and_ended, trees])
def test_a_sweep_of_what_has_not_changed_costs_nothing(shape, told):
    """However many spans wait for a root that is open."""
    held = shape(told, 400)
    told.clock.advance(5)
    told.processor.sweep()
    told.clock.advance(2)
    assert calls_of(told.processor.sweep) < 100
    assert held


@pytest.mark.parametrize("depth", [5_000, 200_000])
@pytest.mark.parametrize("closed", [True, False])
def test_json_without_a_floor_costs_one_text(told, depth, closed):
    """The interaction goes out once, without it."""
    text = '{"a":' * depth + "1" + "}" * (depth * closed)
    root = told.start("qa", None, "CHAIN", input__value=text, input__mime_type="application/json")
    told.retrieve(root)
    told.ask(root)
    root.end()
    (found,) = told.after(2)
    assert (found.query, found.answer) == ("Why?", "The sky is blue.")
    assert len(told.processor) == 0


def test_a_fault_in_joining_a_trace_gives_the_trace_up(told, monkeypatch):
    """It is counted with its cause, and not met again at every sweep."""

    def fails(*_given, **_named):
        raise RecursionError

    monkeypatch.setattr(processor, "JoinedTrace", fails)
    told.tell()
    told.after(2)
    assert told.forgotten == ["unreadable"]
    assert len(told.processor) == 0
    told.after(1000)
    assert told.forgotten == ["unreadable"]
