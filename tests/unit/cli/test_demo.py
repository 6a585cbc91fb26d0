"""The demo's parts: deterministic, and spoiled answers are different answers."""

from __future__ import annotations

import random

import pytest

from ragmonitor.cli.demo.answerer import (
    PROMPT,
    REFUSAL,
    REFUSAL_CHINESE,
    ExtractiveAnswerer,
)
from ragmonitor.cli.demo.documents import load_documents
from ragmonitor.cli.demo.spikes import Schedule, spoil
from ragmonitor.cli.demo.terms import Weights
from ragmonitor.judges import BuiltinJudge
from tests.support import stories

TEXTS = [
    "The queue holds 10000 finished interactions. A full queue refuses the next one.",
    "The **judge** reads a share of the answers; its budget is mandatory.",
    "内置评审在几毫秒内为每个回答打分，不需要模型，也不需要网络。",
]
WEIGHTS = Weights(TEXTS)


CONTEXT = "\n\n".join(TEXTS)


def answer(question, context=CONTEXT):
    return ExtractiveAnswerer(WEIGHTS)(PROMPT.format(context=context, question=question))


def test_chinese_questions_have_chinese_answers():
    """Pairs of characters stand in for words."""
    assert answer("内置评审需要网络吗？") == TEXTS[2]


@pytest.mark.parametrize("refusal", [REFUSAL, REFUSAL_CHINESE])
def test_the_builtin_judge_takes_a_refusal_for_one(refusal):
    """Else refusals would look like hallucinations."""
    told = stories.interaction(answer=refusal)
    assert BuiltinJudge().read(told).evasive is True


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("text", [TEXTS[0], TEXTS[2]])
def test_the_builtin_judge_sees_that_an_answer_is_spoiled(text, seed):
    """Else there would be no spike to see."""
    spoiled = spoil(text, random.Random(seed))
    judge = BuiltinJudge()
    good = judge.read(stories.interaction(answer=text, texts=TEXTS))
    bad = judge.read(stories.interaction(answer=spoiled, texts=TEXTS))
    assert good.hallucinated is False
    assert bad.hallucinated is True


def test_the_documents_are_this_projects_own():
    """With a reference that is written from the code."""
    documents = load_documents()
    assert "sample.rate" in documents["reference/settings.md"]
    assert "faithfulness" in documents["reference/evaluators.md"]


def test_an_installed_package_brings_its_documents(monkeypatch, tmp_path):
    """Where no clone is around it."""
    folder = tmp_path / "ragmonitor" / "cli" / "documents"
    (folder / "docs" / "zh").mkdir(parents=True)
    (folder / "README.md").write_text("Read me.")
    (folder / "docs" / "zh" / "overview.md").write_text("简介", encoding="utf-8")
    monkeypatch.setattr("ragmonitor.__file__", str(tmp_path / "ragmonitor" / "__init__.py"))
    documents = load_documents()
    assert documents["README.md"] == "Read me."
    assert documents["docs/zh/overview.md"] == "简介"


def test_a_demo_that_ends_has_one_spike_and_recovers():
    """40 % before, 30 % in it, 30 % after; one without an end has it again and again."""
    schedule = Schedule.within(10)
    assert [schedule.phase(at_s) for at_s in (3.9, 4.1, 6.9, 7.1)] == [
        "before",
        "during",
        "during",
        "after",
    ]
    assert [Schedule().phase(at_s) for at_s in (61, 106, 286)] == ["during", "after", "during"]
