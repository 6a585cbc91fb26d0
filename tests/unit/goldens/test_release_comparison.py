"""Two releases on the same golden questions: what is decided, and what is said of each question."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.goldens.golden import Golden
from ragmonitor.goldens.release_comparison import as_json, compare_releases, junit, markdown
from ragmonitor.goldens.scored_runs import (
    ScoredGolden,
    ScoredRun,
    ask_and_score,
    read_scored_run,
    write_scored_run,
)
from ragmonitor.runtime.errors import InputError

SCORED_BY = ("builtin@5", "answer_correctness@1")
NAME = "answer_correctness"


def run(*scores, scored_by=SCORED_BY, name=NAME):
    """Return a run; each question has a score, or None where there was no answer."""
    goldens = []
    for n, score in enumerate(scores):
        came = {"error": "timeout: late"} if score is None else {"scores": {name: score}}
        goldens.append(ScoredGolden(id=f"{n}", question=f"q{n}", asked="", **came))
    return ScoredRun(scored_by=scored_by, goldens=tuple(goldens))


def compared(candidate, baseline, max_drop=0.02, **options):
    return compare_releases(candidate, baseline, max_drop=max_drop, **options)


@pytest.mark.parametrize(
    ("now", "decision"),
    [
        ([1.0] * 300, "better"),
        ([0.5] * 300, "equivalent"),
        ([0.1] * 300, "worse"),
        ([1.0, 0.0] * 10, "undecided"),
    ],
)
def test_the_whole_interval_decides(now, decision):
    assert compared(run(*now), run(*[0.5] * len(now))).decision == decision


def test_few_questions_without_a_change_decide_nothing():
    """Twenty that are right twice do not show that of all questions not one in fifty broke."""
    found = compared(run(*[1.0] * 20), run(*[1.0] * 20))
    assert found.decision == "undecided"
    assert found.passes
    assert "20 questions leave the interval too wide" in found.why


def test_a_question_without_an_answer_was_answered_worst():
    """Of a score that is the better the lower it is, too."""
    found = compared(run(None, 1.0), run(1.0, 1.0))
    assert found.of("broken")[0].golden.error
    of_hallucination = {"name": "hallucination", "scored_by": ("builtin@5", "hallucination@1")}
    lower = compared(
        run(None, 0.0, **of_hallucination),
        run(0.0, 0.0, **of_hallucination),
        signal="hallucination",
    )
    assert [each.change for each in lower.questions] == ["broken", "same"]


@pytest.mark.parametrize(
    "other", [("builtin@6", "answer_correctness@1"), ("builtin@5", "answer_correctness@2")]
)
def test_another_ruler_is_refused(other):
    with pytest.raises(InputError, match="other rules"):
        compared(run(1.0), run(1.0, scored_by=other))


@settings(max_examples=40)
@given(st.text(max_size=50), st.text(max_size=200))
def test_whatever_an_application_says_the_files_can_be_read(tmp_path_factory, question, said):
    """XML has no control characters, a table's row no line feed, and a mention reaches nobody."""
    path = tmp_path_factory.mktemp("run") / "scored.jsonl"
    golden = ScoredGolden(
        id="0",
        asked="",
        question=question.encode("utf-8", "replace").decode(),
        answer=said.encode("utf-8", "replace").decode(),
        scores={NAME: 0.0},
        shortcomings=("@team <script> | x",),
    )
    candidate = ScoredRun(scored_by=SCORED_BY, goldens=(golden,))
    write_scored_run(path, candidate)
    assert read_scored_run(path) == candidate
    found = compared(candidate, run(1.0))
    ET.fromstring(junit(candidate, found))
    text = markdown(found)
    assert "<script>" not in text
    assert r"\@team" in text
    assert as_json(candidate, found)["changes"][0]["change"] == "broken"


def test_an_answer_of_a_framework_s_own_text_class_can_be_kept(tmp_path):
    """LangChain's messages give texts that are of a class of its own."""

    class Text(str):
        __slots__ = ()

    golden = Golden(id="g", question="How heavy?", answer="40 kg.")
    asked = ask_and_score([golden], lambda _: Text("A parcel may weigh 40 kg."))
    path = tmp_path / "scored.jsonl"
    write_scored_run(path, asked)
    assert read_scored_run(path).goldens[0].answer == "A parcel may weigh 40 kg."


def test_a_question_that_the_judge_could_not_score_is_missing_and_not_wrong():
    unscored = ScoredGolden(id="0", question="q0", asked="", answer="said")
    others = run(1.0, 1.0).goldens[1:]
    found = compared(ScoredRun(scored_by=SCORED_BY, goldens=(unscored, *others)), run(1.0, 1.0))
    assert [each.golden.id for each in found.questions] == ["1"]
    assert found.decision == "undecided"
    assert found.why.startswith("only 50%")
