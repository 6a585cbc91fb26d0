"""The built-in judge reads traditional Chinese as it reads simplified Chinese."""

import pytest

from ragmonitor.evaluators.citations import numbers
from ragmonitor.judges.builtin import BuiltinJudge, assess
from ragmonitor.records import Verdict
from tests.support.stories import interaction

CHUNK = "該產品不防水。保固期為兩年。公司共有300萬名會員，營業時間為週一至週五。"


@pytest.mark.parametrize(
    "answer",
    [
        "抱歉，我無法回答這個問題。",
        "根據資料，無法確定答案。",
        "資料中沒有提到這個問題。",
        "很抱歉，沒有找到相關資訊。",
        "對不起，我不知道。",
    ],
)
def test_a_refusal_is_known(answer: str):
    """It is evasive, and no invention."""
    assert assess("保固多久？", [CHUNK], answer).evasive is True


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        ("該產品防水。", Verdict.CONTRADICTED, ("品防", "防水")),
        ("公司共有500萬名會員。", Verdict.CONTRADICTED, ("500萬",)),
        ("公司共有300名會員。", Verdict.CONTRADICTED, ("300",)),
        ("保固期為2年。", Verdict.SUPPORTED, ()),
        ("營業時間為週六。", Verdict.CONTRADICTED, ("週六",)),
        ("该产品不防水，公司共有三百万名会员。", Verdict.SUPPORTED, ()),
    ],
)
def test_a_claim_is_judged_and_quoted_as_it_was_written(answer, verdict, words):
    """Negations, numbers and days are read, beside simplified Chinese too; texts stay the same."""
    (sentence,) = assess("", [CHUNK], answer).sentences or ()
    assert (sentence.verdict, sentence.words) == (verdict, words)
    assert sentence.text == answer


def test_a_sentence_of_the_reference_is_quoted_as_it_was_written():
    """The reference answer is compared like the answer."""
    told = interaction(texts=(CHUNK,), answer="该产品不防水。", reference="該產品不防水。")
    reference = BuiltinJudge().read(told).reference
    assert reference is not None
    (sentence,) = reference.sentences
    assert (sentence.text, sentence.chunks, sentence.in_answer) == ("該產品不防水。", (0,), True)
    assert reference.answer_claims == (True,)


def test_sources_are_cited_in_traditional_characters():
    """`[資料2]` and `[來源3]` cite as `[资料2]` does."""
    assert numbers("保固兩年[資料2][來源3]。") == [2, 3]
