"""Candidates of live traffic: why, which, and in what order."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.errors import InputError
from ragmonitor.estimation import summarise
from ragmonitor.export import View
from ragmonitor.feedback import JoinedFeedback, feedback_of
from ragmonitor.goldens import Golden, ReviewStatus
from ragmonitor.goldens.golden import read_goldens, write_goldens
from ragmonitor.goldens.mining import (
    MineReason,
    Traffic,
    TrafficAnswer,
    mine,
    read_page,
    read_reports,
)
from ragmonitor.records import SentenceVerdict, Verdict
from tests.unit.export.examples import ANSWER, MODEL, assessment, interaction, report


def line(id_, question="", *, judge="model@1", bad=0.0, **more):
    """Return a report's line."""
    scores = {"hallucination": {"score": bad}, "faithfulness": {"score": 1.0 - bad}}
    texts = {"question": question or f"Question {id_}?", "answer": "So.", "contexts": ["A chunk."]}
    return json.dumps(
        {"id": id_, "judge": judge, "status": "ok", "evaluations": scores} | texts | more
    ).encode()


def read(*lines):
    return read_reports(lines, redact=lambda text: text)


def reasons_of(traffic: Traffic, id_: str) -> set[str]:
    return {reason.value for reason in traffic.answers[id_].reasons(novelty=0.0)}


UNANSWERED = {"hallucination": {"unscored": "refusal"}}


def test_reports_of_several_judges_and_feedback_are_one_answer():
    """Each brings its reasons."""
    traffic = read(
        line("a", judge="builtin@1", bad=0.0, risk=0.2),
        line("a", bad=1.0, attributes={"route": "shop"}),
        line("b", evaluations=UNANSWERED),
        line("c", diagnosis="wrong_refusal"),
        line("d"),
        json.dumps({"id": "d", "feedback": {"kind": "thumbs", "score": 1.0}}).encode(),
        json.dumps({"id": "d", "feedback": {"kind": "thumbs", "score": 0.0}}).encode(),
        line("e"),
        b"{",
        b"[]",
        b"",
    )
    assert reasons_of(traffic, "a") == {"worst", "disagreement"}
    assert reasons_of(traffic, "b") == reasons_of(traffic, "c") == {"unanswered"}
    assert reasons_of(traffic, "d") == {"thumbs_down"}
    assert reasons_of(traffic, "e") == set()
    assert (traffic.bad_lines, traffic.has_feedback) == (2, True)
    assert traffic.answers["a"].attributes == {"route": "shop"}


@pytest.mark.parametrize("content", ["none", "hashed"])
def test_without_its_text_an_answer_is_counted_and_left_out(content):
    """As the monitor's setting content says."""
    kept_back = json.loads(line("a", bad=1.0)) | {"content": content}
    if content == "none":
        del kept_back["question"]
    traffic = read(json.dumps(kept_back).encode())
    assert traffic.without_text == 1
    assert not mine(traffic, 5).goldens


def test_every_text_is_redacted():
    """Question, answer and chunks."""
    traffic = read_reports(
        [line("a", "Mail ada@x.example?", bad=1.0)], redact=lambda _text: "[out]"
    )
    (golden,) = mine(traffic, 1).goldens
    assert {golden.question, golden.answer, golden.chunks[0].text} == {"[out]"}


def test_an_empty_answer_is_none():
    """Whoever asked got nothing."""
    silent = line("a", "How tall?", evaluations={"faithfulness": {"unscored": "no_answer"}})
    assert MineReason.UNANSWERED in reasons_of(read(silent), "a")


def test_half_of_a_character_in_one_answer_costs_no_other(tmp_path):
    """No file of golden questions holds one, and reports do."""
    traffic = read(line("a", "How tall \ud83d?", bad=1.0, attributes={"route": "\udc00"}))
    path = tmp_path / "goldens.jsonl"
    write_goldens(path, mine(traffic, 1).goldens)
    (golden,) = read_goldens(path)
    assert (golden.question, golden.attributes) == ("How tall ??", {"route": "?"})


def test_a_candidate_says_why_and_is_not_asked():
    """Its answer is the application's, its interaction and slices are kept."""
    traffic = read(line("a", bad=1.0, attributes={"route": "shop"}))
    (golden,) = mine(traffic, 5).goldens
    assert golden.status is ReviewStatus.CANDIDATE
    assert not golden.is_askable
    assert golden.source.startswith("mined:worst")
    assert (golden.interaction_id, golden.attributes) == ("a", {"route": "shop"})
    assert golden.comment.startswith("worst 1.00")
    assert (golden.answer, golden.chunks[0].text) == ("So.", "A chunk.")


def test_each_slice_has_its_worst():
    """A slice with few bad answers is not hidden by one with many."""
    shop = [
        line(f"s{n}", f"What about {word} in the shop?", bad=1.0, attributes={"route": "shop"})
        for n, word in enumerate(("bicycles", "kettles", "violins", "lanterns", "umbrellas"))
    ]
    bank = line("b", "How do I close an account?", bad=0.6, attributes={"route": "bank"})
    traffic = read(*shop, bank)
    chosen = mine(traffic, 3, reasons=[MineReason.WORST])
    assert "b" in {golden.interaction_id for golden in chosen.goldens}
    without = mine(traffic, 3, reasons=[MineReason.WORST], slice_by=["tenant"])
    assert "b" not in {golden.interaction_id for golden in without.goldens}
    assert chosen.found == {"worst": 6}


