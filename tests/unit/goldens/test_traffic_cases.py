"""The worst answers as test cases of other tools."""

from __future__ import annotations

import json

import pytest

from ragmonitor.goldens.golden_formats import FORMATS, recognised
from ragmonitor.goldens.mining import Traffic, TrafficAnswer
from ragmonitor.goldens.traffic_cases import case_record, worst_answers

SUBJECTS = ("bicycles", "kettles", "violins", "lanterns", "umbrellas")


def traffic(*answers: TrafficAnswer) -> Traffic:
    return Traffic(answers={each.id: each for each in answers})


def answer(id_: str, bad: float, question: str = "", **more) -> TrafficAnswer:
    return TrafficAnswer(
        id=id_,
        question=question or f"What does the shop say of {id_}?",
        answer="So.",
        verdicts={"model": bad},
        **more,
    )


def test_the_worst_come_first_and_each_question_once():
    """Of equally bad ones the newer; what no judge finds bad is left out."""
    several = [answer(name, 0.5 + n / 10, at_s=n) for n, name in enumerate(SUBJECTS)]
    again = answer("again", 0.95, several[0].question, at_s=1.0)
    newer = answer("newer", 0.95, "When does the ferry to the island leave?", at_s=2.0)
    good = answer("good", 0.4, "Who was the first mayor of the town?")
    cases = worst_answers(traffic(*several, again, newer, good), 50)
    ids = [case.interaction_id for case in cases]
    assert ids == ["newer", "again", "umbrellas", "lanterns", "violins", "kettles"]
    assert worst_answers(traffic(*several, again, newer, good), 2) == cases[:2]


def test_time_and_slices_restrict():
    """Of one attribute either value will do, of several all must."""
    several = [
        answer("a", 1.0, at_s=10, attributes={"route": "billing", "tenant": "x"}),
        answer("b", 1.0, at_s=20, attributes={"route": "shop", "tenant": "x"}),
        answer("c", 1.0, at_s=30, attributes={"route": "billing", "tenant": "y"}),
        answer("d", 1.0, at_s=40),
    ]

    def left(**given) -> str:
        found = traffic(*several)
        found.restrict(**given)
        return "".join(found.answers)

    assert left() == "abcd"
    assert left(since_s=20) == "bcd"
    assert left(slices=["route=billing"]) == "ac"
    assert left(slices=["route=billing", "route=shop"]) == "abc"
    assert left(slices=["route=billing", "tenant=y"], since_s=20) == "c"


@pytest.mark.parametrize("name", ["ragas", "deepeval", "langfuse", "jsonl"])
def test_what_was_answered_is_never_the_right_answer(name):
    """It stands in the record, and nowhere as a reference; our own awaits its review."""
    [case] = worst_answers(traffic(answer("a", 1.0, attributes={"route": "billing"})), 1)
    record = case_record(case, name)
    assert "So." in json.dumps(record)
    assert not any(record.get(key) for key in ("reference", "expected_output", "expectedOutput"))
    if name != "ragas":  # which has no metadata
        back = FORMATS[recognised(record)].read(record)
        assert (back.question, back.attributes) == (case.question, {"route": "billing"})
        assert back.awaits_review
