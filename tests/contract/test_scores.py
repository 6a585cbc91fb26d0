"""The metrics of RAGAS, RAGChecker and ROUGE by their worked examples, and causes for no score."""

from __future__ import annotations

from typing import Any

import pytest

import ragmonitor
from ragmonitor import Assessment, Cause, NotScorableError
from ragmonitor.testing import ScriptedJudge
from tests.contract.kit_judges import cases, outcome, scored

TABLES = ("without_reference", "by_reference", "ragchecker")
WORKED = [case for table in TABLES for case in cases(f"scores/{table}.jsonl")]


@pytest.mark.parametrize("case", WORKED, ids=lambda case: case["case"])
def test_worked_examples(case: dict[str, Any]) -> None:
    """From a judge's verdicts follow these scores; where there is none, its cause and no zero."""
    (line,) = scored(case, case["expected"]).to_dicts()
    given = {name: outcome(each) for name, each in line["evaluations"].items()}
    numbers = {name: value for name, value in case["expected"].items() if value != str(value)}
    causes = {name: value for name, value in case["expected"].items() if value == str(value)}
    assert {name: given[name] for name in causes} == causes
    assert {name: given[name] for name in numbers} == pytest.approx(numbers, abs=1e-6)


@pytest.mark.parametrize(
    "case",
    [case for case in cases("scores/by_reference.jsonl") if "right" in case["judge"]],
    ids=lambda case: case["case"],
)
def test_answer_correctness_weighs_facts_and_similarity(case: dict[str, Any]) -> None:
    """It is 0.75 of the claims' F1 and 0.25 of the similarity to the reference."""
    names = ("answer_correctness", "factual_correctness", "answer_similarity")
    (line,) = scored(case, names).to_dicts()
    correctness, facts, similarity = (line["evaluations"][name]["score"] for name in names)
    assert correctness == pytest.approx(0.75 * facts + 0.25 * similarity)


@pytest.mark.parametrize(
    "case", cases("scores/ragchecker.jsonl")[:1], ids=lambda case: case["case"]
)
def test_shares_of_claims_make_one(case: dict[str, Any]) -> None:
    """So do faithfulness, absent and contradicted claims, and RAGChecker's two triples."""
    (line,) = scored(case, ["faithfulness", "*_claims", "ragchecker_*"]).to_dicts()
    score = {name: outcome(each) for name, each in line["evaluations"].items()}
    noise = (score[f"ragchecker_noise_sensitivity_in_{which}relevant"] for which in ("", "ir"))
    assert score["faithfulness"] + score["absent_claims"] + score["contradicted_claims"] == 1
    made_up = score["ragchecker_hallucination"]
    assert score["ragchecker_precision"] + sum(noise) + made_up == pytest.approx(1)
    known = score["ragchecker_self_knowledge"]
    assert score["ragchecker_faithfulness"] + known + made_up == pytest.approx(1)


@pytest.mark.parametrize("case", cases("scores/diagnoses.jsonl"), ids=lambda case: case["case"])
def test_the_diagnosis_says_what_went_wrong_in_one_word(case: dict[str, Any]) -> None:
    """The first that applies, by the table of docs/evaluations.md."""
    (line,) = scored(case, ["faithfulness"]).to_dicts()
    assert line["diagnosis"] == case["diagnosis"]


@pytest.mark.parametrize("case", cases("scores/what_to_work_on.jsonl"), ids=lambda c: c["work_on"])
def test_what_to_work_on(case: dict[str, Any]) -> None:
    """Correctness, recall and precision of one answer name the step, by docs/offline.md."""
    names = ["answer_correctness", "context_recall", "context_precision"]
    assert scored(case, names).totals["bottlenecks"] == {case["work_on"]: 1}


