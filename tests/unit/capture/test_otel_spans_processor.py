"""Collecting spans by trace: when an interaction is complete, and what is never held for long."""

import os
import threading

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import SpanLimits

from ragmonitor.capture.span_readers.spans import span_record
from ragmonitor.runtime import guard
from tests.support.otel_spans import Told


@pytest.fixture
def told():
    before = guard.errors.copy()
    yield (made := Told())
    made.provider.shutdown()
    assert guard.errors == before


def test_a_tree_is_handed_over_once_it_has_been_quiet(told):
    """Not at its root's end: spans may come late."""
    told.tell()
    assert told.after(0.5) == []
    (found,) = told.after(0.6)
    assert (found.query, found.answer) == ("Why?", "The sky is blue.")
    assert len(told.processor) == 0
    assert len(told.after(1000)) == 1


def test_the_sweeper_is_woken_by_the_first_span_of_a_dialect(told):
    """And not by others: an application that asks no model starts no thread of ours."""
    told.start("GET /", scope="http").end()
    assert told.woken == []
    told.tell()
    told.tell()
    assert told.woken == [1]


def test_a_tree_with_an_open_span_below_waits_for_it(told):
    """A stream that is read after its root has ended, for as long as it takes."""
    root = told.root()
    told.retrieve(root)
    stream = told.start("stream", root, "LLM")
    root.end()
    assert told.after(30) == []
    stream.set_attribute("output.value", "At last.")
    stream.end()
    (found,) = told.after(2)
    assert (found.answer, found.status) == ("At last.", "ok")


def test_a_span_that_is_open_is_not_read(told):
    """The application writes to it at that moment: a fault would cost the whole trace."""
    root = told.root()
    told.retrieve(root)
    told.ask(root)
    events, root._events = root._events, None
    assert told.after(2) == []
    root._events = events
    root.end()
    assert [len(each.chunks) for each in told.after(2)] == [1]


def test_what_begins_after_the_roots_end_is_waited_for(told):
    """Within the quiet period."""
    root = told.root()
    told.retrieve(root)
    root.end()
    told.after(0.5)
    told.ask(root)
    (found,) = told.after(1.5)
    assert found.answer == "The sky is blue."


def test_a_span_of_the_applications_that_stays_open_below_holds_nothing(told):
    """And what was handed over is not handed over again."""
    root = told.root()
    told.retrieve(root)
    told.ask(root)
    mine = told.start("mine", root, scope="mine")
    root.end()
    assert len(told.after(2)) == 1
    assert len(told.after(2)) == 1
    mine.end()
    assert len(told.after(2)) == 1


def test_shutdown_hands_over_and_hears_nothing_afterwards(told):
    """The provider is shut down at exit."""
    told.tell()
    told.processor.shutdown()
    assert len(told.handed) == 1
    told.tell()
    assert (told.after(2), len(told.processor)) == ([told.handed[0].interaction()], 0)


def test_a_request_that_goes_on_does_not_hold_its_answers_back(told):
    """A server's span, or a job's, is no span of a dialect: each tree below it is its own."""
    server = told.start("job", scope="job")
    told.tell(server)
    assert len(told.after(2)) == 1
    told.tell(server)
    found = told.after(2)
    assert len(found) == 2
    assert {f.caller.span_id for f in found} == {f"{server.context.span_id:016x}"}
    server.end()
    told.after(2)
    assert told.processor._traces == {}


def test_a_search_and_a_model_call_wait_for_the_span_around_them(told):
    """Which then is the interaction's."""
    server = told.start("server", scope="http")
    answer = told.start("answer", server, scope="mine")
    told.retrieve(answer)
    told.ask(answer)
    assert told.after(5) == []
    answer.end()
    (found,) = told.after(2)
    assert found.target.span_id == f"{answer.context.span_id:016x}"


def test_our_own_spans_are_not_read(told):
    """What we emit for a record must not become another."""
    root = told.start("qa", kind="CHAIN", scope="ragmonitor")
    told.start("s", root, "RETRIEVER", scope="ragmonitor").end()
    root.end()
    assert len(told.processor) == 0


def test_the_processor_on_two_providers_counts_a_span_once(told):
    """Added twice to one provider, it hears each end twice."""
    told.provider.add_span_processor(told.processor)
    told.tell()
    assert len(told.after(2)) == 1


