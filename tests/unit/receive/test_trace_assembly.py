"""Traces that come in pieces: late, twice, without a root, from several processes and clocks."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ragmonitor.capture import Run
from ragmonitor.conventions import PROBE_BAGGAGE
from ragmonitor.receive import open_traces, receiver
from tests.support.receiving import (
    ANSWER,
    BEGAN_NS,
    QUESTION,
    SECOND_NS,
    TEXT,
    Receiving,
    answer,
    model,
    receiving,
    retrieval,
    root,
    span,
)

REMOTE = {"flags": 0x301}
LOCAL = {"flags": 0x101}


@pytest.fixture
def here() -> Iterator[Receiving]:
    with receiving(listens=False) as made:
        yield made


def test_a_trace_waits_for_its_last_span(here: Receiving) -> None:
    """Each span begins the quiet anew."""
    here.take(retrieval())
    assert here.after(5) == []
    here.take(model())
    assert here.after(5) == []
    here.take(root())
    assert here.after(5) == []
    (found,) = here.after(2)
    assert (found.query, found.answer, found.chunks[0].text) == (QUESTION, ANSWER, TEXT)
    assert found.target is not None
    assert found.target.span_id == (1).to_bytes(8, "big").hex()
    assert found.target.sampled


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("ot=th:8,1a@vendor=a b/c", "ot=th:8,1a@vendor=a b/c"),
        ("ot=th:8 , vendor=1,", "ot=th:8,vendor=1"),
        ("forged\nragmonitor: all is well", ""),
        ("ot=th:8,Vendor=1", ""),
        ("a=" + "b" * 600, ""),
        (",".join(f"k{n}=v" for n in range(33)), ""),
    ],
)
def test_a_trace_state_is_taken_only_if_it_is_one(
    here: Receiving, caplog: pytest.LogCaptureFixture, sent: str, kept: str
) -> None:
    """What a sender writes instead of one does not come into the log."""
    here.take(*(each | {"trace_state": sent} for each in answer()))
    (found,) = here.after(7)
    assert found.target is not None
    assert found.target.trace_state == kept
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


def test_a_trace_whose_root_never_comes_is_read_all_the_same(here: Receiving) -> None:
    """What is below the missing span belongs together; the scores are linked to that span."""
    here.take(retrieval(), model())
    assert here.after(100) == []
    (found,) = here.after(21)
    assert (found.query, found.answer, found.chunks[0].text) == (QUESTION, ANSWER, TEXT)
    assert found.target is not None
    assert found.target.span_id == (1).to_bytes(8, "big").hex()


def test_an_answers_id_is_known_to_its_sender(here: Receiving) -> None:
    """The ids of its trace and of its root, by which it can be given feedback."""
    here.take(*answer(trace=0xABC))
    (found,) = here.after(7)
    assert found.id == f"{0xABC:032x}{1:016x}"


def test_a_missing_span_in_the_middle_tears_nothing_apart(here: Receiving) -> None:
    """The root has come, the step that encloses retrieval and model has not."""
    here.take(retrieval(3, 2), model(4, 2), root(1))
    (found,) = here.after(121)
    assert (found.query, found.answer) == (QUESTION, ANSWER)


def test_a_parent_in_another_process_is_not_waited_for(here: Receiving) -> None:
    """A gateway that sends nothing to us: the answer is whole without it."""
    here.take(retrieval(2, 1), model(3, 1), root(1, 99, **REMOTE))
    assert len(here.after(7)) == 1


def test_half_an_answer_waits_for_the_other_process(here: Receiving) -> None:
    """The process that retrieves sends at once, the one that asks the model a minute later."""
    here.take(retrieval(5, 4, **REMOTE), **{"service.name": "search"})
    assert here.after(60) == []
    here.take(span(4, 1, kind=""), model(3, 1), root(1))
    (found,) = here.after(7)
    assert [chunk.text for chunk in found.chunks] == [TEXT]
    assert found.answer == ANSWER


def test_turns_of_one_session_are_answers_of_their_own(here: Receiving) -> None:
    """A root that stays open for long: its turns are handed over, and its late end adds none."""
    here.take(retrieval(3, 2), model(4, 2), root(2, 1, **LOCAL))
    assert len(here.after(121)) == 1
    here.take(retrieval(13, 12), model(14, 12), root(12, 1, **LOCAL))
    assert len(here.after(121)) == 2
    here.take(root(1))
    assert len(here.after(121)) == 2
    here.receiver.close()
    assert here.counted("ragmonitor_received_spans_total", outcome="late") == 1


def test_spans_that_come_after_their_answer_was_read_are_late(here: Receiving) -> None:
    """Below it and above it: counted, and no answer of their own."""
    here.take(*answer())
    assert len(here.after(7)) == 1
    here.take(retrieval(8, 7), model(9, 7), root(7, 3))
    assert len(here.after(121)) == 1
    here.receiver.close()
    assert here.counted("ragmonitor_received_spans_total", outcome="late") == 3
    assert here.counted("ragmonitor_received_traces_total") == 1


def test_what_comes_twice_is_taken_once(here: Receiving) -> None:
    """Before it was read, and after."""
    here.take(*answer(), *answer())
    assert len(here.after(7)) == 1
    here.take(*answer())
    assert len(here.after(121)) == 1
    here.receiver.close()
    assert here.counted("ragmonitor_received_spans_total", outcome="duplicate") == 6


def test_a_wrong_clock_does_not_turn_cause_and_effect_around(here: Receiving) -> None:
    """The retriever's machine is an hour behind; its work is put inside of the call."""
    called = span(2, 1, kind="", times=(2, 4))
    found_there = retrieval(3, 2, **REMOTE) | {"times": (-3597, -3596)}
    here.take(called, model(5, 1), root(1))
    here.take(found_there, **{"service.name": "search"})
    (found,) = here.after(7)
    (searched,) = found.retrievals
    assert searched.started_ns == BEGAN_NS + int(2.5 * SECOND_NS)
    assert searched.ended_ns - searched.started_ns == SECOND_NS
    assert found.generations[0].started_ns == BEGAN_NS + 5 * SECOND_NS


