"""Joining events by run id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.capture.recorder import Recorder
from ragmonitor.runtime import guard
from tests.support.plain_framework import Plain


@pytest.fixture
def handed():
    return []


@pytest.fixture
def recorder(handed):
    return Recorder(Plain(), handed.append)


def tell(recorder, root="r", *, answer="The sky is blue.", chunks=("Blue sky.",)):
    recorder.started(root, None, "chain", "qa", "Why?")
    recorder.started(f"{root}/s", root, "retriever", "search", "Why?")
    recorder.ended(f"{root}/s", list(chunks))
    recorder.started(f"{root}/m", root, "model", "llm")
    recorder.ended(f"{root}/m", answer)
    recorder.ended(root, answer)


def test_a_second_start_or_end_changes_nothing(recorder, handed):
    """Two handlers on one run count once."""
    recorder.started("r", None, "chain", "qa", "Why?")
    recorder.started("r", None, "chain", "qa", "Other?")
    recorder.started("s", "r", "retriever", "search")
    recorder.ended("s", ["c"])
    recorder.ended("s", ["d"])
    recorder.started("m", "r", "model", "llm")
    recorder.ended("m", "a")
    recorder.ended("r")
    recorder.ended("r")
    (finished,) = handed
    assert finished.interaction().query == "Why?"
    assert [c.text for c in finished.interaction().chunks] == ["c"]


def test_chunks_of_one_document_are_kept_apart_by_their_text(recorder, handed):
    """The same chunk from two searches counts once; the same id with another text does not."""
    recorder.started("r", None, "chain", "qa")
    for n, texts in enumerate((["a", "b"], ["b", "c"])):
        recorder.started(f"s{n}", "r", "retriever", "search")
        recorder.ended(f"s{n}", texts)
    recorder.started("m", "r", "model", "llm")
    recorder.ended("m", "x")
    recorder.ended("r")
    assert [c.text for c in handed[0].interaction().chunks] == ["a", "b", "c"]


def test_a_given_that_comes_at_the_end_is_taken(recorder, handed):
    """Streaming runs learn their input when they end."""
    recorder.started("r", None, "chain", "qa", "")
    recorder.started("s", "r", "retriever", "search")
    recorder.ended("s", [])
    recorder.started("m", "r", "model", "llm")
    recorder.ended("m", "a")
    recorder.ended("r", "a", inputs="Why so late?")
    assert handed[0].interaction().query == "Why so late?"


def test_an_abandoned_run_is_given_up_as_partial(handed, monkeypatch):
    """A stream nobody reads to its end leaves the table and is handed over."""
    monkeypatch.setattr("ragmonitor.capture.recorder.OPEN_RUN_AGE_S", 0.0)
    forgotten = []
    recorder = Recorder(Plain(), handed.append, on_forgotten=forgotten.append)
    recorder.started("r", None, "chain", "qa", "Why?")
    recorder.started("s", "r", "retriever", "search")
    recorder.ended("s", ["c"])
    recorder.started("m", "r", "model", "llm")
    recorder.sweep()
    assert handed[0].interaction().status == "partial"
    assert len(recorder) == 0
    assert forgotten == ["aged_out"]


def test_open_runs_are_bounded(recorder, monkeypatch):
    """The oldest make room."""
    monkeypatch.setattr("ragmonitor.capture.recorder.MAX_OPEN_RUNS", 10)
    for n in range(1_000):
        recorder.started(n, None, "chain", "never ended")
    assert len(recorder) <= 10


def test_what_a_tool_retrieved_is_a_retrieval(recorder, handed):
    """A tool that searches a store by itself gives chunks; another one gives none."""
    recorder.started("r", None, "chain", "agent", "Why?")
    recorder.started("t", "r", "tool", "search", "Why?")
    recorder.ended("t", ["from a tool"])
    recorder.started("u", "r", "tool", "clock")
    recorder.ended("u", None)
    recorder.started("m", "r", "model", "llm")
    recorder.ended("m", "a")
    recorder.ended("r", "a")
    found = handed[0].interaction()
    assert [(r.name, [c.text for c in r.chunks]) for r in found.retrievals] == [
        ("search", ["from a tool"])
    ]


events = st.lists(
    st.tuples(
        st.sampled_from(["start", "end", "fail", "piece"]),
        st.integers(0, 8),
        st.one_of(st.none(), st.integers(0, 8)),
        st.sampled_from(["chain", "retriever", "model", "tool"]),
    ),
    max_size=80,
)


@given(events)
def test_no_order_of_events_breaks_it(told):
    """Any nonsense of starts and ends: no error, no leak beyond what is open, roots once."""
    handed = []
    before = guard.errors["capture"]
    recorder = Recorder(Plain(), handed.append)
    for what, run, parent, kind in told:
        if what == "start":
            recorder.started(run, parent, kind, "n", "q")
        elif what == "end":
            recorder.ended(run, "x")
        elif what == "fail":
            recorder.failed(run, ValueError("x"))
        else:
            recorder.piece(run, "x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragmonitor.capture.recorder.OPEN_RUN_AGE_S", 0.0)
        recorder.sweep()
        recorder.sweep()
    assert len(recorder) == 0
    assert guard.errors["capture"] == before
    for finished in handed:
        assert finished.interaction() is not None


@pytest.mark.parametrize("kind", ["retriever", "model", "tool", "chain"])
def test_the_children_of_one_root_are_bounded_too(handed, kind, monkeypatch):
    """What makes room is counted, and its interaction incomplete."""
    monkeypatch.setattr("ragmonitor.capture.recorder.MAX_OPEN_RUNS", 100)
    forgotten = []
    recorder = Recorder(Plain(), handed.append, on_forgotten=forgotten.append)
    recorder.started("r", None, "chain", "qa", "Why?")
    recorder.started("s", "r", "retriever", "search", "Why?")
    recorder.ended("s", ["Blue sky."])
    recorder.started("m", "r", "model", "llm")
    recorder.ended("m", "It scatters.")
    for n in range(1_000):
        recorder.started(n, "r", kind, "never ended")
        assert len(recorder) <= 100
    recorder.ended("r", "It scatters.")
    assert set(forgotten) == {"too_many_open"}
    assert len(handed) == 1
    found = handed[0].interaction()
    assert found.status == "partial" or found.capture_incomplete


def test_the_members_of_one_root_are_bounded(handed, monkeypatch):
    """Those that have ended as well: an endless agent is handed over as incomplete."""
    monkeypatch.setattr("ragmonitor.capture.recorder.MAX_MEMBERS", 20)
    forgotten = []
    recorder = Recorder(Plain(), handed.append, on_forgotten=forgotten.append)
    recorder.started("r", None, "chain", "qa", "Why?")
    recorder.started("s", "r", "retriever", "search", "Why?")
    recorder.ended("s", ["Blue sky."])
    for n in range(100):
        recorder.started(n, "r", "model", "llm")
        recorder.ended(n, "It scatters.")
    recorder.ended("r", "It scatters.")
    (found,) = (each.interaction() for each in handed)
    assert len(found.generations) == 19
    assert found.capture_incomplete
    assert forgotten == ["too_many_open"] * 81
    assert len(recorder) == 0


@pytest.mark.parametrize(
    "method", ["query", "chunks", "shown", "prompt", "answer", "model", "usage", "labels"]
)
def test_a_fault_in_translating_costs_one_text(handed, method):
    """It is counted, and the interaction goes out as incomplete with all the rest."""

    class Faulty(Plain):
        pass

    def fails(*_given):
        raise RecursionError

    setattr(Faulty, method, fails)
    before = guard.errors["capture"]
    tell(Recorder(Faulty(), handed.append))
    found = handed[0].interaction()
    assert guard.errors["capture"] > before
    assert found.capture_incomplete
    assert found.answer == "The sky is blue." or method == "answer"


def test_models_without_any_retrieval_are_said_once(recorder, handed, caplog):
    """After a hundred roots, with the remedy."""
    for number in range(250):
        recorder.started(number, None, "chain", "qa", "Why?")
        recorder.started((number, "m"), number, "model", "llm")
        recorder.ended((number, "m"), "Because.")
        recorder.ended(number, "Because.")
    (record,) = caplog.records
    assert "@monitor.retrieves" in record.getMessage()
    assert handed == []
