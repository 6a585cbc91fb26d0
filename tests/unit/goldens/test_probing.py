"""Golden questions asked again and again, from a thread of ours."""

from __future__ import annotations

import threading
from typing import Any

from ragmonitor.goldens.golden import Golden
from ragmonitor.goldens.probing import Probe
from ragmonitor.records import Interaction

GOLDENS = [Golden(id=str(n), question=f"{n}?", answer="x") for n in range(5)]


def probe(ask: Any, found: list[Interaction], **options: Any) -> Probe:
    made = Probe(ask, GOLDENS, put=found.append, **options)
    made.start()
    return made


def test_each_question_is_asked_once():
    """In a random order, with the mark on what comes of it; then the thread ends."""
    found: list[Interaction] = []
    made = probe(lambda q: q, found, once=True)
    assert made.wait(10)
    assert sorted(each.query for each in found) == [each.question for each in GOLDENS]
    assert all(each.probe is not None and each.probe.outcome == "answered" for each in found)
    assert not made.failures


def test_questions_are_asked_again_until_it_is_stopped():
    """After all of them they begin anew."""
    found: list[Interaction] = []
    second_round = threading.Event()

    def ask(question: str) -> str:
        if len(found) > len(GOLDENS):
            second_round.set()
        return question

    made = probe(ask, found, every=0.001, per_hour=1e9)
    assert second_round.wait(10)
    assert made.stop(10)
    assert not made.is_running


def test_one_that_waits_for_its_next_question_stops_at_once():
    """An hour's pause holds nobody."""
    asked = threading.Event()
    made = probe(lambda _: asked.set(), [], every="5h")
    assert asked.wait(10)
    assert made.stop(10)


def test_a_callable_that_hangs_holds_neither_stop_nor_exit():
    """What is under way is given up; its threads are daemons."""
    begun, release = threading.Event(), threading.Event()

    def ask(_: str) -> str:
        begun.set()
        release.wait()
        return ""

    made = probe(ask, [], every=0.001, per_hour=1e9, concurrency=8)
    try:
        assert begun.wait(10)
        assert made.stop(10)
        named = [each for each in threading.enumerate() if each.name.startswith("ragmonitor")]
        assert all(each.daemon for each in named)
    finally:
        release.set()


def test_the_budget_of_an_hour_bounds_the_questions():
    """Five a minute are asked no more often than 60 an hour."""
    assert Probe(str, GOLDENS, put=print, every="1m", per_hour=60).pause_s == 60
    assert Probe(str, GOLDENS, put=print, every="1h", per_hour=60).pause_s == 720
