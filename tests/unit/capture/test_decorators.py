"""Functions that answer, and functions that retrieve."""

import asyncio
import inspect

import pytest

from ragmonitor import Chunk, ExportSettings, Monitor, ServerSettings, current_interaction
from ragmonitor.testing import ListExporter


@pytest.fixture
def exporter():
    return ListExporter()


@pytest.fixture
def monitor(exporter):
    with Monitor(
        service="decorated",
        exporters=[exporter],
        server=ServerSettings(port=0),
        export=ExportSettings(traces=False),
    ) as monitor:
        yield monitor


@pytest.fixture
def told(monitor, exporter):
    def told():
        assert monitor.flush()
        return [
            (i.query, tuple(c.text for c in i.chunks), i.answer, i.status)
            for i in exporter.interactions()
        ]

    return told


WHOLE = ("Why?", ("Blue sky.",), "It scatters.", "ok")


def test_a_function_that_answers(monitor, told):
    """Its first parameter is the question, what it returns the answer."""

    @monitor.retrieves
    def search(query):
        return ["Blue sky."]

    @monitor.answers
    def ask(question: str) -> str:
        """Say why."""
        return "It scatters." if search(question) else ""

    assert ask("Why?") == "It scatters."
    assert ask.__doc__ == "Say why."
    assert told() == [WHOLE]


@pytest.fixture
def ask(monitor):
    """Return a function that answers, and retrieves."""

    @monitor.retrieves
    def search(query):
        return ["Blue sky."]

    @monitor.answers
    def ask(question):
        search(question)
        return "It scatters."

    return ask


def test_a_function_that_hands_its_question_on_is_not_counted_again(monitor, told, ask):
    """A decorated one answers in its place, as of a base class: there the chunks are."""

    @monitor.retrieves
    def search(query):
        return ["Blue sky."]

    @monitor.answers
    def stream(question):
        search(question)
        yield from ("It ", "scatters.")

    @monitor.answers
    def ask_politely(question):
        return f"{ask(question)} Anything else?"

    @monitor.answers
    def stream_politely(question):
        yield from stream(question)
        yield " Anything else?"

    ask_politely("Why?")
    list(stream_politely("Why?"))
    assert told() == [WHOLE, WHOLE]


def test_a_function_that_fails_after_one_that_it_called_is_counted(monitor, told, ask):
    """Its user saw an error."""

    @monitor.answers
    def fail(question):
        ask(question)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        fail("Why?")
    assert told() == [WHOLE, ("Why?", (), "", "error")]


async def test_a_coroutine_function(monitor, exporter, told):
    """Fifty at once stay apart."""

    @monitor.retrieves(chunks=lambda found: [Chunk(text=f["body"]) for f in found["hits"]])
    async def search(query):
        await asyncio.sleep(0)
        return {"hits": [{"body": f"chunk of {query}"}]}

    @monitor.answers(query="question", answer=lambda result: result["text"], name="bot")
    async def ask(user, *, question):
        await search(question)
        return {"text": f"answer to {question}"}

    assert inspect.iscoroutinefunction(ask)
    await asyncio.gather(*(ask("me", question=f"q{n}") for n in range(50)))
    assert sorted(told()) == sorted(
        (f"q{n}", (f"chunk of q{n}",), f"answer to q{n}", "ok") for n in range(50)
    )
    assert {i.name for i in exporter.interactions()} == {"bot"}


def test_a_generator(monitor, told):
    """Its pieces are the answer; between two of them the caller is in no interaction."""

    @monitor.retrieves
    def search(query):
        return ["Blue sky."]

    @monitor.answers
    def ask(question):
        search(question)
        yield "It "
        yield "scatters."
        return 7

    stream = ask("Why?")
    assert next(stream) == "It "
    assert current_interaction() is None
    assert list(stream) == ["scatters."]
    assert told() == [WHOLE]


async def test_an_asynchronous_generator(monitor, told):
    """Read to the end, and closed early."""

    @monitor.retrieves
    async def search(query):
        return ["Blue sky."]

    @monitor.answers
    async def ask(question):
        await search(question)
        yield "It "
        yield "scatters."

    assert [piece async for piece in ask("Why?")] == ["It ", "scatters."]
    stream = ask("Why?")
    await anext(stream)
    assert current_interaction() is None
    await stream.aclose()
    assert told() == [WHOLE, ("Why?", ("Blue sky.",), "It ", "partial")]


def test_an_exception_passes_and_is_noted(monitor, told):
    """From a function, and from a generator after its first piece."""

    @monitor.answers
    def ask(question):
        raise KeyError("index")

    @monitor.answers
    def stream(question):
        yield "It "
        raise KeyError("model")

    with pytest.raises(KeyError, match="index"):
        ask("Why?")
    with pytest.raises(KeyError, match="model"):
        list(stream("How?"))
    assert told() == [("Why?", (), "", "error"), ("How?", (), "It ", "error")]


def test_a_method_s_question_is_not_self(monitor, told):
    """The first parameter that could be one."""

    class Bot:
        @monitor.answers
        def ask(self, question):
            return "x"

    Bot().ask("Why?")
    assert told()[0][0] == "Why?"


def test_a_parameter_that_is_not_there_is_said_at_once(monitor):
    """When the module is loaded, not when the first user asks."""
    with pytest.raises(TypeError, match="has no parameter 'query'"):
        monitor.answers(query="query")(lambda question: question)


@pytest.mark.filterwarnings("error")
def test_a_reader_that_fails_hurts_nobody(monitor, told, caplog):
    """Logged and counted; the function's result passes."""

    @monitor.answers(answer=lambda result: result["missing"])
    def ask(question):
        return {}

    assert ask("Why?") == {}
    assert told() == [("Why?", (), "", "ok")]
    assert "error in stage capture" in caplog.text


def test_outside_an_interaction_nothing_is_noted(monitor, told):
    """A search for its own sake."""

    @monitor.retrieves
    def search(query):
        return ["Blue sky."]

    assert search("Why?") == ["Blue sky."]
    assert told() == []


def test_a_panic_of_the_code_that_reads_the_answer_stays_with_us(monitor, told):
    """An extension module's panic is no `Exception`; the application gets what it computed."""

    class PanicException(BaseException):
        pass

    def panics(_result):
        raise PanicException

    @monitor.answers(answer=panics)
    def ask(question):
        return question.upper()

    assert ask("Why?") == "WHY?"
    assert [query for query, *_ in told()] == ["Why?"]