def test_a_call_that_outlives_its_caller_is_left_where_it_is(here: Receiving) -> None:
    """A stream goes on after the call that began it; that is no wrong clock."""
    here.take(retrieval(), root(1))
    here.take(model(3, 1, **REMOTE) | {"times": (3, 30)}, **{"service.name": "llm"})
    (found,) = here.after(7)
    assert found.generations[0].ended_ns == BEGAN_NS + 30 * SECOND_NS


@pytest.mark.parametrize(("after_s", "status"), [(0.001, "ok"), (0.1, "partial")])
def test_the_clock_of_javascript_is_no_closed_stream(
    here: Receiving, after_s: float, status: str
) -> None:
    """Its spans begin at whole milliseconds: a model may seem to end just after its root."""
    here.take(retrieval(), root(1), model(3, 1) | {"times": (3, 10 + after_s)})
    (found,) = here.after(7)
    assert (found.status, found.answer) == (status, ANSWER)


def test_spans_that_enclose_themselves_are_left_out(here: Receiving) -> None:
    """A ring of parents, a span that is its own, and what is below them."""
    here.take(span(21, 22), span(22, 21), span(23, 23), retrieval(24, 23), *answer())
    assert len(here.after(121)) == 1


def test_a_trace_without_a_model_leaves_as_none(here: Receiving) -> None:
    """And one of no convention at all leaves as soon as it is quiet."""
    here.take(root(), retrieval())
    here.take(span(1, 9, kind="", trace=2))
    assert here.after(7) == []
    assert len(here.receiver.traces) == 0
    here.receiver.close()
    assert here.counted("ragmonitor_received_traces_total", outcome="none") == 2


