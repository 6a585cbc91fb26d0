"""What is read piece by piece reaches the application as it was, and is noted as it is read."""

import asyncio
import functools
import gc
import inspect
import itertools
import types
import weakref

import pytest

from ragmonitor import ExportSettings, Monitor, ServerSettings, current_interaction
from ragmonitor.capture import streams
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


def test_nothing_is_read_before_the_application_reads_it(monitor, told):
    """What the application leaves unread was not shown to the model, and is not noted."""
    made = []

    @monitor.retrieves
    def search(query):
        for n in itertools.count():
            made.append(n)
            yield f"chunk {n}"

    with monitor.interaction(query="Why?") as i:
        stream = search("Why?")
        assert made == []
        assert list(itertools.islice(stream, 3)) == ["chunk 0", "chunk 1", "chunk 2"]
        assert made == [0, 1, 2]
        i.answered("It scatters.")
    (found,) = told()
    assert texts(found) == ["chunk 0", "chunk 1", "chunk 2"]
    assert next(stream) == "chunk 3"


def test_a_generator_that_is_returned_stays_one(monitor, told):
    """With `send`, `throw` and `close`."""
    closed = []

    def pieces():
        try:
            got = yield "Blue sky."
            yield got
        finally:
            closed.append(True)

    search = monitor.retrieves(lambda query: pieces())
    with monitor.interaction(query="Why?") as i:
        stream = search("Why?")
        assert isinstance(stream, types.GeneratorType)
        assert next(stream) == "Blue sky."
        assert stream.send("Red earth.") == "Red earth."
        stream.close()
        assert closed == [True]
        i.answered("It scatters.")
    assert texts(told()[0]) == ["Blue sky.", "Red earth."]


def test_a_retriever_that_fails_half_way_is_a_retrieval_with_an_error(monitor, told):
    """The application sees its own exception."""

    @monitor.retrieves
    def search(query):
        yield "Blue sky."
        raise KeyError("index")

    with monitor.interaction(query="Why?") as i:
        with pytest.raises(KeyError, match="index"):
            list(search("Why?"))
        i.answered("It scatters.")
    (found,) = told()
    assert texts(found) == ["Blue sky."]
    assert [r.error for r in found.retrievals] == ["KeyError: 'index'"]


async def test_asynchronous_generators_are_noted_as_they_are_read(monitor, told):
    """With `asend`, `athrow` and `aclose`, from a generator function and from a plain one."""
    heard = []

    async def pieces(query):
        try:
            heard.append((yield "Blue sky."))
            try:
                yield "Red earth."
            except KeyError:
                yield "Green grass."
        finally:
            heard.append("closed")

    def returns(query):
        return pieces(query)

    for search in (monitor.retrieves(pieces), monitor.retrieves(returns)):
        async with monitor.interaction(query="Why?") as i:
            stream = search("Why?")
            assert inspect.isasyncgen(stream)
            assert await anext(stream) == "Blue sky."
            assert await stream.asend("more") == "Red earth."
            assert await stream.athrow(KeyError("k")) == "Green grass."
            await stream.aclose()
            i.answered("It scatters.")
    assert inspect.isasyncgenfunction(monitor.retrieves(pieces))
    assert heard == ["more", "closed"] * 2
    assert [texts(i) for i in told()] == [["Blue sky.", "Red earth.", "Green grass."]] * 2


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


def test_what_is_kept_of_an_endless_retrieval_is_bounded(monitor, told, monkeypatch):
    """Beyond the bound the application reads on, and the interaction is incomplete."""
    monkeypatch.setattr(streams, "MAX_CHARACTERS", 1_000)

    @monitor.retrieves
    def search(query):
        return itertools.repeat("x" * 100)

    with monitor.interaction(query="Why?") as i:
        assert sum(1 for _ in itertools.islice(search("Why?"), 50)) == 50
        i.answered("It scatters.")
    (found,) = told()
    assert len(found.chunks) == 10
    assert found.capture_incomplete


def test_a_stream_that_is_dropped_is_freed_at_once(monitor):
    """We hold nothing of what the application has let go."""

    class Row(str):
        __slots__ = ("__weakref__",)

    row = Row("Blue sky.")
    gone = weakref.ref(row)

    @monitor.retrieves
    def search(query, row):
        yield row

    stream = search("Why?", row)  # outside an interaction
    next(stream)
    del stream, row
    gc.collect()
    assert gone() is None


# --- answers ------------------------------------------------------------------------------------


def test_a_generator_of_pieces_keeps_send_throw_and_its_result(monitor, told):
    """The answer is what it gave, and the interaction ends with it."""

    @monitor.answers
    def ask(question):
        got = yield "It "
        try:
            yield got
        except KeyError:
            yield "."
        return 7

    stream = ask("Why?")
    assert next(stream) == "It "
    assert stream.send("scatters") == "scatters"
    assert stream.throw(KeyError("k")) == "."
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
