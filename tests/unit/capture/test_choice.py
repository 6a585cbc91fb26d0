"""Which run is the interaction, and runs that pause."""

import pytest

from ragmonitor.capture.recorder import INTERACTION_TAG, Recorder
from ragmonitor.records import Usage
from tests.support.plain_framework import Plain


@pytest.fixture
def handed():
    return []


def build(handed, **options):
    return Recorder(Plain(), handed.append, **options)


def rag(recorder, under, *, name="inner", tags=(), key="i"):
    """Tell a chain below another that retrieves and asks."""
    picked = recorder.picks(name, tags, under)
    recorder.started(key, under, "chain", name, f"query {key}", picked=picked)
    recorder.started(f"{key}/s", key, "retriever", "search", f"query {key}")
    recorder.ended(f"{key}/s", [f"chunk {key}"])
    recorder.started(f"{key}/m", key, "model", "llm", [f"use chunk {key}"])
    recorder.ended(f"{key}/m", f"answer {key}")
    recorder.ended(key, f"answer {key}")


def test_what_a_chosen_run_took_is_not_counted_again(handed):
    """Tokens and chunks of the inner interaction are not the outer's."""
    recorder = build(handed)
    recorder.started("o", None, "chain", "app", "whole query")
    rag(recorder, "o", tags=[INTERACTION_TAG])
    recorder.started("s", "o", "retriever", "search")
    recorder.ended("s", ["own chunk"])
    recorder.started("m", "o", "model", "llm")
    recorder.ended("m", "own")
    recorder.ended("o", "whole answer")
    inner, outer = (f.interaction() for f in handed)
    assert [c.text for c in outer.chunks] == ["own chunk"]
    assert inner.usage == outer.usage == Usage(input_tokens=1, output_tokens=2)


def test_a_failure_between_retrieval_and_model_is_an_error(handed):
    """The user saw it; that no model was asked hides nothing."""
    recorder = build(handed)
    recorder.started("o", None, "chain", "workflow", "query")
    recorder.started("s", "o", "retriever", "search")
    recorder.ended("s", ["chunk"])
    recorder.failed("o", ValueError("step is broken"))
    (finished,) = handed
    assert finished.interaction().error == "ValueError: step is broken"


def test_a_run_that_never_goes_on_is_partial(handed, monkeypatch):
    """The user got no answer; a new question on the same thread says so too."""
    recorder = build(handed)
    for root in "ab":
        recorder.started(root, None, "chain", "graph", f"query {root}", thread="thread-1")
        recorder.started(f"{root}s", root, "retriever", "search")
        recorder.ended(f"{root}s", ["chunk"])
        recorder.started(f"{root}m", root, "model", "llm")
        recorder.ended(f"{root}m", "draft")
        recorder.interrupted(root)
    assert [f.status for f in handed] == ["partial"]
    monkeypatch.setattr("ragmonitor.capture.recorder.PAUSED_RUN_AGE_S", -1)
    recorder.sweep()
    assert [f.status for f in handed] == ["partial", "partial"]
    assert len(recorder) == 0


def test_a_tool_s_text_counts_where_no_retriever_ran(handed):
    """The text repeats the documents of a retriever that ran in the tool."""
    for inside, expected in ((False, ["page one"]), (True, ["chunk"])):
        handed.clear()
        recorder = build(handed)
        recorder.started("o", None, "chain", "agent", "query")
        recorder.started("t", "o", "tool", "search_docs", "x")
        if inside:
            recorder.started("s", "t", "retriever", "search")
            recorder.ended("s", ["chunk"])
        recorder.ended("t", "page one")
        recorder.started("m", "o", "model", "llm")
        recorder.ended("m", "answer")
        recorder.ended("o", "answer")
        assert [c.text for c in handed[0].interaction().chunks] == expected
