"""An incident as people read it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ragmonitor.causes import Shift
from ragmonitor.causes.history import Event
from ragmonitor.incidents import as_markdown, texts_en, texts_zh
from ragmonitor.incidents.rendering import Links
from tests.support.incidents import (
    CHUNK,
    QUESTION,
    SENTENCE,
    START_S,
    TRACE,
    Explained,
    Scene,
    described,
    document,
    part,
    raised,
)

LINKS = Links(trace_url="https://t.example/{trace_id}", page_url="https://m.example/ragmonitor/")
HOSTILE = "<script>alert(1)</script>\"'|`*_[x](javascript:alert(1)) @all\n# head\n![i](//e.example)"


PLAIN = described()


class Elements(HTMLParser):
    """Notes the elements of a rendered incident, and where it points to."""

    def __init__(self, *incident):
        super().__init__()
        page = MarkdownIt("commonmark", {"html": False}).render(as_markdown(*incident))
        self.names, self.addresses, self.text = set(), set(), ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.addresses |= {value for name, value in attrs if name in ("href", "src")}

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (
            part(),
            (
                ["slice route=/returns.", "at 80 % (70 % to 90 %); before the rise: 3 %"],
                ["分片 route=/returns。", "80 %（70 %–90 %）；上升之前：3 %"],
            ),
        ),
        (
            part("version 1.1", kind="version", before=None),
            (["version 1.1.", "none like them before"], ["版本 1.1。", "此前没有此类回答"]),
        ),
        (document(), (["document handbook.md."], ["文档 handbook.md。"])),
    ],
)
def test_each_kind_of_cause_says_no_more_than_is_known(found, told):
    """Of documents no rates are known."""
    for language, texts in zip(("en", "zh"), told, strict=True):
        page = as_markdown(described(found), language)
        assert all(text in page for text in texts), page


def test_what_is_everywhere_is_said_so_and_no_noise_with_it():
    """What happened before stands beside, as no proof; and a shift of the mix."""
    event = Event(kind="deployment", name="1.1", at_s=START_S - 200, attributes={})
    scene = Scene(Explained(is_everywhere=True, events=(event,), shift=Shift("route", 0.8)))
    scene.alarm(raised(detail="version 2 is worse than 1: by 0.3"))
    page = as_markdown(scene.incident)
    assert "everywhere: no part" in page
    assert "version 2 is worse than 1: by 0.3" in page
    assert "deployment 1.1" in page
    assert "By route, 80 % of the rise goes with the mix" in page
    assert "到处都是" in as_markdown(scene.incident, "zh")


def test_every_text_has_both_languages_with_the_same_names():
    """Nothing is left out in one of them."""
    english, chinese = texts_en.TEXTS, texts_zh.TEXTS
    assert list(english) == list(chinese)
    for key, text in english.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", chinese[key]))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_person_on_call_finds_what_she_needs(language):
    """What moved, since when, the cause, its share, the answers with their chunks and traces."""
    page = Elements(described(), language, LINKS)
    for told in (
        "41 % by 80 verdicts" if language == "en" else "41 %（80 条评审结果）",
        "handbook.md",
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


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_hostile_text_stays_text(language):
    """Wherever it stands."""
    incident = described(document(HOSTILE))
    answer = incident.answers[0].model_copy(update={"question": HOSTILE, "id": HOSTILE})
    incident = incident.model_copy(update={"answers": (answer,), "service": HOSTILE})
    page = Elements(incident, language, LINKS)
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
    assert Elements(changed).names == Elements(plain).names
    assert as_markdown(changed).count("\n") == as_markdown(plain).count("\n")
