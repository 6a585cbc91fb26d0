"""Framework runs within a block of plain code."""

import contextlib
import threading
from contextvars import copy_context

import pytest

from ragmonitor.capture.plain import MAX_PARTS, InteractionRecorder, StreamedAnswer
from ragmonitor.capture.recorder import Recorder
from ragmonitor.records import Chunk
from tests.support.plain_framework import Plain


@pytest.fixture
def handed():
    return []


@pytest.fixture
def take(handed):
    """One hand-over for both, as a monitor has."""
    return handed.append


@pytest.fixture
def recorder(take):
    return Recorder(Plain(), take)


def retrieve(recorder, key="s", chunks=("Blue sky.", "Red earth.")):
    recorder.started(key, None, "retriever", "search", "Why?")
    recorder.ended(key, list(chunks))


def ask(recorder, key="m", answer="It scatters.", prompt="Use: Blue sky."):
    recorder.started(key, None, "model", "llm", [prompt])
    recorder.ended(key, answer)


def test_what_a_part_names_goes_before_the_prompts(take, handed, recorder, monkeypatch):
    """A result that names what the model saw knows the scores that it was chosen by."""
    named = (Chunk(text="Blue sky.", score=9.0),)
    monkeypatch.setattr(Plain, "shown", lambda _, root: named if root.kind == "chain" else None)
    with InteractionRecorder(take, query="Why?"):
        retrieve(recorder)
        recorder.started("c", None, "chain", "synthesizer", "Why?")
        recorder.ended("c", "It scatters.")
        ask(recorder, prompt="Use: Blue sky. Red earth.")
    found = handed[0].interaction()
    assert [(c.text, c.score) for c in found.chunks] == [("Blue sky.", 9.0), ("Red earth.", None)]


def test_within_a_block_nothing_is_an_interaction_of_its_own(take, handed):
    """The block is what its code says it is, whatever else is chosen."""
    recorder = Recorder(Plain(), take)
    with InteractionRecorder(take, query="Why?"):
        recorder.started("o", None, "chain", "agent", "other words")
        recorder.started("i", "o", "chain", "engine", "other words")
        recorder.started("s", "i", "retriever", "search")
        recorder.ended("s", ["Blue sky."])
        recorder.started("m", "i", "model", "llm", ["Use: Blue sky."])
        recorder.ended("m", "It scatters.")
        recorder.ended("i", "It scatters.")
        recorder.ended("o", "It scatters.")
    (finished,) = handed
    assert finished.interaction().query == "Why?"
    assert len(recorder) == 0


def test_a_part_that_fails_and_is_answered_otherwise_is_no_error(take, handed, recorder):
    """The application caught it and asked another model."""
    with InteractionRecorder(take, query="Why?"):
        retrieve(recorder)
        recorder.started("m", None, "model", "llm")
        recorder.failed("m", TimeoutError("slow"))
        ask(recorder, "m2")
    (finished,) = handed
    assert finished.status == "ok"
    assert finished.interaction().answer == "It scatters."
    assert finished.interaction().generations[0].error == "TimeoutError: slow"


@pytest.mark.parametrize("leaves", [False, True], ids=["caught", "leaves the block"])
def test_what_was_said_before_the_retrieval_is_no_answer(take, handed, recorder, leaves):
    """Where its last model call fails, an application has given no answer that is known."""
    failure = RuntimeError("no such model")
    caught = contextlib.suppress(RuntimeError)
    with caught, InteractionRecorder(take, query="Why?"):
        ask(recorder, key="plan", answer="1. Why is it blue?")
        retrieve(recorder)
        recorder.started("m", None, "model", "llm", ["Use: Blue sky."])
        recorder.failed("m", failure)
        if leaves:
            raise failure
    (finished,) = handed
    found = finished.interaction()
    assert (found.status, found.answer) == ("error", "")
    assert found.error == "RuntimeError: no such model"


def test_a_failure_after_the_answer_changes_nothing(take, handed, recorder):
    """A call that names the conversation, for one, which the application does without."""
    with InteractionRecorder(take, query="Why?"):
        retrieve(recorder)
        ask(recorder)
        recorder.started("title", None, "model", "llm", ["A title?"])
        recorder.failed("title", RuntimeError("no such model"))
    (finished,) = handed
    found = finished.interaction()
    assert (found.status, found.answer) == ("ok", "It scatters.")


