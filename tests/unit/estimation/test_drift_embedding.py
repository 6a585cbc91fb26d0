"""An embedding of the user's own: never waited for, and allowed to fail."""

import os
import threading
import time
import zlib

import pytest

from ragmonitor.estimation.drift import InputDrift
from ragmonitor.estimation.drift.embedding_queue import MAX_WAITING
from ragmonitor.estimation.signals import EMPTY_RETRIEVAL, NEW_QUESTION
from ragmonitor.guard import errors
from tests.support.questions import ASKED, UNASKED, complete, interaction, questions
from tests.support.waiting import until

SIZE = 200
SUBJECTS = ("return", "delivered", "pay", "why", "退换", "orbits", "composed")


def by_subject(texts):
    """Embed by what a text is about, and a little by its length and its words."""
    return [
        [float(subject in text.casefold()) for subject in SUBJECTS]
        + [len(text) / 1_000, zlib.crc32(text.encode()) % 1_000 / 100_000]
        for text in texts
    ]


class Gate:
    """An embedding that waits until it is let through."""

    def __init__(self):
        self.opened = threading.Event()
        self.calls = []

    def __call__(self, texts):
        self.calls.append(len(texts))
        self.opened.wait(30)
        return by_subject(texts)


@pytest.fixture
def watch():
    """Return a factory of drifts whose threads end with the test."""
    made = []

    def build(embed, **options):
        made.append(
            InputDrift(**{"size": SIZE, "embed": embed, "embedding": "subjects@1", **options})
        )
        return made[-1]

    yield build
    for drift in made:
        drift.close()


def threads():
    return [t for t in threading.enumerate() if t.name == "ragmonitor-call"]


def observe(drift, asked, name="a"):
    for at, query in enumerate(asked):
        drift.observe(interaction(query, id_=f"{name}-{at}"), at_s=at)


def test_there_is_no_thread_before_the_first_question(watch):
    """Building one costs nothing."""
    drift = watch(by_subject)
    drift.take()
    assert not threads()


def test_closing_waits_for_the_call_under_way(watch):
    """No thread of ours outlives the monitor."""
    drift = watch(by_subject)
    observe(drift, ["Where is my parcel?"])
    drift.close()
    until("the thread has ended", lambda: not threads())
    assert len(drift.take()) == 1


def test_nothing_that_it_raises_ends_the_thread(watch):
    """What is no `Exception` costs one call, as an error does."""
    raised = []

    def embed(texts):
        if not raised:
            raised.append(texts)
            raise SystemExit
        return by_subject(texts)

    drift = watch(embed)
    observe(drift, ["Where is my parcel?"])
    assert complete(drift)
    observe(drift, ["Why?"], name="b")
    assert complete(drift)
    assert len(drift.take()) == 2


def test_a_system_without_threads_is_asked_again(watch, monkeypatch):
    """The question waits, and comes with the next one."""
    drift = watch(by_subject)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", _refuse)
        observe(drift, ["Where is my parcel?"])
    assert not threads()
    observe(drift, ["Why?"], name="b")
    assert complete(drift)
    assert len(drift.take()) == 2


def _refuse(_thread):
    raise RuntimeError("can't start new thread")


def test_observing_does_not_wait_for_the_embedding(watch):
    """Outcomes come once it has answered, each with its own time."""
    gate = Gate()
    drift = watch(gate)
    began = time.monotonic()
    observe(drift, ["Where is my parcel?", "Why?"])
    assert drift.take() == []
    assert time.monotonic() - began < 5
    gate.opened.set()
    assert complete(drift)
    assert [observed.at_s for observed in drift.take()] == [0, 1]


def test_questions_are_embedded_in_batches(watch):
    """What has waited goes in one call."""
    gate = Gate()
    drift = watch(gate)
    observe(drift, ["Where is my parcel?"])
    until("the first call", lambda: gate.calls)
    observe(drift, ["Why?"] * 50)
    gate.opened.set()
    assert complete(drift)
    assert gate.calls == [1, 50]