def test_the_chosen_are_unlike_each_other_and_what_is_known():
    """Of ten that say the same one is taken, and of what is known none."""
    same = [line(f"s{n}", "How do I renew my library card?", bad=1.0) for n in range(10)]
    other = line("o", "Which ferry goes to the island?", bad=0.55)
    traffic = read(*same, other)
    chosen = {golden.interaction_id for golden in mine(traffic, 5).goldens}
    assert chosen == {"s0", "o"}
    known = [Golden(question="How do I renew my library card?", answer="Online.")]
    assert {g.interaction_id for g in mine(traffic, 5, known=known).goldens} == {"o"}


def test_a_question_like_no_other_is_novel():
    """Also where nobody found anything bad of its answer."""
    usual = [line(f"u{n}", f"When does pool {n} open on Sunday?") for n in range(5)]
    traffic = read(*usual, line("n", "Quel bateau va vers Zanzibar?"))
    (golden,) = mine(traffic, 5, reasons=[MineReason.NOVEL]).goldens
    assert golden.interaction_id == "n"


@given(
    bad=st.lists(st.floats(0, 1), max_size=12),
    n=st.integers(1, 8),
    refusals=st.sets(st.integers(0, 11)),
)
def test_no_more_than_wanted_and_none_twice(bad, n, refusals):
    """And every one has a reason."""
    answers = {
        str(at): TrafficAnswer(
            id=str(at),
            question=f"Question {at * at} about {at}?",
            verdicts={"model": each},
            is_unanswered=at in refusals,
        )
        for at, each in enumerate(bad)
    }
    mined = mine(Traffic(answers=answers), n)
    ids = [golden.interaction_id for golden in mined.goldens]
    assert len(ids) == len(set(ids)) <= n
    assert all(golden.comment for golden in mined.goldens)
    assert mined.chosen.total() == len(ids)


def test_the_page_of_a_monitor_is_read():
    """Its worst answers, with their pieces put together."""
    entry = {
        "id": "a",
        "at_s": 1.0,
        "basis": "judged",
        "judge": "model",
        "badness": 0.9,
        "status": "ok",
        "diagnosis": "contradiction",
        "attributes": {"route": "shop"},
        "evaluations": [{"evaluator": "hallucination", "score": 1.0}],
        "builtin": [{"evaluator": "hallucination", "score": 0.0}],
        "question": "Open?",
        "answer": [{"text": "Yes. "}, {"parts": [["Until ", False], ["nine", True]]}, {"cut": 5}],
        "chunks": [{"id": "7", "source": "a.md", "parts": [["Until six.", False]]}],
    }
    state = {"builtin": "builtin", "answers": [entry, entry | {"id": "b"} | {"basis": "unscored"}]}
    del state["answers"][1]["question"]
    traffic = read_page(state, redact=lambda text: text)
    (golden,) = mine(traffic, 5).goldens
    assert golden.answer == "Yes. Until nine…"
    assert (golden.chunks[0].text, golden.chunks[0].id) == ("Until six.", "7")
    assert "disagreement" in golden.source
    assert traffic.without_text == 1
    with pytest.raises(InputError):
        read_page({"answers": [{}]}, redact=str)


def test_what_a_real_page_serves_is_read():
    """The state of a `View`, as a browser gets it."""
    shown = View("shop", summarise=summarise, builtin="builtin", judge=MODEL.name)
    asked = interaction(id="i-1", query="When is it open?")
    shown.export(report(MODEL, interaction=asked, role="sampled"))
    state = json.loads(shown.state(""))
    assert len(state["answers"]) == 1
    (answer,) = read_page(state, redact=lambda text: text).candidates()
    assert (answer.id, answer.question) == ("i-1", "When is it open?")
    assert answer.chunks
    assert answer.answer


def test_feedback_on_a_uuid_finds_its_report():
    """It names the id without its dashes."""
    uuid = "6fa459ea-ee8a-4ca4-894e-db77e160355e"
    told = json.dumps({"id": uuid.replace("-", ""), "feedback": {"score": 0.0}}).encode()
    (found,) = read(line(uuid), told).answers.values()
    assert (found.feedback, found.question != "") == (0.0, True)


def test_the_page_brings_feedback():
    """Also of an answer that the first judge finds good."""
    view = View("shop", summarise=summarise, builtin="builtin", judge=MODEL.name)
    asked = interaction(id="f" * 32)
    fine = SentenceVerdict(text=ANSWER, start=0, end=len(ANSWER), verdict=Verdict.SUPPORTED)
    found = assessment(MODEL, sentences=(fine,))
    view.export(report(MODEL, interaction=asked, assessment=found, diagnosis=None, role="sampled"))
    told = feedback_of("f" * 32, False, kind="thumbs", at_s=1.0)
    view.feedback(JoinedFeedback(feedback=told, answered_s=0.0))
    traffic = read_page(json.loads(view.state()), redact=str)
    assert reasons_of(traffic, "f" * 32) >= {"thumbs_down"}
    assert traffic.has_feedback
