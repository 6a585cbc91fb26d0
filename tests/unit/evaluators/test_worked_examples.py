"""Examples with known numbers, from the judge's verdicts to the score."""

import asyncio
import math

import pytest

from ragmonitor.evaluators import Table, evaluate_asking, table
from ragmonitor.evaluators.generated_questions import register
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.judges.llm import LlmJudge
from ragmonitor.records import (
    Assessment,
    Interaction,
    JudgeUsage,
    ReferenceReading,
    ReferenceSentence,
    Scored,
    SentenceVerdict,
    Verdict,
)
from ragmonitor.testing import ScriptedJudge
from tests.support.openai_server import OpenAiServer
from tests.support.stories import JUDGE, interaction


def told(query: str, texts: list[str], answer: str, reference: str = "") -> Interaction:
    return interaction(query=query, texts=texts, answer=answer, reference=reference)


def found(verdicts: str, **changes: object) -> Assessment:
    """Return an assessment: s supported by the first chunk, a absent, x contradicted."""
    kinds = {"s": Verdict.SUPPORTED, "a": Verdict.ABSENT, "x": Verdict.CONTRADICTED}
    sentences = tuple(
        SentenceVerdict(
            text=letter,
            start=at,
            end=at + 1,
            verdict=kinds[letter],
            chunks=(0,) if letter == "s" else (),
        )
        for at, letter in enumerate(verdicts)
    )
    fields = {"answer_relevancy": 1.0, "evasive": False, "chunk_relevance": None, **changes}
    return Assessment(judge=JUDGE, language="zh", sentences=sentences, **fields)  # type: ignore[arg-type]


def read(
    reference: list[tuple[str, tuple[int, ...], bool]], right: tuple[bool, ...] = ()
) -> ReferenceReading:
    return ReferenceReading(
        answer_claims=right,
        sentences=tuple(
            ReferenceSentence(text=text, chunks=chunks, in_answer=in_answer)
            for text, chunks, in_answer in reference
        ),
    )


def score(name: str, told: Interaction, found: Assessment) -> float:
    """Return what the evaluator makes of what a scripted judge says."""

    async def scored() -> float:
        judge = ScriptedJudge(lambda _: found)
        assessment = await judge.assess(told)
        (evaluation,), _ = await evaluate_asking(table.select([name]), told, assessment, judge)
        assert isinstance(evaluation, Scored), evaluation
        return evaluation.score

    return asyncio.run(scored())


class Questions:
    """Who gives three questions when asked for them."""

    usage = JudgeUsage(calls=1, input_tokens=10)

    def __init__(self, evasive: list[bool]) -> None:
        self._evasive = evasive

    identity = JUDGE

    async def ask(self, _instructions, *, fields, shown):
        assert set(fields) == {"questions", "evasive"}
        assert shown == ("answer",)
        return {"questions": ["0.95", "0.82", "0.78"], "evasive": self._evasive}


class Asked(ScriptedJudge):
    """A judge that can be asked."""

    evasive = (False, False, False)

    def asker(self, _told, _found):
        return Questions(list(self.evasive))


def by_cosine(texts):
    """Place each generated question at the cosine that it names from the question."""
    return [(1.0, 0.0)] + [(float(t), math.sqrt(1 - float(t) ** 2)) for t in texts[1:]]


async def relevancy_of(judge: Asked) -> float:
    own = Table()
    register(by_cosine, version=2, into=own)
    asked = told("法国的首都是哪里？", ["巴黎是法国的首都。"], "法国的首都是巴黎。")
    (evaluation,), usage = await evaluate_asking(own, asked, await judge.assess(asked), judge)
    assert isinstance(evaluation, Scored), evaluation
    assert usage == Questions.usage
    return evaluation.score


async def test_answer_relevancy_of_three_generated_questions() -> None:
    """Cosines of 0.95, 0.82 and 0.78 have the mean 0.85."""
    judge = Asked(lambda _: found("s"))
    assert await relevancy_of(judge) == pytest.approx((0.95 + 0.82 + 0.78) / 3)
    assert await relevancy_of(judge) == pytest.approx(0.85)


