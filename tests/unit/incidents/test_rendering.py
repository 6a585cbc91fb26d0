"""An incident as people read it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.causes.signal_names import number, signal_name
from ragmonitor.incidents import as_html, as_markdown
from ragmonitor.incidents.incident import Change
from ragmonitor.incidents.incident_texts import _TEXTS, Wording, percent
from ragmonitor.incidents.rendering import Links, headline
from ragmonitor.records import AlarmSpan
from tests.support.incidents import (
    CHUNK,
    QUESTION,
    SENTENCE,
    START_S,
    TRACE,
    Scene,
    ScriptedFinder,
    candidate,
    described,
    raised,
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


def test_a_cause_is_said_in_the_language_of_the_rest():
    """Its kind once, and its sentence and the sort of an event in Chinese."""
    version = described(
        kind="version", name="version 1.5", detail="Compared with 1.4.", detail_zh="与 1.4 相比。"
    )
    assert "Named: version 1.5, 0 s" in as_markdown(version, "en")
    assert "Compared with 1.4." in as_markdown(version, "en")
    told = as_markdown(version, "zh")
    assert "已指明：版本 1.5（" in told
    assert "与 1.4 相比。" in told
    assert "Compared" not in told
    event = described(kind="event", name="judge change: model 2", is_discovery=False)
    assert "| 事件 | 评审变更：model 2 |" in as_markdown(event, "zh")


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


def test_a_slice_that_is_not_compared_with_before_is_not_said_to_have_got_worse():
    """Too little was known of it: there may be no more than more answers of a hard kind."""
    incident = described(kind="slice", name="route=a", is_compared=False)
    assert "Mix or rate: not known. Too few answers" in as_markdown(incident)
    assert "构成还是质量：尚不可知。" in as_markdown(incident, "zh")
    compared = as_markdown(described(kind="slice", name="route=a"))
    assert "Mix or rate: the rate." in compared


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


def test_two_beginnings_are_not_told():
    """Where verdicts date the change, the rise of the evidence is not called its beginning."""
    told = described()
    assert "that is when it began" in as_markdown(told)
    changed = Change(at_s=START_S, lower_s=START_S - 9, upper_s=START_S + 9)
    assert "that is when it began" not in as_markdown(told.model_copy(update={"change": changed}))


def test_what_is_shown_besides_the_named_cause_is_told():
    """Two things may have gone wrong at once."""
    found = candidate("route=a", kind="slice"), candidate(explained_lower=0.2)
    scene = Scene(None, ScriptedFinder(*found))
    scene.keeper.alarm(raised())
    assert "Shown besides: document handbook.md." in as_markdown(scene.incident)
    assert "此外已查明：文档 handbook.md。" in as_markdown(scene.incident, "zh")
    assert "Shown besides" not in as_markdown(described())


def test_an_event_is_near_in_time_and_no_more():
    """Nothing was counted for or against it."""
    page = as_markdown(described(kind="event", name="event: reindexed", is_discovery=False))
    assert "| near in time, no more |" in page


def test_a_signal_of_golden_questions_is_said_in_the_language_of_the_rest():
    """It may stand beside the alarm on the traffic."""
    assert signal_name("golden_answer_correctness", "en") == "Golden questions · Answer correctness"
    assert signal_name("golden_answer_correctness", "zh") == "参考问题 · 回答正确性"


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


def test_one_line_says_what_and_why():
    """Without a text of any answer."""
    assert headline(described()) == (
        "Hallucination rate: 33 of 80 scored answers since 2027-01-15 07:58:10 UTC; 3 % before; "
        "limit: at most 5 %; cause: document handbook.md"
    )
    assert "原因：文档 handbook.md" in headline(described(), "zh")


def test_the_last_hour_is_never_told_beside_the_answers_that_raised_the_alarm():
    """It holds answers from before the rise: 6 % is beyond no limit of 15 %."""
    (alarm,) = described().alarms
    assert alarm.estimate is not None
    assert alarm.estimate.mean == 0.06
    for language in ("en", "zh"):
        told = as_markdown(described(), language)
        assert "6 % (4 %" not in told
        assert "6 %（4 %" not in told


def test_a_score_is_told_as_a_mean_and_an_alarm_without_answers_by_the_hour():
    """Faithfulness has no bad answers to count; a record of before has no rise."""
    incident = described()
    (alarm,) = incident.alarms
    rise = replace(alarm.rise, bad=None, mean=0.5, before=None)
    score = alarm.model_copy(update={"signal": "faithfulness", "rise": rise})
    told = headline(incident.model_copy(update={"alarms": (score,)}))
    assert "a mean of 0.50 over 80 scored answers since 2027-01-15 07:58:10 UTC; limit" in told
    old = alarm.model_copy(update={"rise": None})
    told = headline(incident.model_copy(update={"alarms": (old,)}))
    assert "Hallucination rate: 6 % (4 % to 9 %) over the last hour; limit" in told


@pytest.mark.parametrize("value", [-0.0001, -0.0, 0.0, 0.0001])
def test_nothing_is_written_as_less_than_nothing(value):
    """A share a little below 0, as noise makes it, is 0 %."""
    assert percent(value) == "0 %"
    assert number(value, "hallucination") == "0 %"


@pytest.mark.parametrize(
    ("signal", "objective", "mean", "told"),
    [
        (
            "golden_answer_correctness",
            0.475,
            0.42,
            ("a mean of -0.16 over 80 scored", "limit: at most 0.05 below their own history"),
        ),
    ],
)
def test_a_mean_of_differences_is_said_as_one(signal, objective, mean, told):
    """Their scale of 0 to 1 holds differences of -1 to 1: half of it is none, and no mean score."""
    scene = Scene(None, ScriptedFinder(candidate()))
    span = AlarmSpan(since_s=START_S - 110, scored=80, mean=mean, bad=None, before=0.5)
    scene.keeper.alarm(raised(signal, objective=objective, estimate=None, span=span))
    text = as_markdown(scene.incident).replace("\\", "")
    for each in (*told, "; 0.0"):
        assert each in text


@pytest.mark.parametrize(
    ("signal", "told"),
    [("golden_availability", "at least 95 %"), ("golden_references", "at most 4 %")],
)
def test_a_share_of_golden_questions_is_said_in_percent(signal, told):
    """As that of the reference answers beside it."""
    objective = 0.95 if signal == "golden_availability" else 0.04
    bound = Wording("en").bound(objective, signal, higher_is_better="least" in told)
    assert bound == told
