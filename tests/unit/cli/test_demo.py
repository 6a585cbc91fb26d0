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
from ragmonitor.cli.demo.collector import Collector
from ragmonitor.cli.demo.documents import load_documents
from ragmonitor.cli.demo.phases import SLACK_S, DemoClock, Schedule
from ragmonitor.cli.demo.run import _judging
from ragmonitor.cli.demo.screen import chart, screen
from ragmonitor.cli.demo.spoiler import spoil
from ragmonitor.cli.demo.terms import Weights
from ragmonitor.cli.options import DemoOptions
from ragmonitor.judges import BuiltinJudge
from ragmonitor.records import (
    CERTAIN,
    Report,
    Scored,
    SentenceVerdict,
    Verdict,
)
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


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("text", [TEXTS[0], TEXTS[2]])
def test_the_builtin_judge_sees_that_an_answer_is_spoiled(text, seed):
    """Else there would be no spike to see."""
    spoiled = spoil(text, random.Random(seed))
    judge = BuiltinJudge()
    good = judge.read(stories.interaction(answer=text, texts=TEXTS))
    bad = judge.read(stories.interaction(answer=spoiled, texts=TEXTS))
    assert good.hallucinated is False
    assert bad.hallucinated is True


def test_a_demo_that_ends_has_one_spike():
    """40 % before it, 30 % of it, 30 % after it."""
    schedule = Schedule.within(100)
    assert [schedule.phase(s) for s in (0, 39, 41, 69, 71, 99, 400)] == (
        ["before", "before", "during", "during", "after", "after", "after"]
    )


def test_the_demos_time_waits_for_its_askers():
    """A machine that cannot ask at the rate takes longer; nothing is left out of the spike."""
    now_s = 100.0
    clock = DemoClock(Schedule.within(10), now_s=lambda: now_s)
    for second in range(1, 4):
        clock.asking("a", second)
        now_s += 1
        assert clock.elapsed_s == clock.real_s == second
    clock.asking("a", 3)
    now_s += 1  # its question takes so long
    assert clock.elapsed_s == 3 + SLACK_S
    assert clock.phase == "before"
    clock.asking("a", 10)
    clock.asking("b", 10)
    now_s += 1
    assert clock.elapsed_s == 4 + SLACK_S
    assert clock.spike == (5, 7 + SLACK_S)
    now_s += 30
    assert clock.elapsed_s > 10 + SLACK_S  # nobody asks for so long: it goes on, slowly
    assert clock.phase == "after"


def test_the_judge_reads_the_share_that_the_settings_name(monkeypatch):
    """Without one: all answers, or half of them where the judge is the cause."""
    assert _judging(DemoOptions())["sample"] == 1.0
    assert _judging(DemoOptions(cause="judge"))["sample"] == 0.5
    monkeypatch.setenv("RAGMONITOR_SAMPLE", "0.3")
    assert "sample" not in _judging(DemoOptions())


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


def report(framework, started_ns, score=0.0):
    told = stories.interaction(framework=framework, started_ns=started_ns, ended_ns=started_ns)
    verdict = SentenceVerdict(
        text="It is *3* metres.", start=0, end=17, verdict=Verdict.ABSENT, words=("3",)
    )
    assessed = stories.assessment(sentences=(verdict,), risk=0.9)
    scored = Scored(evaluator="faithfulness@1", judge=stories.JUDGE, score=score)
    return Report(
        interaction=told,
        judge=stories.JUDGE,
        role="builtin",
        evaluations=(scored,),
        assessment=assessed,
        decision=CERTAIN,
    )


def test_the_picture_shows_the_spike_and_the_missing_words():
    """On a terminal of any width."""
    from rich.console import Console

    collector = Collector(bin_s=1)
    for second in range(20):
        spiked = 8 <= second < 14
        collector.asking("a", "during" if spiked else "before")
        collector._asked_at["a"][-1] = (second, "during" if spiked else "before")
        collector.began_ns = -int(second * 1e9)
        collector.export(report("a", second, score=0.0 if spiked else 1.0))
    for width in (20, 80, 200):
        console = Console(width=width, record=True, file=None, force_terminal=False, quiet=True)
        console.print(
            screen(
                collector,
                phase="during",
                elapsed_s=9,
                width=width,
                title="t",
                footer=["metrics: x"],
            )
        )
    text = str(chart(collector, width=40))
    assert text.splitlines()[0].endswith("████████      ██████")
