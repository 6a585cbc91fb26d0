"""The demo's parts: deterministic, and spoiled answers are different answers."""

from __future__ import annotations

import random

import pytest

from ragmonitor.cli.demo.answerer import (
    PROMPT,
    REFUSAL,
    REFUSAL_CHINESE,
    ExtractiveAnswerer,
    Weights,
)
from ragmonitor.cli.demo.documents import load_documents
from ragmonitor.cli.demo.traffic import Schedule, spoil
from ragmonitor.judges import BuiltinJudge
from tests.support import stories

TEXTS = [
    "The queue holds 10000 finished interactions. A full queue refuses the next one.",
    "内置评审在几毫秒内为每个回答打分，不需要模型，也不需要网络。",
]


def test_a_question_is_answered_by_a_quote_or_declined():
    """Pairs of characters stand in for Chinese words."""
    answer = ExtractiveAnswerer(Weights(TEXTS))

    def asked(question):
        return answer(PROMPT.format(context="\n\n".join(TEXTS), question=question))

    assert asked("内置评审需要网络吗？") == TEXTS[1]
    assert asked("Why does a full queue refuse?") == "A full queue refuses the next one."
    assert asked("How do I bake sourdough bread?") == REFUSAL
    judge = BuiltinJudge()
    for refusal in (REFUSAL, REFUSAL_CHINESE):
        assert judge.read(stories.interaction(answer=refusal)).evasive is True


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("text", TEXTS)
def test_the_builtin_judge_sees_that_an_answer_is_spoiled(text, seed):
    """Else there would be no spike to see."""
    spoiled = spoil(text, random.Random(seed))
    judge = BuiltinJudge()
    assert judge.read(stories.interaction(answer=text, texts=TEXTS)).hallucinated is False
    assert judge.read(stories.interaction(answer=spoiled, texts=TEXTS)).hallucinated is True


def test_an_installed_package_brings_its_documents(monkeypatch, tmp_path):
    """Where no clone is around it; the settings are written from the code."""
    folder = tmp_path / "ragmonitor" / "cli" / "documents"
    (folder / "docs" / "zh").mkdir(parents=True)
    (folder / "README.md").write_text("Read me.")
    (folder / "docs" / "zh" / "overview.md").write_text("简介", encoding="utf-8")
    monkeypatch.setattr("ragmonitor.__file__", str(tmp_path / "ragmonitor" / "__init__.py"))
    documents = load_documents()
    assert documents["README.md"] == "Read me."
    assert documents["docs/zh/overview.md"] == "简介"
    assert "sample.rate" in documents["docs/settings.md"]


def test_a_demo_that_ends_has_one_spike_and_recovers():
    """40 % before, 30 % in it, 30 % after; one without an end has it again and again."""
    schedule, endless = (Schedule(began_s=1000, seconds=seconds) for seconds in (10, None))
    assert [schedule.phase(1000 + at_s) for at_s in (3.9, 4.1, 6.9, 7.1)] == [
        "before",
        "during",
        "during",
        "after",
    ]
    assert [endless.phase(1000 + at_s) for at_s in (61, 106, 286)] == ["during", "after", "during"]
