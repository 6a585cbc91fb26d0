"""What the built-in judge must find, and must not: the claims of docs/built-in-judge.md."""

from __future__ import annotations

from typing import Any

import pytest

import ragmonitor
from ragmonitor import Assessment, SentenceVerdict
from ragmonitor.records import Severity, Verdict
from tests.contract.kit_judges import cases


def read(question: str, chunks: list[str], *answers: str) -> list[Assessment]:
    """Return what the built-in judge finds in each of the answers."""
    result = ragmonitor.evaluate(
        [{"question": question, "contexts": chunks, "answer": answer} for answer in answers]
    )
    assessments = [report.assessment for report in result.reports]
    assert len(assessments) == len(answers)
    return [each for each in assessments if each is not None]


def verdict_of(sentences: list[SentenceVerdict]) -> str:
    """Return one word for the verdicts on the parts of a text: `flagged` before `supported`."""
    if any(each.verdict in (Verdict.ABSENT, Verdict.CONTRADICTED) for each in sentences):
        return "flagged"
    claims = any(each.verdict is Verdict.SUPPORTED for each in sentences)
    return "supported" if claims else "no claim"


def verdict_on(assessment: Assessment, start: int, end: int) -> str:
    """Return the verdict on a part of the answer, however the judge splits it."""
    touched = [s for s in assessment.sentences or () if s.start < end and s.end > start]
    return verdict_of(touched)


TOPICS = [
    pytest.param(case, id=f"{name}-{line}-{case['about']}")
    for name in ("english", "chinese", "records")
    for line, case in enumerate(cases(f"verdicts/{name}.jsonl"), 1)
]


@pytest.mark.parametrize("case", TOPICS)
def test_what_the_chunks_say_passes_and_what_they_do_not_say_is_flagged(
    case: dict[str, Any],
) -> None:
    """Each answer is one claim; those under `flagged` are wrong or invented."""
    answers = [*case["supported"], *case["flagged"]]
    found = read(case["question"], case["chunks"], *answers)
    wanted = ["supported"] * len(case["supported"]) + ["flagged"] * len(case["flagged"])
    verdicts = [verdict_of([*(each.sentences or ())]) for each in found]
    assert [*zip(answers, verdicts, strict=True)] == [*zip(answers, wanted, strict=True)]
    assert not any(each.evasive for each in found)


@pytest.mark.parametrize("name", ["english", "chinese", "records"])
def test_a_flagged_answer_has_more_risk_than_a_supported_one(name: str) -> None:
    """The risk ranks answers over the same chunks; its level means nothing."""
    pairs: list[bool] = []
    for case in cases(f"verdicts/{name}.jsonl"):
        good = read(case["question"], case["chunks"], *case["supported"])
        bad = read(case["question"], case["chunks"], *case["flagged"])
        low, high = ([each.risk or 0.0 for each in group] for group in (good, bad))
        pairs += [left < right for left in low for right in high]
    assert sum(pairs) / len(pairs) >= 0.97


@pytest.mark.parametrize("case", cases("verdicts/sentences.jsonl"), ids=lambda case: case["about"])
def test_each_sentence_of_an_answer_has_a_verdict_of_its_own(case: dict[str, Any]) -> None:
    """Courtesies, lead-ins, headings, markers and attributions neither pass nor fail anything."""
    answer = case["answer"]
    (found,) = read(case["question"], case["chunks"], answer)
    verdicts = []
    for _, text in case["sentences"]:
        start = answer.index(text)
        verdicts.append([verdict_on(found, start, start + len(text)), text])
    assert verdicts == case["sentences"]


@pytest.mark.parametrize("case", cases("verdicts/refusals.jsonl"), ids=["English", "Chinese"])
def test_an_answer_that_declines_is_a_refusal_and_no_other_is(case: dict[str, Any]) -> None:
    """What frameworks say in place of an answer, and some other languages, are refusals too."""
    answers = [*case["declines"], *case["answers"]]
    found = read(case["question"], [case["chunk"]], *answers)
    assert [answer for answer, each in zip(answers, found, strict=True) if each.evasive] == case[
        "declines"
    ]
    assert all(each.hallucinated is None for each in found if each.evasive)


