"""What was recorded is let go of as soon as it is scored: no cycle waits for a collection."""

from __future__ import annotations

import gc
import weakref

import pytest

from ragmonitor import Monitor
from ragmonitor.records import Cause
from tests.support.plain_framework import Plain
from tests.support.scripts import ROOT, run_python

APPLICATION = """
import gc, sys
sys.path.insert(0, {bench!r})
import applications
from ragmonitor import Monitor
from ragmonitor_{framework} import instrument
monitor = Monitor("cycles", server=False)
instrument(monitor)
for mode, run in applications.modes({framework!r}).items():
    run(50)
    assert monitor.flush(30)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    run(50)
    assert monitor.flush(30)
    gc.collect()
    ours = [o for o in gc.garbage if type(o).__module__.startswith("ragmonitor")]
    texts = [o for o in gc.garbage if type(o).__name__ in ("Document", "TextNode", "AIMessage")]
    print(mode, len(ours), len(texts))
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
"""


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["langchain", "llama_index"])
def test_no_record_is_left_to_the_garbage_collector(framework, tmp_path):
    """Plain calls, many at once, and streams: nothing of ours, and no text of the framework's."""
    script = APPLICATION.format(framework=framework, bench=str(ROOT / "tests" / "bench"))
    lines = run_python(script, tmp_path).splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.endswith(" 0 0"), line


class Texts(list):
    """What a retriever found; a reference to it can tell that it is gone."""


def answered(recorder, texts, *, models=True):
    """Report a root that retrieved the texts, and asked a model if it is to be an interaction."""
    recorder.started("r", None, "chain", "qa", "Why?")
    recorder.started("s", "r", "retriever", "search")
    recorder.ended("s", texts)
    if models:
        recorder.started("m", "r", "model", "llm")
        recorder.ended("m", "The sky is blue.")
    recorder.ended("r", "The sky is blue.")


def a_bare_retrieval(monitor, recorder):
    texts = Texts(["Blue sky."])
    answered(recorder, texts, models=False)
    return weakref.ref(texts)


def one_that_is_forgotten(monitor, recorder):
    texts = Texts(["Blue sky."])
    recorder.started("r", None, "chain", "qa", "Why?")
    recorder.started("s", "r", "retriever", "search")
    recorder.ended("s", texts)
    recorder.forget("r")
    return weakref.ref(texts)


def a_part_of_a_block(monitor, recorder):
    texts = Texts(["Blue sky."])
    with monitor.interaction(query="Why?"):
        answered(recorder, texts)
    assert monitor.flush(30)
    return weakref.ref(texts)


def one_that_was_resumed(monitor, recorder):
    texts = Texts(["Blue sky."])
    recorder.started("r", None, "chain", "qa", texts, thread="t")
    recorder.started("s", "r", "retriever", "search")
    recorder.ended("s", ["Blue sky."])
    recorder.interrupted("s")
    recorder.ended("r")
    recorder.started("r2", None, "chain", "qa", thread="t", resumes="t")
    recorder.started("m", "r2", "model", "llm")
    recorder.ended("m", "The sky is blue.")
    recorder.ended("r2", "The sky is blue.")
    assert monitor.flush(30)
    return weakref.ref(texts)


def one_that_is_refused(monitor, recorder):
    texts = Texts(["Blue sky."])
    monitor._back.put = lambda finished: monitor._back.ledger.refuse(finished, Cause.QUEUE_FULL)
    answered(recorder, texts)
    return weakref.ref(texts)


def a_block_that_is_refused(monitor, recorder):
    texts = Texts(["Blue sky."])
    monitor.close()
    with monitor.interaction(query="Why?"):
        answered(recorder, texts)
    return weakref.ref(texts)


@pytest.mark.parametrize("worker", ["thread", "process"])
@pytest.mark.parametrize(
    "use",
    [
        a_bare_retrieval,
        one_that_is_forgotten,
        a_part_of_a_block,
        one_that_was_resumed,
        one_that_is_refused,
        a_block_that_is_refused,
    ],
)
def test_what_is_not_read_is_let_go_of_at_once(use, worker):
    """No interaction, a part of one, or refused: its texts go without a collection."""
    with Monitor("cycles", server=False, worker=worker) as monitor:
        recorder = monitor.recorder(Plain())
        gc.collect()
        gc.disable()
        try:
            texts = use(monitor, recorder)
            assert texts() is None
        finally:
            gc.enable()
