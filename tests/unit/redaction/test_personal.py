"""Personal data, found by the real libraries; nothing here asks the network."""

from __future__ import annotations

import importlib.util
import socket

import pytest

from ragmonitor.redaction import PersonalData, Redactor
from ragmonitor.redaction.personal import languages_of
from ragmonitor.runtime.errors import MissingExtraError
from tests.support.stories import interaction

installed = pytest.mark.skipif(
    importlib.util.find_spec("stdnum") is None, reason="needs ragmonitor[personal]"
)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_a_library_that_is_missing_is_told_when_the_monitor_is_built(monkeypatch):
    """Not later, in the worker, where nobody sees it."""
    monkeypatch.setattr("ragmonitor.redaction.personal.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"ragmonitor\[personal\]"):
        Redactor(("personal",))


@installed
def test_names_without_a_model_are_warned_of(caplog):
    """Patterns find numbers and addresses; that names stay is said once, with the remedy."""
    PersonalData()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "spacy download zh_core_web_sm" in caplog.text


@installed
def test_names_are_found_by_a_model_of_each_language(monkeypatch):
    """Both are used in one record."""
    import spacy

    def load(language):
        pipeline = spacy.blank(language)
        ruler = pipeline.add_pipe("entity_ruler")
        name = "Jane Doe" if language == "en" else "王小明"
        ruler.add_patterns([{"label": "PERSON", "pattern": name}])
        return pipeline

    monkeypatch.setattr(spacy, "load", load)
    monkeypatch.setattr("ragmonitor.redaction.personal._best_model", lambda language: language)
    redactor = Redactor(("secrets", "personal"))
    told = interaction(
        query="Who is Jane Doe?", texts=("王小明是经理。",), answer="Jane Doe reports to 王小明."
    )
    found = redactor(told)
    assert found.query == "Who is [redacted:person]?"
    assert found.chunks[0].text == "[redacted:person]是经理。"
    assert "Jane" not in found.answer


@installed
def test_a_model_that_cannot_be_loaded_lets_nothing_through(monkeypatch):
    """Records lose their texts, and it is logged."""
    monkeypatch.setattr("ragmonitor.redaction.personal._best_model", lambda _language: "none")
    redactor = Redactor(("personal",))
    for _ in range(2):
        found = redactor(interaction(query="Who is Jane Doe?"))
        assert (found.query, found.capture_incomplete) == ("", True)


def test_a_text_is_read_in_its_languages():
    """A Chinese text in Chinese, an English one in English, a mixed one in both."""
    assert languages_of("Where is it?") == ("en",)
    assert languages_of("退货期限，见 FAQ") == ("zh",)
    assert languages_of("The clause 退货 speaks of returns") == ("zh", "en")
    assert languages_of("") == ("en",)
