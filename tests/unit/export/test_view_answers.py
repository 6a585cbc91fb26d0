"""The answers that the page keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ragmonitor.export.content import compact_json
from ragmonitor.export.view.answers import (
    MAX_CHARACTERS,
    MAX_NEWEST,
    Answers,
    marked,
)
from ragmonitor.records import (
    Assessment,
    Chunk,
    Diagnosis,
    Generation,
    Report,
    Scored,
    SentenceVerdict,
    Usage,
    Verdict,
)
from tests.unit.export.examples import (
    ANSWER,
    LEXICAL,
    MODEL,
    SECOND,
    TARGET,
    assessment,
    interaction,
    report,
)

SECRET = "商品可在30天内退货。"


def answers(**options: Any) -> Answers:
    return Answers(**{"content": "all", **options})


def told(kept: Answers) -> list[dict[str, Any]]:
    return [json.loads(compact_json(kept.entry(each))) for each in kept.found()]


def bad(n: int, *, judge=LEXICAL, at_s: float = 0.0, **changes: Any) -> Report:
    """Return a report on an answer of its own, contradicted by its chunks."""
    base = interaction(id=f"i-{n}", query=f"question {n}")
    moved = replace(base, ended_ns=base.ended_ns + int(at_s * SECOND))
    return report(
        judge,
        **{"interaction": moved, "diagnosis": Diagnosis.CONTRADICTION, "target": TARGET, **changes},
    )


def supported(judge=LEXICAL) -> Assessment:
    fine = SentenceVerdict(text=ANSWER, start=0, end=len(ANSWER), verdict=Verdict.SUPPORTED)
    return assessment(judge, sentences=(fine,))


def good(n: int, judge=LEXICAL) -> Report:
    scores = (Scored(evaluator="faithfulness@1", judge=judge, score=1.0),)
    return bad(
        n, judge=judge, assessment=supported(judge), diagnosis=Diagnosis.OK, evaluations=scores
    )


def fill(kept: Answers, reports: list[Report]) -> None:
    for each in reports:
        kept.add(each)


def test_a_bad_answer_is_kept_with_what_is_needed_to_see_why():
    """The sentence with its words, the chunk it contradicts first, and the trace."""
    kept = answers()
    fill(kept, [bad(1)])
    (found,) = told(kept)
    assert found["basis"] == "builtin"
    assert found["answer"][1]["parts"] == [["运费为", False], ["99元", True], ["。", False]]
    assert found["answer"][1]["verdict"] == "contradicted"
    assert [chunk["position"] for chunk in found["chunks"]] == [1, 0]
    assert found["trace_id"] == TARGET.trace_id
    assert found["attributes"]["route"] == "/chat"


def test_the_newest_answers_are_kept_whatever_they_are():
    """After the bad ones, the newest first, and no more than there is room for."""
    kept = answers()
    fill(
        kept,
        [
            bad(0),
            *(replace(good(n), interaction=bad(n, at_s=n).interaction) for n in range(1, 150)),
        ],
    )
    found = told(kept)
    assert [each["id"] for each in found][:3] == ["i-0", "i-149", "i-148"]
    assert [each["bad"] for each in found] == [True] + [False] * MAX_NEWEST


def test_a_judge_takes_the_place_of_the_builtin_one():
    """One answer stands once, with the scores of the judge."""
    kept = answers()
    fill(kept, [bad(1), bad(1, judge=MODEL)])
    (found,) = told(kept)
    assert (found["basis"], found["judge"]) == ("judged", MODEL.name)


def test_characters_are_bounded_and_judged_ones_stay_longest():
    """Long texts are cut where they are shown, and too many of them leave."""
    kept = answers()
    long = (Chunk(text="x" * 100_000),) * 19
    fill(kept, [bad(0, judge=MODEL)])
    for n in range(1, 50):
        each = bad(n)
        kept.add(replace(each, interaction=replace(each.interaction, chunks=long)))
    assert kept.characters <= MAX_CHARACTERS
    assert {each["basis"] for each in told(kept)} == {"judged", "builtin"}
    assert len(json.dumps(told(kept))) < 100_000


@pytest.mark.parametrize("content", ["none", "hashed"])
def test_without_content_there_are_no_texts(content):
    """Neither question, answer, chunk, nor words of them; verdicts and scores stay."""
    kept = answers(content=content)
    fill(kept, [bad(1)])
    data = compact_json(kept.entry(kept.found()[0]))
    for text in ("question 1", "运费", "99元", SECRET, "Shipping", "无依据"):
        assert text not in data
    (found,) = told(kept)
    assert [each["verdict"] for each in found["verdicts"]] == ["supported", "contradicted"]
    assert found["chunks"][0]["id"] == "doc-2"


@pytest.mark.parametrize("content", ["all", "none"])
def test_an_answer_says_where_its_chunks_are_from_and_what_it_cost(content):
    """The document's name is a text; session, model and tokens are none."""
    kept = answers(content=content)
    each = bad(1)
    chunks = tuple(
        replace(chunk, metadata={"page": 7, "source": "", "file_name": "terms.pdf"})
        for chunk in each.interaction.chunks
    )
    call = Generation(output="a", started_ns=0, ended_ns=1, model="gpt")
    whole = replace(
        each.interaction,
        chunks=chunks,
        generations=(call,),
        session_id="s-1",
        usage=Usage(input_tokens=90, output_tokens=12),
    )
    fill(kept, [replace(each, interaction=whole)])
    [found] = told(kept)
    assert {chunk.get("source") for chunk in found["chunks"]} == (
        {"terms.pdf"} if content == "all" else {None}
    )
    assert (found["session"], found["model"], found["tokens"]) == ("s-1", "gpt", [90, 12])


def test_an_answer_that_uses_one_chunk_of_four_is_not_bad():
    """Nor one that says rightly that it does not know: `tail --bad` is for what to look at."""
    scores = tuple(
        Scored(evaluator=f"{name}@1", judge=LEXICAL, score=0.25)
        for name in ("context_utilization", "context_relevance", "document_precision")
    )
    kept = answers()
    fill(
        kept, [replace(good(1), evaluations=scores), replace(good(2), diagnosis=Diagnosis.REFUSAL)]
    )
    assert not any(each["bad"] for each in told(kept))
    kept = answers()
    low = (Scored(evaluator="answer_relevancy@1", judge=LEXICAL, score=0.25),)
    fill(kept, [replace(good(1), evaluations=low)])
    assert told(kept)[0]["bad"]


# --- marking --------------------------------------------------------------------------------------


def verdict(text: str, start: int, kind: Verdict = Verdict.ABSENT, **more: Any) -> SentenceVerdict:
    return SentenceVerdict(text=text, start=start, end=start + len(text), verdict=kind, **more)


def joined(pieces: list[dict[str, Any]]) -> str:
    return "".join(
        piece.get("text") or "".join(text for text, _ in piece.get("parts", ())) for piece in pieces
    )


def test_the_pieces_are_the_answer():
    """Gaps between sentences included, and characters beyond 16 bits."""
    answer = "A 😀 is fine.  \nB is not. Rest"
    pieces = marked(answer, [verdict("B is not.", answer.index("B is"))])
    assert joined(pieces) == answer
    assert [piece.get("verdict") for piece in pieces] == [None, "absent", None]
