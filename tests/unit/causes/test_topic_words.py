"""What topics of questions are about: their typical words, or a question of theirs."""

from __future__ import annotations

import pytest

from ragmonitor import Settings
from ragmonitor.causes import topic_words
from ragmonitor.causes.topic_words import TopicWords, titles
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.wiring import estimates_of
from tests.unit.causes.test_slices import answer

RETURNS = [f"How do I return a parcel from {city}?" for city in ("Paris", "Rome", "Oslo")]
SETTINGS = [f"What is the default of the setting {each}?" for each in ("rate", "judge", "budget")]
REFUNDS = ["怎么申请退款到账？", "退款多久到账？", "我的退款还没到账", "退款到账时间是多久"]


def test_a_topic_is_called_by_the_words_that_tell_it_from_the_others():
    """Words of questions about anything, and of one question alone, say nothing."""
    found = titles({"topic-00": RETURNS, "topic-01": SETTINGS})
    assert set(found["topic-00"].split(", ")) == {"return", "parcel"}
    assert set(found["topic-01"].split(", ")) == {"default", "setting"}


def test_a_word_that_all_topics_share_is_typical_of_none():
    """Every question names the product."""
    questions = {
        "topic-00": [f"acme {each}" for each in RETURNS],
        "topic-01": [f"acme {each}" for each in SETTINGS],
    }
    assert not [each for each in titles(questions).values() if "acme" in each]


def test_chinese_topics_have_words_too():
    """Parts of what is written without spaces, none of them within another one."""
    assert set(titles({"topic-00": REFUNDS, "topic-01": RETURNS})["topic-00"].split(", ")) == {
        "退款",
        "到账",
    }


def test_a_topic_without_typical_words_quotes_its_most_typical_question():
    """The one that has most in common with the others; a long one is cut."""
    asked = ["Where is the office?", "Is the office open today?", "Who leads sales?"]
    assert titles({"topic-00": asked})["topic-00"] in {f"“{each}”" for each in asked[:2]}
    quoted = titles({"topic-00": ["why " * 100]})["topic-00"]
    assert len(quoted) == topic_words.MAX_QUOTED + 2
    assert quoted.endswith("…”")


def test_a_quoted_question_commands_no_terminal():
    """It is one line of what prints: titles stand in tables of the command line, too."""
    asked = ["Is \x1b[31mthe\x07 office\nopen\r\u202etoday?\x00"]
    assert titles({"topic-00": asked})["topic-00"] == "“Is [31mthe office open today?”"


def test_the_part_learns_from_answers_and_keeps_few_questions():
    """It names a slice by its topic, and nothing else; the oldest questions are let go of."""
    now = [0.0]
    part = TopicWords(lambda interaction: interaction.attributes["t"], clock=lambda: now[0])
    assert part.views() == {}
    for number in range(50):
        part.add(
            answer(number, query=f"How do I return parcel {number}?", attributes={"t": "topic-03"})
        )
        part.add(answer(number, query="Something?", attributes={"t": ""}))
    now[0] += topic_words.EVERY_S
    assert part.of(("topic", "topic-03")) == "parcel, return"
    assert part.of(("route", "topic-03")) == part.of(("topic", "topic-04")) == ""
    assert part.views() == {"topics": {"topic-03": "parcel, return"}}
    assert len(part._questions["topic-03"]) == topic_words.MAX_QUESTIONS
    part.clear()
    assert part.views() == {}


@pytest.mark.parametrize(("content", "expected"), [("all", 1), ("hashed", 0), ("none", 0)])
def test_without_texts_a_topic_stays_a_number(content, expected):
    """Its words are texts of users."""
    settings = Settings(service="shop", content={"policy": content})
    parts = estimates_of(settings, BuiltinJudge(), None).parts
    assert sum(isinstance(each, TopicWords) for each in parts) == expected


def test_that_an_embedding_of_ones_own_leaves_no_rates_by_topic_is_said(caplog):
    """By it a topic is known only after the answer was counted."""
    estimation = {"group_by": ["topic"], "embedding": lambda texts: [[1.0]] * len(texts)}
    estimates_of(Settings(service="shop", estimation=estimation), BuiltinJudge(), None).close()
    assert "group_by=topic gives no rates" in caplog.text
