"""Candidates of live traffic: why, which, and in what order."""

from __future__ import annotations

import json

import pytest

from ragmonitor.goldens.golden import Golden
from ragmonitor.goldens.mining import (
    Traffic,
    mine,
    read_reports,
)


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
    return {*traffic.answers[id_].reasons()}


UNANSWERED = {"hallucination": {"unscored": "refusal"}}


def test_reports_of_several_judges_and_feedback_are_one_answer():
    """Each brings its reasons."""
    traffic = read(
        line("a", judge="builtin@1", bad=0.0, risk=0.2),
        line("a", bad=1.0),
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
    assert traffic.bad_lines == 2


@pytest.mark.parametrize("content", ["none", "hashed"])
def test_without_its_text_an_answer_is_counted_and_left_out(content):
    """As the monitor's setting content says."""
    kept_back = json.loads(line("a", bad=1.0)) | {"content": content}
    if content == "none":
        del kept_back["question"]
    traffic = read(json.dumps(kept_back).encode())
    assert traffic.without_text == 1
    assert not mine(traffic, 5)[0]


def test_the_chosen_are_unlike_each_other_and_what_is_known():
    """Of ten that say the same one is taken, and of what is known none."""
    same = [line(f"s{n}", "How do I renew my library card?", bad=1.0) for n in range(10)]
    other = line("o", "Which ferry goes to the island?", bad=0.55)
    traffic = read(*same, other)
    chosen = {golden.interaction_id for golden in mine(traffic, 5)[0]}
    assert chosen == {"s0", "o"}
    known = [Golden(question="How do I renew my library card?", answer="Online.")]
    assert {g.interaction_id for g in mine(traffic, 5, known=known)[0]} == {"o"}


def test_every_text_is_redacted():
    """Question, answer and chunks."""
    traffic = read_reports(
        [line("a", "Mail ada@x.example?", bad=1.0)], redact=lambda _text: "[out]"
    )
    (golden,) = mine(traffic, 1)[0]
    assert {golden.question, golden.answer, golden.chunks[0].text} == {"[out]"}
