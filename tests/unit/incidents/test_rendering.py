"""An incident as people read it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.incidents import as_html, as_markdown
from ragmonitor.incidents.incident_texts import _TEXTS, Wording
from ragmonitor.incidents.rendering import Links
from tests.support.incidents import (
    CHUNK,
    QUESTION,
    SENTENCE,
    TRACE,
    described,
)

LINKS = Links(trace_url="https://t.example/{trace_id}", page_url="https://m.example/ragmonitor/")
HOSTILE = "<script>alert(1)</script>\"'|`*_[x](javascript:alert(1)) @all\n# head\n![i](//e.example)"


PLAIN = described()


class Elements(HTMLParser):
    """Notes the elements of a page, and where it points to."""

    def __init__(self, page):
        super().__init__()
        self.names, self.addresses, self.text = set(), set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.addresses |= {value for name, value in attrs if name in ("href", "src")}

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (
            "version",
            (
                ["of the version that it is compared with: 3 %", "if both versions get"],
                ["对照版本的回答为 3 %", "若两个版本"],
            ),
        ),
        (
            "slice",
            (
                ["at 80 % (70 % to 90 %); before the rise: 3 %"],
                ["80 %（70 %–90 %）；上升之前"],
            ),
        ),
    ],
)
def test_each_kind_of_cause_says_no_more_than_is_known(kind, told):
    """A version is compared with another one, not with itself before."""
    for language, texts in zip(("en", "zh"), told, strict=True):
        page = as_markdown(described(kind=kind, name="route=a", detail="So."), language)
        assert all(text in page for text in texts), page
        assert page.count("So.") == 1
        assert "e = 4000" in page


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "is_rate"),
        ({"is_compared": False}, "is_uncompared"),
        ({"before": None}, "is_uncompared"),
    ],
)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_document_is_said_to_have_got_worse_only_if_it_is_shown(changes, told, language):
    """It may always have been worse than the others, and be shown more."""
    text = as_markdown(described(**changes), language)
    say = Wording(language)
    for key in ("is_rate", "is_uncompared"):
        assert (say(key) in text) is (key == told), key


def test_no_passage_is_to_be_read_where_texts_are_withheld():
    """The document's name stands there, its passages do not."""
    told = described()
    asked = Wording("en")("next_passages")
    assert asked in as_markdown(told)
    assert asked not in as_markdown(told.model_copy(update={"content": "none"}))


def test_every_text_has_both_languages_with_the_same_names():
    """Nothing is left out in one of them."""
    for english, chinese in _TEXTS.values():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", chinese))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_person_on_call_finds_what_she_needs(language):
    """What moved, since when, the cause, its share, the answers with their chunks and traces."""
    page = Elements(as_html(described(), language, LINKS))
    for told in (
        "33 of 80 scored" if language == "en" else "80 个已评分回答中有 33 个",
        "handbook.md",
        "85 % (70 % – 95 %)" if language == "en" else "85 %（70 % – 95 %）",
        "2027-01-15 08:00:00 UTC",
        QUESTION,
        SENTENCE,
        CHUNK,
        TRACE,
        "route: /returns",
    ):
        assert told in page.text, told
    assert page.addresses == {
        f"https://t.example/{TRACE}",
        "https://m.example/ragmonitor/#answer=i-1",
        "https://m.example/ragmonitor/#answer=i-2",
    }


def test_the_chinese_page_is_chinese():
    """But for names and texts of answers."""
    text = Elements(as_html(described(), "zh")).text
    assert "接下来要问什么" in text
    assert not re.search(r"\b(the|alarm|answers?)\b(?!s\.)", text.replace(SENTENCE, ""))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_hostile_text_stays_text(language):
    """In both forms, wherever it stands."""
    incident = described(name=HOSTILE, detail=HOSTILE)
    answer = incident.answers[0].model_copy(update={"question": HOSTILE, "id": HOSTILE})
    incident = incident.model_copy(update={"answers": (answer,), "service": HOSTILE})
    page = Elements(as_html(incident, language, LINKS))
    assert "script" not in page.names
    assert "img" not in page.names
    assert all(address.startswith("https://") for address in page.addresses)
    markdown = as_markdown(incident, language, LINKS)
    assert not re.search(r"(?<!\\)(<script|\[x|`|@all)", markdown)
    assert not re.search(r"^# head", markdown, re.MULTILINE)


@settings(max_examples=40)
@given(text=st.text(max_size=60))
def test_no_text_makes_an_element(text):
    """The page of any text has the elements of any other."""
    plain = PLAIN
    (answer, *others) = plain.answers
    answers = (answer.model_copy(update={"question": text}), *others)
    changed = plain.model_copy(update={"answers": answers, "service": text})
    assert Elements(as_html(changed)).names == Elements(as_html(plain)).names
    assert as_markdown(changed).count("\n") == as_markdown(plain).count("\n")


def test_the_last_hour_is_never_told_beside_the_answers_that_raised_the_alarm():
    """It holds answers from before the rise: 6 % is beyond no limit of 15 %."""
    (alarm,) = described().alarms
    assert alarm.estimate is not None
    assert alarm.estimate.mean == 0.06
    for language in ("en", "zh"):
        told = as_markdown(described(), language)
        assert "6 % (4 %" not in told
        assert "6 %（4 %" not in told
