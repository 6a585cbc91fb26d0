"""The demo's parts: deterministic, and spoiled answers are different answers."""

from __future__ import annotations

import io
import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.cli.demo.answerer import (
    PROMPT,
    REFUSAL,
    REFUSAL_CHINESE,
    ExtractiveAnswerer,
    parts,
    plain,
    readable_sentences,
)
from ragmonitor.cli.demo.collector import Collector
from ragmonitor.cli.demo.demo_questions import IN_CHINESE, questions
from ragmonitor.cli.demo.documents import load_documents
from ragmonitor.cli.demo.phases import SLACK_S, DemoClock, Schedule
from ragmonitor.cli.demo.run import _judging
from ragmonitor.cli.demo.screen import alarm_line, chart, screen
from ragmonitor.cli.demo.spoiler import spoil
from ragmonitor.cli.demo.term_vectors import DIMENSIONS, TermVectors
from ragmonitor.cli.demo.terms import Weights, terms
from ragmonitor.cli.demo.traffic import SpoilableModel
from ragmonitor.cli.options import DemoOptions
from ragmonitor.judges import BuiltinJudge
from ragmonitor.records import (
    CERTAIN,
    AlarmEvent,
    AlarmSpan,
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


def test_the_best_sentence_of_the_context_is_the_answer():
    """Verbatim, without its marks, and the same at every call."""
    assert answer("How many finished interactions does the queue hold?") == (
        "The queue holds 10000 finished interactions."
    )
    assert answer("Is a budget mandatory?").startswith("The judge reads a share")
    assert answer("Is a budget mandatory?") == answer("Is a budget mandatory?")


def test_what_the_chunker_cut_ends_with_a_stop():
    """Else the judge would read two sentences as one."""
    cut = "The queue holds 10000 interactions, and\n\nThe queue refuses what is beyond 10000."
    assert answer("How much does the queue hold, 10000?", cut).startswith("The queue holds")
    assert "interactions, and." in answer("How many interactions does the queue hold?", cut)


def test_chinese_questions_have_chinese_answers():
    """Pairs of characters stand in for words."""
    assert answer("内置评审需要网络吗？") == TEXTS[2]


def test_what_the_context_does_not_say_is_declined():
    """In the question's language."""
    assert answer("When does the last train to Edinburgh leave?") == REFUSAL
    assert answer("今天北京的天气怎么样？") == REFUSAL_CHINESE
    assert answer("???") == REFUSAL
    assert answer("Is a budget mandatory?", context="") == REFUSAL


@pytest.mark.parametrize("refusal", [REFUSAL, REFUSAL_CHINESE])
def test_the_builtin_judge_takes_a_refusal_for_one(refusal):
    """Else refusals would look like hallucinations."""
    told = stories.interaction(answer=refusal)
    assert BuiltinJudge().read(told).evasive is True


@given(context=st.text(), question=st.text(alphabet=st.characters(exclude_characters="\n")))
def test_any_prompt_is_answered(context, question):
    """A model never raises."""
    prompt = PROMPT.format(context=context, question=question)
    assert parts(prompt)[0] == context
    assert ExtractiveAnswerer(WEIGHTS)(prompt)


def test_marks_are_no_part_of_an_answer():
    """Links, emphasis, lists, tables and code become plain text or are left out."""
    assert plain("- **See** the [docs](docs/x.md) of `Monitor`.") == "See the docs of Monitor."
    assert plain("| `a_b` | gauge | |") == "a_b: gauge"
    assert plain("**Budget.** It is spent.") == "It is spent."
    assert plain("Set `A__B=true` for __it__.") == "Set A__B=true for it."
    found = readable_sentences("# A heading of four words\n\n```\nsome code in a block\n```\n")
    assert found == []


def test_terms_are_stems_parts_and_pairs():
    """What is asked and what is written meet in them."""
    assert set(terms("judges")) == set(terms("the judge"))
    assert {"judge_rate", "judg", "rate"} <= set(terms("judge_rate"))
    assert list(terms("忠实度")) == ["忠实", "实度"]


@given(text=st.text())
def test_embeddings_are_unit_vectors_and_always_the_same(text):
    """Of one length, whatever the text."""
    vector = TermVectors(WEIGHTS)(text)
    assert len(vector) == DIMENSIONS
    assert math.isclose(sum(value * value for value in vector), 1.0)
    assert vector == TermVectors(Weights(TEXTS))(text)


@pytest.mark.parametrize("question", ["How full may the queue be?", "评审需要网络吗？"])
def test_embeddings_find_what_is_spoken_of(question):
    """Nearest by the angle."""
    embed = TermVectors(WEIGHTS)
    asked = embed(question)
    near = [sum(a * b for a, b in zip(asked, embed(text), strict=True)) for text in TEXTS]
    assert near.index(max(near)) == (0 if "queue" in question else 2)


@given(text=st.text(), seed=st.integers())
def test_a_spoiled_answer_is_another_answer(text, seed):
    """And the same one for the same seed."""
    spoiled = spoil(text, random.Random(seed))
    assert spoiled != text
    assert spoiled == spoil(text, random.Random(seed))


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


def test_refusals_are_spoiled_into_claims():
    """The worst kind: it should have said that it does not know."""
    assert "know" not in spoil(REFUSAL, random.Random(1))


def test_a_model_is_spoiled_only_on_command():
    """And back to itself afterwards."""
    model = SpoilableModel(lambda _: TEXTS[0])
    assert model("x") == TEXTS[0]
    model.spoiled_with = "1"
    assert model("x") != TEXTS[0]
    model.spoiled_with = None
    assert model("x") == TEXTS[0]


def test_a_demo_that_ends_has_one_spike():
    """40 % before it, 30 % of it, 30 % after it."""
    schedule = Schedule.within(100)
    assert [schedule.phase(s) for s in (0, 39, 41, 69, 71, 99, 400)] == (
        ["before", "before", "during", "during", "after", "after", "after"]
    )


def test_an_endless_demo_has_one_again_and_again():
    """Every few minutes."""
    schedule = Schedule()
    assert [schedule.phase(s) for s in (59, 61, 104, 106, 284, 286, 331)] == (
        ["before", "during", "during", "after", "after", "during", "after"]
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


def test_the_demos_time_is_real_time_where_nobody_is_behind():
    """An asker that has stopped holds nothing; nor does one of a model that takes its time."""
    now_s = 0.0
    clock = DemoClock(Schedule(), now_s=lambda: now_s)
    clock.asking("a", 1)
    clock.stopped("a")
    real = DemoClock(Schedule(), slowest=1.0, now_s=lambda: now_s)
    real.asking("a", 1)
    now_s = 70.0
    assert clock.elapsed_s == real.elapsed_s == 70
    assert clock.phase == real.phase == "during"


def test_the_judge_reads_the_share_that_the_settings_name(monkeypatch):
    """Without one: all answers, or half of them where the judge is the cause."""
    assert _judging(DemoOptions())["sample"] == 1.0
    assert _judging(DemoOptions(cause="judge"))["sample"] == 0.5
    monkeypatch.setenv("RAGMONITOR_SAMPLE", "0.3")
    assert "sample" not in _judging(DemoOptions())


def test_questions_are_the_same_for_the_same_seed():
    """And go through all of them before one comes again."""
    first = list(itertools.islice(questions("7", chinese=True), 300))
    assert first == list(itertools.islice(questions("7", chinese=True), 300))
    assert len(set(first)) >= 40
    assert set(IN_CHINESE) <= set(first)
    assert not set(IN_CHINESE) & set(itertools.islice(questions("7", chinese=False), 300))


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


def test_an_answer_belongs_to_the_phase_in_which_it_was_asked():
    """Even if it comes back in the next one."""
    collector = Collector(bin_s=1)
    collector._asked_at["a"] = [(100, "before"), (200, "during")]
    collector._asked_at["b"] = [(150, "during")]
    collector.export(report("a", 199))
    collector.export(report("a", 200))
    collector.export(report("b", 199))
    assert collector.phases["before"].interactions == 1
    assert collector.phases["during"].interactions == 2


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


def test_what_the_gate_decided_is_on_the_picture():
    """In a line of its own; without a new version there is none."""
    from rich.console import Console

    console = Console(width=80, file=io.StringIO())
    parts = {"phase": "during", "elapsed_s": 9, "width": 80, "title": "t", "footer": []}
    console.print(screen(Collector(bin_s=1), **parts, gate="gate: worse: 1.1 against 1.0"))
    assert "gate: worse: 1.1 against 1.0" in console.file.getvalue()


def test_an_alarm_is_on_the_picture_until_it_is_cleared():
    """With the objective and what was found; alarms about the input are not among it."""

    def event(*, raised, kind="quality"):
        return AlarmEvent(
            signal="hallucination" if kind == "quality" else "weak_retrieval",
            judge="j",
            kind=kind,
            raised=raised,
            at_s=0.0,
            since_s=0.0,
            evidence_s=86_400 * 30.0,
            threshold_s=86_400 * 30.0,
            objective=0.15,
            span=AlarmSpan(since_s=0.0, scored=60, mean=0.5, bad=31, before=0.004),
        )

    collector = Collector(bin_s=1)
    assert str(alarm_line(collector)) == ""
    collector.alarm(event(raised=True))
    collector.alarm(event(raised=True, kind="input"))
    assert (
        "hallucination, objective at most 0.15; since 1970-01-01 00:00 UTC, 31 of 60 scored "
        "answers; 0.4 % before"
    ) in str(alarm_line(collector))
    collector.alarm(event(raised=False))
    assert str(alarm_line(collector)) == ""