# The same in two languages

PAIRS = {
    "supported": (
        ("When was the tower built?", ["The tower was built in 1887.", "Cats sleep all day."]),
        "The tower was built in 1887.",
        "The tower was built in 1887.",
        ("这座塔是什么时候建成的？", ["这座塔建成于1887年。", "猫整天都在睡觉。"]),
        "这座塔建成于1887年。",
        "这座塔建成于1887年。",
    ),
    "another number": (
        ("When was the tower built?", ["The tower was built in 1887.", "Cats sleep all day."]),
        "The tower was built in 1999.",
        "The tower was built in 1887.",
        ("这座塔是什么时候建成的？", ["这座塔建成于1887年。", "猫整天都在睡觉。"]),
        "这座塔建成于1999年。",
        "这座塔建成于1887年。",
    ),
    "invented": (
        ("When was the tower built?", ["The tower was built in 1887.", "Cats sleep all day."]),
        "The tower was built in 1887. Napoleon bought expensive horses.",
        "The tower was built in 1887. Cats sleep all day.",
        ("这座塔是什么时候建成的？", ["这座塔建成于1887年。", "猫整天都在睡觉。"]),
        "这座塔建成于1887年。拿破仑购买昂贵马匹。",
        "这座塔建成于1887年。猫整天都在睡觉。",
    ),
    "refusal": (
        ("When was the tower built?", ["Cats sleep all day."]),
        "I do not know.",
        "The tower was built in 1887.",
        ("这座塔是什么时候建成的？", ["猫整天都在睡觉。"]),
        "我不知道。",
        "这座塔建成于1887年。",
    ),
}


def essence(assessment: Assessment) -> object:
    """Return all of an assessment that is no text and no number of a language."""
    assert assessment.sentences is not None
    assert assessment.reference is not None
    return (
        [(s.verdict, s.chunks, s.reasons) for s in assessment.sentences],
        assessment.evasive,
        [relevance >= 0.5 for relevance in assessment.chunk_relevance or ()],
        assessment.reference.answer_claims,
        [(s.chunks, s.in_answer) for s in assessment.reference.sentences],
    )


def scores(told: Interaction, assessment: Assessment) -> dict[str, float | str]:
    from ragmonitor.evaluators import evaluate

    names = [entry.name for entry in table if "similarity" not in entry.name]
    evaluations = evaluate(table.select(names), told, assessment)
    return {
        e.evaluator: e.score if isinstance(e, Scored) else e.cause.value
        for e in evaluations
        if not e.evaluator.startswith(("answer_correctness", "context_rouge_l"))
    }


def both(name: str) -> tuple[Interaction, Interaction]:
    english, answer, reference, chinese, zh_answer, zh_reference = PAIRS[name]
    return told(*english, answer, reference), told(*chinese, zh_answer, zh_reference)


@pytest.mark.parametrize("name", PAIRS)
def test_the_builtin_judge_says_the_same_in_both_languages(name: str) -> None:
    """A case and its translation have the same verdicts, evidence and scores."""
    english, chinese = both(name)
    judge = BuiltinJudge()
    read_en, read_zh = judge.read(english), judge.read(chinese)
    assert (read_en.language, read_zh.language) == ("en", "zh")
    assert essence(read_en) == essence(read_zh)
    assert scores(english, read_en) == pytest.approx(scores(chinese, read_zh), abs=0.1)


@pytest.mark.parametrize("name", PAIRS)
async def test_a_model_says_the_same_in_both_languages(name: str) -> None:
    """Prompts in two languages, one kind of reply; two calls each, for there is a reference."""
    english, chinese = both(name)
    with OpenAiServer() as server:
        judge = LlmJudge(
            "openai/judge", api_base=server.api_base, api_key="none", budget_unit="tokens"
        )
        read_en, read_zh = await judge.assess(english), await judge.assess(chinese)
        await judge.close()
        assert len(server.chats) == 4
    assert essence(read_en) == essence(read_zh)
    assert scores(english, read_en) == pytest.approx(scores(chinese, read_zh))