def test_a_root_that_is_never_ended_is_handed_over_as_partial(told):
    """OpenLLMetry does not end the spans of a LlamaIndex stream."""
    root = told.root()
    told.retrieve(root)
    told.ask(root)
    assert told.after(899) == []
    (found,) = told.after(2)
    assert (found.status, found.query) == ("partial", "Why?")
    assert told.forgotten == ["aged_out"]
    root.end()
    assert len(told.after(1000)) == 1
    assert told.processor._traces == {}


def test_lone_calls_below_a_span_that_never_ends_are_let_go(told):
    """They might have been parts of an interaction, but not after so long."""
    server = told.start("websocket", scope="ws")
    for _ in range(10):
        told.ask(server)
    told.after(800)
    assert len(told.processor) == 10
    told.after(200)
    assert len(told.processor) == 0


def test_more_spans_than_may_be_held_cost_the_oldest_traces(told, monkeypatch):
    """Counted; the newest is complete."""
    monkeypatch.setattr("ragmonitor.capture.span_readers.processor.MAX_SPANS", 100)
    for _ in range(60):
        told.tell()
    assert len(told.processor) <= 103
    found = told.after(2)
    assert len(found) == len(told.handed) >= 30
    assert told.forgotten == ["too_many_open"] * (60 - len(found))


def test_an_unknown_scope_is_learnt_from_its_spans(told):
    """Any SDK that writes GenAI's attributes, whatever its name."""
    tracer = told.provider.get_tracer("acme.agent")
    root = tracer.start_span("run", context=context.Context())
    root.set_attribute("gen_ai.operation.name", "invoke_agent")
    below = trace.set_span_in_context(root, context.Context())
    with tracer.start_span("search", context=below) as search:
        search.set_attribute("gen_ai.operation.name", "retrieval")
        search.set_attribute("gen_ai.retrieval.query.text", "Why?")
        search.set_attribute("gen_ai.retrieval.documents", '[{"id": "1", "content": "Blue sky."}]')
    root.set_attribute(
        "gen_ai.output.messages",
        '[{"role": "assistant", "parts": [{"type": "text", "content": "Blue."}]}]',
    )
    root.end()
    (found,) = told.after(2)
    assert (found.framework, found.query, found.answer) == ("genai", "Why?", "Blue.")


def test_traces_on_many_threads_do_not_mix(told):
    """Nothing is lost and nothing doubled while a sweeper runs."""
    done = threading.Event()

    def sweep():
        while not done.is_set():
            told.processor.sweep()

    def work():
        for _ in range(50):
            told.tell()

    sweeper = threading.Thread(target=sweep)
    workers = [threading.Thread(target=work) for _ in range(4)]
    for thread in (sweeper, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    sweeper.join()
    found = told.after(2)
    assert len(found) == len({f.id for f in found}) == 200
    assert all(f.answer == "The sky is blue." for f in found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_begins_empty(told):
    """The parent keeps its spans; the child hands over its own alone, even mid-sweep."""
    told.tell()
    told.processor._sweeping.acquire()
    told.processor.clear()
    assert len(told.processor) == 0
    told.tell()
    assert len(told.after(2)) == 1


def test_a_root_that_ends_while_its_trace_is_read_loses_nothing(told, monkeypatch):
    """The application goes on meanwhile: what is read is not yet complete."""
    root = told.root()
    told.retrieve(root)
    told.ask(root)

    def reads(span, **how):
        if root.is_recording():
            root.end()
        return span_record(span, **how)

    monkeypatch.setattr("ragmonitor.capture.span_readers.processor.span_record", reads)
    assert told.after(2) == []
    assert [len(each.chunks) for each in told.after(2)] == [1]


@pytest.mark.parametrize("limit", ["max_span_attributes", "max_span_attribute_length"])
def test_what_the_sdk_had_no_room_for_is_noticed(limit):
    """It drops the oldest attributes, and with them documents, or cuts texts."""
    told = Told(SpanLimits(**{limit: 9}))
    root = told.root()
    texts = {f"retrieval__documents__{n}__document__content": f"Text {n}." for n in range(20)}
    told.start("retrieve", root, "RETRIEVER", **texts).end()
    told.ask(root)
    root.end()
    (found,) = told.after(2)
    assert found.capture_incomplete