@pytest.mark.parametrize("case", cases("verdicts/relevant_chunks.jsonl"))
def test_the_chunk_that_holds_what_was_asked_for_is_the_relevant_one(case: dict[str, Any]) -> None:
    """It is rated at least a half, and the others less, wherever it stands."""
    for place in range(len(case["others"]) + 1):
        chunks = [*case["others"]]
        chunks.insert(place, case["relevant"])
        (found,) = read(case["question"], chunks, case["relevant"])
        assert found.chunk_relevance is not None
        assert [share >= 0.5 for share in found.chunk_relevance] == [
            text == case["relevant"] for text in chunks
        ]


@pytest.mark.parametrize("case", cases("verdicts/off_topic.jsonl"))
def test_an_answer_about_something_else_is_off_topic(case: dict[str, Any]) -> None:
    """Also where a chunk bears it out."""
    answers = case["to_the_point"], case["off_topic"]
    good, bad = (each.answer_relevancy for each in read(case["question"], case["chunks"], *answers))
    assert good is not None
    assert bad is not None
    assert good >= 0.5 > bad


@pytest.mark.parametrize("case", cases("verdicts/evidence.jsonl"), ids=lambda case: case["answer"])
def test_a_finding_names_the_words_and_the_check_that_failed(case: dict[str, Any]) -> None:
    """A finding with a failed number, unit, name or negation, or without support, is major."""
    (found,) = read("What? 什么？", [case["chunk"]], case["answer"])
    (sentence,) = found.counted_findings
    assert case.get("words", "") in " ".join(sentence.words)
    assert {case["reason"]} <= {*sentence.reasons} if "reason" in case else True
    assert sentence.verdict == case.get("verdict", sentence.verdict)
    assert sentence.severity is Severity.MAJOR
    assert found.hallucinated


@pytest.mark.parametrize("case", cases("verdicts/fields.jsonl"), ids=lambda case: case["answer"])
def test_what_is_said_of_a_field_is_checked_against_it(case: dict[str, Any]) -> None:
    """The field stands among the reasons, as key and value."""
    (found,) = read(case["question"], [case["chunk"]], case["answer"])
    assert found.sentences is not None
    (sentence,) = found.sentences
    assert sentence.verdict == case["verdict"]
    if "field" in case:
        assert "field" in sentence.reasons
        assert any(case["field"] in reason for reason in sentence.reasons)


def test_support_names_the_chunk() -> None:
    """Each supported sentence says which chunk bears it, by its place."""
    chunks = ["Swans nest nearby.", "The mill was built in 1620.", "The mill has two wheels."]
    (found,) = read("What is known of the mill?", chunks, "It has two wheels. Built in 1620.")
    assert found.sentences is not None
    assert [sentence.chunks[:1] for sentence in found.sentences] == [(2,), (1,)]


def test_the_same_texts_give_the_same_assessment() -> None:
    """The judge is deterministic, and what it read before does not matter."""
    texts = "How tall is it?", ["The mast is 246 metres tall."], "The mast is 264 metres tall."
    (first,) = read(*texts)
    read("保修多久？", ["保修期为两年。"], "保修期为五年。")
    (again,) = read(*texts)
    assert (first.sentences, first.risk, first.chunk_relevance) == (
        again.sentences,
        again.risk,
        again.chunk_relevance,
    )


def test_texts_that_are_too_long_are_not_scored_and_not_cut() -> None:
    """With more than 200,000 characters together there is a cause, and no score."""
    long = {"question": "How tall?", "contexts": ["The mast is tall. " * 12_000], "answer": "Tall."}
    (line,) = ragmonitor.evaluate([long]).to_dicts()
    assert {each.get("unscored") for each in line["evaluations"].values()} == {"too_long"}
