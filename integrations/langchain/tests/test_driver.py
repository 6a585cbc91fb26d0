"""What the command line drives is a real LangChain application."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import pytest

from ragmonitor import Chunk
from ragmonitor_langchain.driver import LangChainDriver

CHUNKS = [Chunk(text="It is blue.", id="colours#0", metadata={"source": "colours"})]


@pytest.fixture
def driver(monitor: Any) -> Any:
    """Give a driver that watches with the test's monitor."""
    driver = LangChainDriver()
    driver.instrument(monitor)
    return driver


@pytest.fixture
def application(driver: Any) -> Any:
    """Build a small application."""
    return driver.application(
        lambda question: CHUNKS,
        "Context: {context}\nQuestion: {question}",
        lambda prompt: "blue, indeed" if "It is blue." in prompt else "no idea",
    )


def test_the_application_answers_from_its_documents(monitor: Any, application: Any) -> None:
    """In pieces, which are the answer together; what was found reaches the model and the record."""
    pieces = list(application("what is blue?", {"route": "help"}))
    assert [piece for piece in pieces if piece] == ["blue, ", "indeed"]
    i = monitor.only
    assert (i.query, i.answer, [*i.chunks]) == ("what is blue?", "blue, indeed", CHUNKS)
    assert (i.attributes["route"], i.usage.output_tokens) == ("help", 2)


def test_the_command_line_finds_it() -> None:
    """Entry point `langchain` in `ragmonitor.drivers`, once the distribution is installed."""
    found = entry_points(group="ragmonitor.drivers", name="langchain")
    if not found:
        pytest.skip("run from a checkout that is not installed")
    assert {entry.load() for entry in found} == {LangChainDriver}
