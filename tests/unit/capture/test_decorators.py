"""Functions that answer, and functions that retrieve."""

import pytest

from ragmonitor import ExportSettings, Monitor, ServerSettings, current_interaction
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


def test_a_parameter_that_is_not_there_is_said_at_once(monitor):
    """When the module is loaded, not when the first user asks."""
    with pytest.raises(TypeError, match="has no parameter 'query'"):
        monitor.answers(query="query")(lambda question: question)


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
