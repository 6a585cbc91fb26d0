"""What is read piece by piece reaches the application as it was, and is noted as it is read."""

import asyncio
import functools
import gc
import inspect

import pytest

from ragmonitor import ExportSettings, Monitor, ServerSettings, current_interaction
from ragmonitor.testing import ListExporter


@pytest.fixture
def exporter():
    return ListExporter()


@pytest.fixture
def monitor(exporter):
    with Monitor(
        service="lazy",
        exporters=[exporter],
        server=ServerSettings(port=0),
        export=ExportSettings(traces=False),
    ) as monitor:
        yield monitor


@pytest.fixture
def told(monitor, exporter):
    def told():
        assert monitor.flush()
        return list(exporter.interactions())

    return told


def texts(interaction):
    return [chunk.text for chunk in interaction.chunks]


@pytest.mark.parametrize("made", [lambda pieces: pieces, iter, lambda pieces: map(str, pieces)])
def test_an_iterator_that_a_search_returns_is_handed_through_unread(monitor, told, made):
    """It is the application's to read; the interaction says that something is missing."""

    @monitor.retrieves
    def generator(query):
        yield "Blue sky."

    for search in (generator, monitor.retrieves(lambda query: made(["Blue sky."]))):
        with monitor.interaction(query="Why?") as i:
            assert [*search("Why?")] == ["Blue sky."]
            i.answered("It scatters.")
    incomplete = [found.capture_incomplete for found in told()]
    assert incomplete == [True, made(["a"]) != ["a"]]


def test_a_search_that_fails_is_a_retrieval_with_an_error(monitor, told):
    """The application sees its own exception."""

    @monitor.retrieves
    def search(query):
        raise KeyError("index")

    with monitor.interaction(query="Why?") as i:
        with pytest.raises(KeyError, match="index"):
            search("Why?")
        i.answered("It scatters.")
    (found,) = told()
    assert [r.error for r in found.retrievals] == ["KeyError: 'index'"]


def test_an_object_that_is_more_than_an_iterator_is_handed_through(monitor, told):
    """A cursor is measured and indexed; nothing stands in its place, and nothing is read of it."""

    class Cursor:
        def __init__(self):
            self.rows = iter(["Blue sky."])

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.rows)

        def __len__(self):
            return 1

    cursor = Cursor()
    search = monitor.retrieves(lambda query: cursor)
    with monitor.interaction(query="Why?") as i:
        assert search("Why?") is cursor
        assert list(cursor) == ["Blue sky."]
        i.answered("It scatters.")
    assert told()[0].capture_incomplete


# --- answers ------------------------------------------------------------------------------------


def test_a_generator_of_pieces_keeps_its_result(monitor, told):
    """The answer is what it gave, and the interaction ends with it."""

    @monitor.answers
    def ask(question):
        yield "It "
        yield "scatters."
        return 7

    stream = ask("Why?")
    assert [next(stream), next(stream)] == ["It ", "scatters."]
    with pytest.raises(StopIteration) as stop:
        next(stream)
    assert stop.value.value == 7
    (found,) = told()
    assert (found.answer, found.status) == ("It scatters.", "ok")


@pytest.mark.parametrize("ending", ["close", "drop"])
def test_a_generator_is_finalised_within_its_interaction(monitor, told, ending):
    """What its `finally` retrieves belongs to it, and the caller's context is as it was."""
    seen = []

    @monitor.answers
    def ask(question):
        try:
            yield "It "
        finally:
            seen.append(current_interaction())

    stream = ask("Why?")
    next(stream)
    if ending == "close":
        stream.close()
    del stream
    gc.collect()
    assert seen != [None]
    assert current_interaction() is None
    (found,) = told()
    assert (found.answer, found.status) == ("It ", "partial")


# --- whatever can be called ---------------------------------------------------------------------


class Bot:
    """Answers in every way in which a method can be one."""

    def __call__(self, question):
        return f"call {question}"

    def bound(self, question):
        return f"bound {question}"


class Streamer:
    """Is called as a generator is."""

    def __call__(self, question):
        yield question


class Waiter:
    """Is called as a coroutine function is."""

    async def __call__(self, question):
        return question


def with_context(context, question):
    """Say the question."""
    return f"{context} {question}"


def test_whatever_can_be_called_can_be_decorated(monitor, told):
    """Partial functions, bound methods, objects, builtins."""
    assert monitor.answers(functools.partial(with_context, "partial"))("a") == "partial a"
    assert monitor.answers(Bot().bound)("b") == "bound b"
    assert monitor.answers(Bot())("c") == "call c"
    assert monitor.answers(str)("d") == "d"
    assert list(monitor.answers(Streamer())("e")) == ["e"]
    assert asyncio.run(monitor.answers(Waiter())("f")) == "f"
    assert inspect.iscoroutinefunction(monitor.answers(Waiter()))
    assert [(i.name, i.query, i.answer) for i in told()] == [
        ("with_context", "a", "partial a"),
        ("bound", "b", "bound b"),
        ("Bot", "c", "call c"),
        ("str", "d", "d"),
        ("Streamer", "e", "e"),
        ("Waiter", "f", "f"),
    ]


def test_class_and_static_methods_stay_such(monitor, told):
    """In either order of the decorators."""

    class Apps:
        @monitor.answers
        @classmethod
        def outer(cls, question):
            return f"{cls.__name__} {question}"

        @classmethod
        @monitor.answers
        def inner(cls, question):
            return f"{cls.__name__} {question}"

        @monitor.answers
        @staticmethod
        def static(question):
            return question

        @monitor.retrieves
        @classmethod
        def search(cls, query):
            return [query]

    assert Apps.outer("a") == Apps().outer("a") == "Apps a"
    assert Apps.inner("b") == "Apps b"
    assert Apps.static("c") == Apps().static("c") == "c"
    assert Apps.search("d") == ["d"]
    assert [i.query for i in told()] == ["a", "a", "b", "c", "c"]
