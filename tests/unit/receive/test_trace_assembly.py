"""Traces that come in pieces: late, twice, without a root, from several processes and clocks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragmonitor.receive import open_traces, receiver
from ragmonitor.semconv.conventions import PROBE_BAGGAGE
from tests.support.receiving import (
    ANSWER,
    QUESTION,
    TEXT,
    Receiving,
    answer,
    model,
    receiving,
    retrieval,
    root,
    span,
)


@pytest.fixture
def here() -> Iterator[Receiving]:
    with receiving(listens=False) as made:
        yield made


def test_a_trace_whose_root_never_comes_is_read_all_the_same(here: Receiving) -> None:
    """What is below the missing span belongs together; the scores are linked to that span."""
    here.take(retrieval(), model())
    assert here.after(100) == []
    (found,) = here.after(21)
    assert (found.query, found.answer, found.chunks[0].text) == (QUESTION, ANSWER, TEXT)
    assert found.target is not None
    assert found.target.span_id == (1).to_bytes(8, "big").hex()


def test_half_an_answer_waits_for_the_other_process(here: Receiving) -> None:
    """The process that retrieves sends at once, the one that asks the model a minute later."""
    here.take(retrieval(5, 4), **{"service.name": "search"})
    assert here.after(60) == []
    here.take(span(4, 1, kind=""), model(3, 1), root(1))
    (found,) = here.after(7)
    assert [chunk.text for chunk in found.chunks] == [TEXT]
    assert found.answer == ANSWER


def test_turns_of_one_session_are_answers_of_their_own(here: Receiving) -> None:
    """A root that stays open for long: its turns are handed over, and its late end adds none."""
    here.take(retrieval(3, 2), model(4, 2), root(2, 1))
    assert len(here.after(121)) == 1
    here.take(retrieval(13, 12), model(14, 12), root(12, 1))
    assert len(here.after(121)) == 2
    here.take(root(1))
    assert len(here.after(121)) == 2


def test_what_comes_twice_is_taken_once(here: Receiving) -> None:
    """Before it was read, and after."""
    here.take(*answer(), *answer())
    assert len(here.after(7)) == 1
    here.take(*answer())
    assert len(here.after(121)) == 1
    here.receiver.close()
    assert here.counted("ragmonitor_received_total", what="spans", outcome="duplicate") == 6


def test_spans_that_enclose_themselves_are_left_out(here: Receiving) -> None:
    """A ring of parents, a span that is its own, and what is below them."""
    here.take(span(21, 22), span(22, 21), span(23, 23), retrieval(24, 23), *answer())
    assert len(here.after(121)) == 1


def test_the_answer_to_a_golden_question_is_no_traffic(here: Receiving) -> None:
    """Where the application copies the mark of its baggage into a span."""
    marked = root()
    marked["attributes"][PROBE_BAGGAGE] = "g1"
    here.take(retrieval(), model(), marked)
    assert here.after(7) == []
    here.receiver.close()
    assert here.counted("ragmonitor_dropped_total", reason="probe") == 1


def test_one_trace_holds_so_many_spans(here: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    """More is given up, with what comes later; its memory is free again."""
    monkeypatch.setattr(open_traces, "MAX_SPANS_OF_TRACE", 10)
    here.take(*(span(n, 1) for n in range(2, 20)))
    assert len(here.receiver.traces) == 0
    assert here.receiver.traces.size_bytes == 0
    here.take(*answer())
    assert here.after(121) == []
    here.receiver.close()
    assert here.counted("ragmonitor_received_total", what="traces", outcome="too_large") == 1
    assert here.counted("ragmonitor_received_total", what="spans", outcome="late") == 10


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
    assert here.counted("ragmonitor_received_total", what="traces", outcome="unreadable") == 1
    assert here.counted("ragmonitor_dropped_total", reason="unreadable") == 1


def test_our_own_spans_are_not_taken(here: Receiving) -> None:
    """A receiver whose exporter points at itself goes in no circle."""
    here.take(*(each | {"scope": "ragmonitor"} for each in answer()))
    assert here.after(121) == []
    here.receiver.close()
    assert here.counted("ragmonitor_received_total", what="spans", outcome="own") == 3
