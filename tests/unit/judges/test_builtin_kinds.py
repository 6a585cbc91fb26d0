"""Kinds of answers that the built-in judge must read right: quantities, clauses, sources."""

from __future__ import annotations

from itertools import permutations

import pytest

from ragmonitor.judges.builtin import assess
from ragmonitor.judges.builtin.quantities import chinese_value
from ragmonitor.judges.sentences import split
from ragmonitor.records import Verdict

SUPPORTED, ABSENT, NO_CLAIM = Verdict.SUPPORTED, Verdict.ABSENT, Verdict.NO_CLAIM


def verdicts(chunk: str, answer: str) -> list[Verdict]:
    """Return the verdicts on the sentences of an answer, or on their clauses."""
    return [each.verdict for each in assess("", [chunk], answer).sentences or ()]


@pytest.mark.parametrize(
    ("chunk", "answer", "clause"),
    [
        (
            "The sauna may be used until 10 pm.",
            "The sauna may be used until 10 pm and towels cost extra.",
            "and towels cost extra.",
        ),
        (
            "The sauna may be used until 10 pm.",
            "The sauna may be used until 10 pm, massage is offered too.",
            "massage is offered too.",
        ),
        ("桑拿房开放至晚上十点。", "桑拿房开放至晚上十点，毛巾免费提供。", "毛巾免费提供。"),
    ],
)
def test_a_clause_without_support_is_a_finding(chunk: str, answer: str, clause: str):
    """It is named, and the rest of the sentence is supported."""
    found = assess("", [chunk], answer).sentences or ()
    assert [(each.verdict, each.text) for each in found if each.verdict is not SUPPORTED] == [
        (ABSENT, clause)
    ]
    assert SUPPORTED in [each.verdict for each in found]


AMOUNTS = ["$45M", "USD 45 million", "45 million dollars", "45,000,000 US dollars", "US$0.045 bn"]


@pytest.mark.parametrize(("one", "other"), [*permutations(AMOUNTS, 2)])
def test_an_amount_is_one_however_it_is_written(one: str, other: str):
    """Signs, codes, names and scales of a currency are read alike."""
    assert verdicts(f"The bridge cost {one}.", f"The bridge cost {other}.") == [SUPPORTED]


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        ("The bridge cost $45M.", "The bridge cost EUR 45 million."),
        ("气温为零下8度。", "气温为8度。"),
        ("院子面积为40平方米。", "院子面积为40平方英尺。"),
        ("本校由技术部李建国牵头。", "本校由技术部李建军牵头。"),
        ("It is said that the loan lasts five weeks.", "**The loan lasts nine weeks.**"),
    ],
)
def test_another_currency_sign_unit_or_name_is_flagged(chunk: str, answer: str):
    """So is a single sentence in bold, which is no heading."""
    assert SUPPORTED not in verdicts(chunk, answer)
    assert NO_CLAIM not in verdicts(chunk, answer)


@pytest.mark.parametrize(
    ("chunk", "answer"),
    [
        ("成立于1998年6月，现有员工2万人。", "成立于 1998 年 6 月，现有员工 2 万人。"),
        ("包裹重2.5千克。", "包裹重2.5公斤。"),
        ("The fee is 40 euros a month for 3 months.", "The fee is 120 euros for 3 months."),
        ("The talk lasts from 1 pm to 4 pm.", "The talk lasts 3 hours."),
        ("The temperature fell to -7 degrees.", "The temperature fell to minus 7 degrees."),
    ],
)
def test_the_same_quantity_or_one_that_follows_is_supported(chunk: str, answer: str):
    """Spaces, scales and units of either language, products, durations and weekdays."""
    assert set(verdicts(chunk, answer)) == {SUPPORTED}


@pytest.mark.parametrize(
    ("numeral", "value"),
    [("七亿六千万", 7.6e8), ("一亿零五百万", 1.05e8), ("二万五千亿", 2.5e12), ("三百五", 350)],
)
def test_scales_add_up_or_multiply(numeral: str, value: float):
    """亿 before 万 adds, 万 before 亿 multiplies."""
    assert chinese_value(numeral) == value


@pytest.mark.parametrize(
    "answer",
    [
        "False.",
        "Option C",
        "错误",
        "我是智能小助手。",
        "关于停车，请联系前台。",
        "<think>The loan lasts nine weeks.</think>",
    ],
)
def test_what_says_nothing_of_the_matter_is_no_claim(answer: str):
    """Answers of one word, introductions, declined halves, sources and thoughts."""
    assert set(verdicts("The loan lasts five weeks.", answer)) <= {NO_CLAIM}


@pytest.mark.parametrize(
    "marker", ["(guide.pdf, p. 3)", "[citation:2]", "[^4^]", "（指南.pdf 第3页）"]
)
def test_a_source_in_brackets_is_no_part_of_the_claim(marker: str):
    """Files, pages and marks of citations are left out."""
    assert verdicts("The loan lasts five weeks.", f"The loan lasts five weeks {marker}.") == [
        SUPPORTED
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>\nNine?\n</think>\n\nFive weeks.", ["Five weeks."]),
        ("Nine weeks, perhaps.\n</think>\n\nFive weeks.", ["Five weeks."]),
        ("<seed:think>\nNine?\n</seed:think>\n\nFive weeks.", ["Five weeks."]),
        ("<thinking>Cut off", []),
        ("Put the draft into the <think> tag.", ["Put the draft into the <think> tag."]),
    ],
)
def test_thoughts_are_no_sentences(text: str, said: list[str]):
    """The others stand where they stood."""
    found = split(text)
    assert [each.text for each in found] == said
    assert all(text[each.start : each.end] == each.text for each in found)


def test_an_answer_in_another_language_than_all_chunks_is_not_read():
    """Also where numbers agree."""
    assert assess("多久？", ["The loan lasts 5 weeks."], "借期为5周。").sentences is None
