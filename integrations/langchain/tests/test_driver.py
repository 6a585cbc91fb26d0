"""What the command line drives is a real LangChain application."""

from __future__ import annotations

import builtins
from importlib.metadata import entry_points
from typing import Any

import pytest

from ragmonitor.runtime.errors import MissingExtraError
from ragmonitor_langchain.driver import LangChainDriver

DOCUMENTS = {"manual": "The pump is serviced every six months. " * 40, "colours": "It is blue."}


def _embed(text: str) -> list[float]:
    return [float(text.count("blue")) + 0.01, float(text.count("pump")) + 0.01]


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
        DOCUMENTS,
        "Context: {context}\nQuestion: {question}",
        lambda prompt: "blue, indeed" if "It is blue." in prompt else "no idea",
        _embed,
    )


def test_the_application_answers_from_its_documents(monitor: Any, application: Any) -> None:
    """The best pieces of the documents reach the model, and the record."""
    assert application.ask("what is blue?") == "blue, indeed"
    i = monitor.only
    assert (i.query, i.answer, i.chunks[0].text) == (
        "what is blue?",
        "blue, indeed",
        "It is blue.",
    )


def test_long_documents_are_split(monitor: Any, application: Any) -> None:
    """The pieces have ids and their document's name."""
    application.ask("how is the pump serviced?")
    found = {c.id: c.metadata["source"] for c in monitor.only.chunks}
    assert len(found) > 1
    assert found["manual#0"] == "manual"


def test_the_application_streams(monitor: Any, application: Any) -> None:
    """In pieces, which are the answer together, with token usage."""
    pieces = list(application.stream("what is blue?"))
    assert [piece for piece in pieces if piece] == ["blue, ", "indeed"]
    assert (monitor.only.answer, monitor.only.usage.output_tokens) == ("blue, indeed", 2)


def test_a_missing_part_is_named(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    real = builtins.__import__

    def without_splitters(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "langchain_text_splitters":
            raise ModuleNotFoundError(name, name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_splitters)
    with pytest.raises(MissingExtraError, match="langchain_text_splitters"):
        driver.application(DOCUMENTS, "{context}{question}", str, _embed)


def test_the_command_line_finds_it() -> None:
    """Entry point `langchain` in `ragmonitor.drivers`, once the distribution is installed."""
    found = entry_points(group="ragmonitor.drivers", name="langchain")
    if not found:
        pytest.skip("run from a checkout that is not installed")
    assert {entry.load() for entry in found} == {LangChainDriver}
