"""Runs that stop half-way: they wait for a person, are given up, or are cancelled."""

import asyncio

import pytest

from ragmonitor.capture.recorder import Recorder
from tests.support.plain_framework import Plain


@pytest.fixture
def handed():
    return []


@pytest.fixture
def recorder(handed):
    return Recorder(Plain(), handed.append, retrieval_tools=["search_*"])


def retrieve(recorder, root, text="Blue sky."):
    recorder.started(f"{root}/s", root, "retriever", "search", "Why?")
    recorder.ended(f"{root}/s", [text])


def ask(recorder, root, answer="The sky is blue.", name="m"):
    recorder.started(f"{root}/{name}", root, "model", "llm", ["Blue sky."])
    recorder.ended(f"{root}/{name}", answer)


def wait(recorder, root="r", thread="t"):
    recorder.started(root, None, "chain", "graph", "Why?", thread=thread)
    retrieve(recorder, root)
    recorder.started(f"{root}/step", root, "chain", "")
    recorder.interrupted(f"{root}/step")
    recorder.ended(root)


def test_a_root_whose_step_was_interrupted_waits_on_its_thread(recorder, handed):
    """Nothing is handed over until it goes on, and then once."""
    wait(recorder)
    assert (handed, len(recorder)) == ([], 1)
    recorder.started("r2", None, "chain", "graph", thread="t", resumes="t")
    ask(recorder, "r2")
    recorder.ended("r2", "The sky is blue.")
    (finished,) = handed
    found = finished.interaction()
    assert (found.query, found.answer, len(found.chunks)) == ("Why?", "The sky is blue.", 1)
    assert len(recorder) == 0


def test_a_thread_that_is_asked_anew_gives_up_what_waited(recorder, handed):
    """It is partial, with what was retrieved, and without an answer."""
    wait(recorder)
    recorder.started("r2", None, "chain", "graph", "How?", thread="t")
    (finished,) = handed
    found = finished.interaction()
    assert (found.query, found.status, found.answer) == ("Why?", "partial", "")
    recorder.ended("r2")


def test_a_root_that_asked_nobody_may_go_on(recorder, handed):
    """A breakpoint is not told: something was retrieved, and no model asked since."""
    recorder.started("r", None, "chain", "graph", "Why?", thread="t")
    retrieve(recorder, "r")
    recorder.ended("r")
    recorder.started("r2", None, "chain", "graph", thread="t", resumes="t")
    ask(recorder, "r2")
    recorder.ended("r2", "The sky is blue.")
    assert [f.interaction().query for f in handed] == ["Why?"]


def test_too_many_that_are_paused_give_up_the_oldest(handed, monkeypatch):
    """It is handed over as partial, and counted."""
    monkeypatch.setattr("ragmonitor.capture.recorder.MAX_PAUSED", 50)
    forgotten = []
    recorder = Recorder(Plain(), handed.append, on_forgotten=forgotten.append)
    for n in range(51):
        wait(recorder, f"r{n}", thread=f"t{n}")
    assert [f.status for f in handed] == ["partial"]
    assert forgotten == ["too_many_open"]


def test_a_chosen_run_that_waits_goes_on_under_its_thread(recorder, handed):
    """Below another root, whose own pause holds nothing of it."""
    for root, resumes in (("r", None), ("r2", "t")):
        recorder.started(root, None, "chain", "outer", "Why?", thread="t", resumes=resumes)
        inner = f"{root}/inner"
        recorder.started(inner, root, "chain", "rag", "Why?", picked=True, thread="t|rag")
        if resumes is None:
            retrieve(recorder, inner)
            recorder.interrupted(inner)
        else:
            ask(recorder, inner)
            recorder.ended(inner, "The sky is blue.")
        recorder.ended(root)
    (finished,) = handed
    found = finished.interaction()
    assert (found.name, found.answer, len(found.chunks)) == ("rag", "The sky is blue.", 1)
    assert len(recorder) == 0


def test_a_model_that_another_one_replaced_cuts_nothing_short(recorder, handed):
    """It was given up for its time, and never ends; the answer is whole."""
    recorder.started("r", None, "chain", "qa", "Why?")
    retrieve(recorder, "r")
    recorder.started("r/slow", "r", "model", "llm")
    ask(recorder, "r")
    recorder.ended("r", "The sky is blue.")
    assert [f.status for f in handed] == ["ok"]


def test_a_tool_s_text_that_a_run_beside_it_gave_is_not_retrieved(recorder, handed):
    """LangGraph starts what a tool calls beside the tool: the text is known already."""
    recorder.started("r", None, "chain", "agent", "Why?")
    recorder.started("r/t", "r", "tool", "search_notes", "sky")
    retrieve(recorder, "r")
    ask(recorder, "r", "It is blue.")
    recorder.ended("r/t", "It is blue.")
    ask(recorder, "r", "The sky is blue.", name="m2")
    recorder.ended("r", "The sky is blue.")
    (finished,) = handed
    assert [c.text for r in finished.interaction().retrievals for c in r.chunks] == ["Blue sky."]


def test_a_rewritten_question_in_a_tool_s_text_is_not_what_it_gave(recorder, handed):
    """A tool may ask a model how to search, and find texts in which that stands."""
    recorder.started("r", None, "chain", "agent", "Why?")
    recorder.started("r/t", "r", "tool", "search_web", "sky")
    ask(recorder, "r", "sky")
    recorder.ended("r/t", "The sky scatters blue light.")
    ask(recorder, "r", "The sky is blue.", name="m2")
    recorder.ended("r", "The sky is blue.")
    (finished,) = handed
    assert [r.name for r in finished.interaction().retrievals] == ["search_web"]


@pytest.mark.parametrize(
    ("failure", "status"),
    [(RuntimeError("no such model"), "error"), (asyncio.CancelledError(), "cancelled")],
)
def test_a_step_s_words_are_not_the_answer_of_what_failed(recorder, handed, failure, status):
    """What a tool's own model said, before the model that was to answer failed, no user saw."""
    recorder.started("r", None, "chain", "agent", "Why?")
    retrieve(recorder, "r")
    ask(recorder, "r", "It says so there.", name="step")
    recorder.started("r/m", "r", "model", "llm", ["Blue sky."])
    recorder.failed("r/m", failure)
    recorder.failed("r", failure)
    (finished,) = handed
    found = finished.interaction()
    assert (found.status, found.answer) == (status, "")


def test_a_step_s_words_are_not_the_answer_where_the_last_model_failed(recorder, handed):
    """An application that catches the failure, and gives nothing, has not answered."""
    recorder.started("r", None, "chain", "graph", "Why?")
    ask(recorder, "r", "1. Why is it blue?", name="plan")
    retrieve(recorder, "r")
    recorder.started("r/m", "r", "model", "llm", ["Blue sky."])
    recorder.failed("r/m", RuntimeError("no such model"))
    recorder.ended("r", "")
    (finished,) = handed
    found = finished.interaction()
    assert (found.status, found.answer) == ("ok", "")