def test_a_mean_is_over_what_has_a_score() -> None:
    """Captured is scored and unscored; the causes are counted, and no cause is a zero."""
    chunk = "The mast is 246 metres tall."
    answers = [chunk, "The mast is 999 metres tall.", "I do not know.", "Thank you!", ""]
    rows = [{"question": "How tall?", "contexts": [chunk], "answer": each} for each in answers]
    rows.append({"question": "How tall?", "contexts": [], "answer": chunk})
    rows.append({"question": "How tall?", "contexts": [chunk], "answer": chunk, "status": "error"})
    summary = ragmonitor.evaluate(rows, evaluators="faithfulness").summary["faithfulness"]
    assert summary.estimate.mean == 0.5
    assert 0 <= summary.estimate.lower < 0.5 < summary.estimate.upper <= 1
    assert dict(summary.unscored) == dict.fromkeys(
        (
            Cause.REFUSAL,
            Cause.NO_CLAIMS,
            Cause.NO_ANSWER,
            Cause.NO_CONTEXT,
            Cause.APPLICATION_ERROR,
        ),
        1,
    )


def test_what_the_built_in_judge_cannot_be_asked_is_not_asked() -> None:
    """A score that needs a question of its own has a cause without a model."""
    row = {"question": "How tall?", "contexts": ["It is tall."], "answer": "It is tall."}
    names = ["answer_relevancy_by_questions", "context_relevance_by_sentences"]
    (line,) = ragmonitor.evaluate([row], evaluators=names).to_dicts()
    assert [outcome(each) for each in line["evaluations"].values()] == ["not_asked"] * 2


def test_a_judge_is_an_object_with_two_members() -> None:
    """What it returns is what evaluators see; what it could not read is unreadable."""

    def script(interaction: ragmonitor.Interaction) -> Assessment:
        verdict = ragmonitor.SentenceVerdict(
            text=interaction.answer, start=0, end=4, verdict=ragmonitor.records.Verdict.ABSENT
        )
        return Assessment(
            judge=ragmonitor.JudgeIdentity(name="mine", version="7", kind="CODE"),
            language="en",
            sentences=(verdict,),
            answer_relevancy=None,
            evasive=False,
            chunk_relevance=(1.0,),
        )

    row = {"question": "How tall?", "contexts": ["It is tall."], "answer": "Low."}
    (line,) = ragmonitor.evaluate([row], judge=ScriptedJudge(script, name="mine")).to_dicts()
    given = {name: outcome(each) for name, each in line["evaluations"].items()}
    assert line["judge"] == "mine@7"
    assert given["faithfulness"] == 0
    assert given["hallucination"] == 1
    assert given["answer_relevancy"] == "unreadable"


def test_an_evaluator_of_ones_own_is_scored_beside_the_others() -> None:
    """A function of interaction and assessment gives a score, or the cause why there is none."""

    @ragmonitor.evaluator("contract_brevity", by_default=False)
    def brevity(interaction: ragmonitor.Interaction, _assessment: Assessment) -> float:
        if interaction.answer == "Tall.":
            raise NotScorableError(Cause.NO_CLAIMS)
        return 0.25

    rows = [
        {"question": "How?", "contexts": ["It is tall."], "answer": answer}
        for answer in ("It is tall.", "Tall.")
    ]
    lines = ragmonitor.evaluate(rows, evaluators=["contract_brevity"]).to_dicts()
    assert [outcome(line["evaluations"]["contract_brevity"]) for line in lines] == [
        0.25,
        "no_claims",
    ]


def test_a_rubric_in_words_is_put_to_the_judge() -> None:
    """The rating becomes its place on the scale."""
    ragmonitor.rubric(
        "contract_tone", "How polite is it?", scale=(1, 5), shown=("answer",), by_default=False
    )
    case = {
        "question": "How tall?",
        "chunks": ["It is tall."],
        "answer": "It is tall.",
        "judge": {"verdicts": [[1]], "chunk_ratings": [2], "asked": {"rating": 4}},
    }
    (line,) = scored(case, ["contract_tone"]).to_dicts()
    assert outcome(line["evaluations"]["contract_tone"]) == 0.75