def test_a_partial_last_part_is_a_partial_answer(take, handed, recorder):
    """The stream was closed early."""
    with InteractionRecorder(take, query="Why?"):
        retrieve(recorder)
        recorder.started("m", None, "model", "llm")
        recorder.piece("m", "It sc")
        recorder.failed("m", GeneratorExit())
    (finished,) = handed
    assert (finished.status, finished.interaction().answer) == ("partial", "It sc")


def test_a_part_whose_open_model_did_not_answer_is_no_partial_answer(take, handed, recorder):
    """It names the conversation; the part's answer is that of a model which had ended."""
    with InteractionRecorder(take, query="Why?"):
        recorder.started("r", None, "chain", "qa")
        recorder.started("r/s", "r", "retriever", "search")
        recorder.ended("r/s", ["Blue sky."])
        recorder.started("r/m", "r", "model", "llm")
        recorder.ended("r/m", "It scatters.")
        recorder.started("r/title", "r", "model", "llm")
        recorder.piece("r/title", "Sky")
        recorder.ended("r", "It scatters.")
    found = handed[0].interaction()
    assert (found.status, found.answer) == ("ok", "It scatters.")


def test_a_block_keeps_so_many_parts_and_no_more(take, handed, recorder):
    """A job that runs for days within one block must not grow."""
    with InteractionRecorder(take, query="Why?"):
        for n in range(MAX_PARTS + 10):
            retrieve(recorder, n)
    assert len(handed[0].interaction().retrievals) == MAX_PARTS
    assert len(recorder) == 0


def test_a_stream_that_is_closed_while_a_piece_is_noted_raises_nothing(take, handed):
    """By another thread; the piece may be lost, and the reader goes on."""
    with InteractionRecorder(take, query="Why?") as i:

        def text(piece):
            answer.end()  # as the other thread does just now
            return piece

        answer = StreamedAnswer(i, text)
        answer.take("It ")
    assert handed[0].status == "partial"


def test_what_a_stream_runs_after_its_block_is_a_part(take, handed, recorder):
    """A generator that asks its model when it is read, as a web framework does."""

    def pieces():
        ask(recorder)
        yield "It scatters."

    with InteractionRecorder(take, query="Why?") as i:
        retrieve(recorder)
        stream = i.streamed(pieces())
    assert (list(stream), len(handed)) == (["It scatters."], 1)
    assert [g.output for g in handed[0].interaction().generations] == ["It scatters."]


def test_what_a_block_left_at_work_is_no_part_of_it_while_its_stream_waits(take, handed, recorder):
    """Another question, in a task that began in the block: its chunks are not the answer's."""
    with InteractionRecorder(take, query="Why?") as i:
        stream = i.streamed(iter(["It scatters."]))
        inside = copy_context()
    inside.run(retrieve, recorder)
    list(stream)
    assert handed[-1].interaction().retrievals == ()


def test_parts_that_end_together_hand_over_once(take, handed, recorder):
    """The last part and the block may end at the same moment in different threads."""
    for n in range(200):
        barrier = threading.Barrier(2)
        block = InteractionRecorder(take, query="Why?")
        block.enter()
        recorder.started(n, None, "model", "llm")
        inside = copy_context()
        block.exit()

        def end(n=n, barrier=barrier):
            barrier.wait()
            recorder.ended(n, "x")

        thread = threading.Thread(target=inside.run, args=(end,))
        thread.start()
        barrier.wait()
        block.end()
        thread.join()
    assert len(handed) == 200


class Stream:
    """A client's, which can be read in both ways."""

    def __init__(self):
        self._pieces = iter(["It ", "scatters."])

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._pieces)

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return next(self._pieces)
        except StopIteration:
            raise StopAsyncIteration from None


async def test_a_stream_is_read_in_the_way_that_the_application_says(take, handed):
    """Whatever else its class can do."""
    with InteractionRecorder(take, query="Why?") as i:
        assert "".join(i.streamed(Stream())) == "It scatters."
    with InteractionRecorder(take, query="Why?") as i:
        assert [piece async for piece in i.astreamed(Stream())] == ["It ", "scatters."]
    assert [each.interaction().answer for each in handed] == ["It scatters."] * 2
