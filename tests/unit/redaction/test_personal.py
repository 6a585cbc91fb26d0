"""Personal data, found by the real Presidio; nothing here asks the network."""

from __future__ import annotations

import importlib.util
import socket

import pytest

from ragmonitor.errors import MissingExtraError, SettingsError
from ragmonitor.redaction import PersonalData, Redactor
from ragmonitor.redaction.identity_numbers import is_cn_id_card
from ragmonitor.redaction.personal import ENTITIES, languages_of
from tests.support.stories import interaction

installed = pytest.mark.skipif(
    importlib.util.find_spec("presidio_analyzer") is None, reason="needs ragmonitor[presidio]"
)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="module")
def patterns():
    """Return what finds all that needs no spaCy model."""
    return PersonalData(tuple(e for e in ENTITIES if e not in ("PERSON", "LOCATION")))


def test_presidio_that_is_missing_is_told_when_the_monitor_is_built(monkeypatch):
    """Not later, in the worker, where nobody sees it."""
    monkeypatch.setattr("ragmonitor.redaction.personal.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"ragmonitor\[presidio\]"):
        Redactor(("personal",), personal=PersonalData(("PERSON",)))


def test_an_unknown_entity_is_an_error():
    """What would never be found must not be believed to be."""
    with pytest.raises(SettingsError, match="PERSONS"):
        Redactor(("personal",), personal=PersonalData(("PERSONS",)))


@installed
def test_a_named_model_that_is_missing_is_an_error():
    """Presidio would download it."""
    with pytest.raises(SettingsError, match="spacy download en_core_web_none"):
        Redactor(("personal",), personal=PersonalData((), ("en_core_web_none",)))


@installed
def test_names_without_a_model_are_warned_of(caplog):
    """Patterns find numbers and addresses; that names stay is said once, with the remedy."""
    PersonalData(("PERSON",)).check()
    PersonalData(("EMAIL_ADDRESS",)).check()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "PERSON" in caplog.text
    assert "spacy download zh_core_web_sm" in caplog.text


@installed
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mail jane.doe@example.co.uk today.", "Mail [redacted:email_address] today."),
        ("Call (212) 555-0142 or +44 20 7946 0958.", 2 * "[redacted:phone_number]"),
        ("Card 4111 1111 1111 1111.", "Card [redacted:credit_card]."),
        ("IBAN DE89370400440532013000", "IBAN [redacted:iban_code]"),
        ("SSN 536-90-4399", "SSN [redacted:us_ssn]"),
        ("From 192.0.2.17.", "From [redacted:ip_address]."),
        ("邮箱a.b@example.com，谢谢", "邮箱[redacted:email_address]，谢谢"),
        ("手机号13812345678。", "手机号[redacted:phone_number]。"),
        ("电话+86 138 1234 5678。", "电话[redacted:phone_number]。"),
        ("身份证11010519491231002X。", "身份证[redacted:cn_id_card]。"),
        ("卡号4111111111111111", "卡号[redacted:credit_card]"),
    ],
)
def test_patterns_find_without_a_model(patterns, text, expected):
    """In English and right after Chinese characters, where no word's boundary is."""
    found = patterns(text)
    if expected == 2 * "[redacted:phone_number]":
        assert found.count("[redacted:phone_number]") == 2
    else:
        assert found == expected


@installed
@pytest.mark.parametrize(
    "text",
    [
        "The tower was built from 1887 to 1889 and is 330 metres tall.",
        "Version 3.11.4, released on 2024-01-15, has 12345 users; see section 4.2.",
        "公元1949年10月1日，人口1409670000，长21196公里。",
        "身份证110105194912310021是错的",
        "4111111111111112 fails the card's check",
        "Write to support at example dot com",
    ],
)
def test_numbers_of_the_matter_stay(patterns, text):
    """Years, versions, counts and numbers whose check digit is wrong are what answers are about."""
    assert patterns(text) == text


@installed
def test_names_are_found_by_a_model_of_each_language(tmp_path):
    """The pipeline of a folder is loaded for its own language; both are used in one record."""
    import spacy

    for language, name in (("en", "Jane Doe"), ("zh", "王小明")):
        pipeline = spacy.blank(language)
        ruler = pipeline.add_pipe("entity_ruler")
        ruler.add_patterns([{"label": "PERSON", "pattern": name}])
        pipeline.to_disk(tmp_path / language)
    personal = PersonalData(("PERSON",), (str(tmp_path / "en"), str(tmp_path / "zh")))
    redactor = Redactor(("secrets", "personal"), personal=personal)
    told = interaction(
        query="Who is Jane Doe?", texts=("王小明是经理。",), answer="Jane Doe reports to 王小明."
    )
    found = redactor(told)
    assert found.query == "Who is [redacted:person]?"
    assert found.chunks[0].text == "[redacted:person]是经理。"
    assert "Jane" not in found.answer


@installed
def test_a_model_that_cannot_be_used_lets_nothing_through(tmp_path):
    """A pipeline for German would never be asked: records lose their texts, and it is logged."""
    import spacy

    spacy.blank("de").to_disk(tmp_path)
    personal = PersonalData(("PERSON",), (str(tmp_path),))
    redactor = Redactor(("personal",), personal=personal)
    for _ in range(2):
        found = redactor(interaction(query="Wer ist Jane Doe?"))
        assert (found.query, found.capture_incomplete) == ("", True)


def test_a_text_is_read_in_its_languages():
    """A Chinese text in Chinese, an English one in English, a mixed one in both."""
    assert languages_of("Where is it?") == ("en",)
    assert languages_of("退货期限，见 FAQ") == ("zh",)
    assert languages_of("The clause 退货 speaks of returns") == ("zh", "en")
    assert languages_of("") == ("en",)


@pytest.mark.parametrize(
    ("number", "right"), [("11010519491231002X", True), ("110105194912310021", False)]
)
def test_the_last_digit_of_an_identity_card_is_checked(number, right):
    """GB 11643: the example of the standard, and the same with another digit."""
    assert is_cn_id_card(number) is right