def test_its_distances_tell_new_questions(watch):
    """Texts without a word in common, known by what the embedding says of them."""
    drift = watch(by_subject)
    observe(drift, questions(ASKED, SIZE, seed=1))
    assert complete(drift)
    drift.take()
    for templates, novel in ((ASKED, 0.0), (UNASKED, 1.0)):
        observe(drift, questions(templates, 100, seed=2), str(novel))
        assert complete(drift)
        told = [observed.outcomes[NEW_QUESTION] for observed in drift.take()]
        assert sum(told) / len(told) == pytest.approx(novel, abs=0.05)


def test_a_topic_is_known_once_its_embedding_is(watch):
    """Before, it is nobody's."""
    drift = watch(by_subject)
    observe(drift, questions(ASKED, SIZE, seed=1))
    assert complete(drift)
    asked = interaction("Can I pay cash?", id_="t")
    assert drift.topic(asked) == ""
    drift.observe(asked, at_s=1)
    assert complete(drift)
    assert drift.topic(asked).startswith("topic-")


def failing(_):
    raise ConnectionError("the provider is down")


@pytest.mark.parametrize(
    "embed",
    [
        failing,
        lambda texts: [[1.0]] * (len(texts) - 1),
        lambda texts: [[0.0, 0.0]] * len(texts),
        lambda texts: [[float("nan"), 1.0]] * len(texts),
        lambda texts: [[float("inf"), 1.0]] * len(texts),
        lambda texts: ["a vector?"] * len(texts),
        lambda _: None,
    ],
    ids=["raises", "too few", "no direction", "nan", "inf", "no numbers", "nothing"],
)
def test_a_failure_is_counted_and_the_rest_is_told(watch, embed):
    """The retrieval was empty or not, whatever the embedding did."""
    before = errors["drift"]
    drift = watch(embed)
    observe(drift, ["Where is my parcel?", "Why?"])
    assert complete(drift)
    assert [o.outcomes for o in drift.take()] == [{EMPTY_RETRIEVAL: False}] * 2
    assert errors["drift"] > before


def test_vectors_of_another_length_are_counted_and_not_compared(watch):
    """An embedding that changed under its name breaks nothing."""
    dimensions = [8]
    drift = watch(lambda texts: [v[: dimensions[0]] for v in by_subject(texts)])
    observe(drift, questions(ASKED, SIZE, seed=1))
    assert complete(drift)
    drift.take()
    dimensions[0] = 3
    before = errors["drift"]
    observe(drift, ["How do I return shoes?"])
    assert complete(drift)
    (observed,) = drift.take()
    assert NEW_QUESTION not in observed.outcomes
    assert errors["drift"] == before + 1


def test_what_finds_no_room_is_dropped_and_counted(watch):
    """The queue is bounded; the retrieval is told all the same."""
    gate = Gate()
    drift = watch(gate)
    observe(drift, ["Where?"])
    until("the first call", lambda: gate.calls)
    before = errors["drift"]
    observe(drift, ["Why?"] * (MAX_WAITING + 3), "b")
    assert errors["drift"] == before + 3
    assert len(drift.take()) == 3
    gate.opened.set()


def test_a_forked_child_embeds_with_a_thread_of_its_own(watch):
    """The parent's does not run there, and what waited in the parent stays the parent's."""
    gate = Gate()
    drift = watch(gate)
    observe(drift, ["Where is my parcel?"])
    child = os.fork()
    if child == 0:  # pragma: no cover - its outcome is its exit status
        try:
            drift.clear()
            gate.opened = threading.Event()
            gate.opened.set()
            observe(drift, ["Why?"])
            ok = complete(drift) and len(drift.take()) == 1
            os._exit(0 if ok else 1)
        finally:
            os._exit(2)
    gate.opened.set()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert complete(drift)
    assert len(drift.take()) == 1


@pytest.mark.parametrize("question", ["Where is my parcel? " * 50_000, " " * 1_000_000 + "Where?"])
def test_of_a_question_of_a_megabyte_the_beginning_is_embedded(watch, question):
    """A thousand of them may wait, and models take no more."""
    lengths = []

    def embed(texts):
        lengths.extend(map(len, texts))
        return by_subject(texts)

    observe(watch(embed), [question])
    until("it is embedded", lambda: lengths)
    assert lengths == [min(8_000, len(question.strip()))]