def test_a_server_s_span_that_comes_late_still_encloses_its_answer(here: Receiving) -> None:
    """An early step of no convention has left before; that makes nothing late."""
    here.take(span(5, 1, kind="", **LOCAL))
    assert here.after(7) == []
    here.take(retrieval(2, 1), model(3, 1), span(1, kind="") | {"times": (1, 9)})
    (found,) = here.after(7)
    assert found.target is not None
    assert found.target.span_id == (1).to_bytes(8, "big").hex()


def test_our_own_spans_are_not_taken(here: Receiving) -> None:
    """A receiver whose exporter points at itself goes in no circle."""
    here.take(*(each | {"scope": "ragmonitor"} for each in answer()))
    assert here.after(121) == []
    here.receiver.close()
    assert here.counted("ragmonitor_received_spans_total", outcome="own") == 3


def test_the_answer_to_a_golden_question_is_no_traffic(here: Receiving) -> None:
    """Where the application copies the mark of its baggage into a span."""
    marked = root()
    marked["attributes"][PROBE_BAGGAGE] = "g1"
    here.take(retrieval(), model(), marked)
    assert here.after(7) == []
    here.receiver.close()
    assert here.counted("ragmonitor_dropped_total", reason="probe") == 1


def _runs() -> int:
    return sum(isinstance(each, Run) for each in gc.get_objects())


@pytest.mark.parametrize("is_probe", [True, False])
def test_an_answer_that_is_not_taken_does_not_wait_for_the_garbage_collector(
    here: Receiving, monkeypatch: pytest.MonkeyPatch, is_probe: bool
) -> None:
    """A golden question's, and one for which the queue has no room: their texts are let go of."""
    monkeypatch.setattr(here.receiver.back.queue, "put", lambda _: False)
    marked = root()
    if is_probe:
        marked["attributes"][PROBE_BAGGAGE] = "g1"
    gc.collect()
    gc.disable()
    try:
        before = _runs()
        here.take(retrieval(), model(), marked)
        assert here.after(7) == []
        assert _runs() == before
    finally:
        gc.enable()


def test_one_trace_holds_so_many_spans(here: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    """More is given up, with what comes later; its memory is free again."""
    monkeypatch.setattr(open_traces, "MAX_SPANS_OF_TRACE", 10)
    here.take(*(span(n, 1) for n in range(2, 20)))
    assert len(here.receiver.traces) == 0
    assert here.receiver.traces.size_bytes == 0
    here.take(*answer())
    assert here.after(121) == []
    here.receiver.close()
    assert here.counted("ragmonitor_received_traces_total", outcome="too_large") == 1
    assert here.counted("ragmonitor_received_spans_total", outcome="late") == 10


def test_a_trace_that_never_gets_quiet_ends_by_its_age() -> None:
    """Its answer is handed over after `capture.open_run_age_s`."""
    with receiving(listens=False, capture={"open_run_age_s": 60.0}) as here:
        here.take(*answer())
        for n in range(100, 112):
            here.take(span(n, 1, kind=""))
            found = here.after(5)
        assert len(found) == 1


def test_what_has_left_is_forgotten_in_the_end(
    here: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of ids is bounded."""
    monkeypatch.setattr(open_traces, "MAX_REMEMBERED_SPANS", 30)
    for trace in range(1, 50):
        here.take(*answer(trace=trace))
    assert len(here.after(7)) == 49
    here.take(*answer(trace=49), *answer(trace=1))
    here.after(7)
    here.receiver.close()
    assert here.counted("ragmonitor_interactions_total") == 50


def test_one_broken_trace_costs_only_itself(
    here: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted, and the next one is read."""
    whole = receiver.assembled

    def breaks(held, *rest, **options):
        if len(held) == 1:
            raise ValueError("a fault")
        return whole(held, *rest, **options)

    monkeypatch.setattr(receiver, "assembled", breaks)
    here.take(root(trace=2))
    here.take(*answer())
    assert len(here.after(7)) == 1
    here.receiver.close()
    assert here.counted("ragmonitor_received_traces_total", outcome="unreadable") == 1
    assert here.counted("ragmonitor_dropped_total", reason="unreadable") == 1
