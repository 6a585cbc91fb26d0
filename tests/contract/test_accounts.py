"""Captured = scored + unscored, whatever fails in whichever step; the application sees nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from ragmonitor import Monitor, evaluator
from tests.contract.kit import (
    JudgeObject,
    assessment,
    interaction,
    outcomes,
    parametrize,
    samples,
    settings,
    total,
    until,
)

ANSWERS = 3


class Panic(BaseException):
    """What an extension module raises: no `Exception`."""


class Unreadable:
    """An object of an application whose every attribute raises."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return object.__getattribute__(self, name)
        raise RuntimeError(f"{name} is out of order")

    def __str__(self) -> str:
        raise RuntimeError("no text either")

    __repr__ = __str__


class FailingExporter:
    """An exporter that raises wherever it is called."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def export(self, _report: Any) -> None:
        raise self.error

    def flush(self, _timeout_s: float) -> bool:
        raise self.error

    def close(self) -> None:
        raise self.error


class BlockingExporter:
    """An exporter that keeps whoever calls it, until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def export(self, _report: Any) -> None:
        self.let_go.wait(30)

    def flush(self, timeout_s: float) -> bool:
        return self.let_go.wait(timeout_s)

    def close(self) -> None:
        self.let_go.wait(30)


class HangingJudge(JudgeObject):
    """A judge that never says anything."""

    async def assess(self, answer: Any) -> Any:
        self.asked.append(answer.id)
        await asyncio.sleep(600)


def _raise(error: BaseException) -> Any:
    raise error


def _judge(says: Callable[[Any], Any]) -> dict[str, Any]:
    return {"judge": JudgeObject(says)}


def _evaluator(name: str, scores: Callable[..., Any]) -> dict[str, Any]:
    _EVALUATORS.setdefault(name, evaluator(name, by_default=False, needs_context=False)(scores))
    return {"evaluators": ("faithfulness", name)}


def _redaction(function: Callable[[str], Any]) -> dict[str, Any]:
    return {"content": {"redaction": (function,)}}


_EVALUATORS: dict[str, Any] = {}
FAULTS: dict[str, Callable[[], dict[str, Any]]] = {
    "judge raises": lambda: _judge(lambda _: _raise(ValueError("no"))),
    "judge exits": lambda: _judge(lambda _: _raise(SystemExit(3))),
    "judge panics": lambda: _judge(lambda _: _raise(Panic())),
    "judge times out": lambda: _judge(lambda _: _raise(TimeoutError())),
    "judge returns None": lambda: _judge(lambda _: None),
    "judge returns a text": lambda: _judge(lambda _: "faithful"),
    "judge returns no sentences": lambda: _judge(lambda i: replace(assessment(i), sentences=None)),
    "evaluator raises": lambda: _evaluator("contract_raises", lambda _i, _a: _raise(KeyError(1))),
    "evaluator exits": lambda: _evaluator("contract_exits", lambda _i, _a: _raise(SystemExit(1))),
    "evaluator returns a text": lambda: _evaluator("contract_texts", lambda _i, _a: "half"),
    "evaluator returns no number": lambda: _evaluator("contract_nan", lambda _i, _a: float("nan")),
    "exporter raises": lambda: {"exporters": [FailingExporter(ValueError("no"))]},
    "exporter exits": lambda: {"exporters": [FailingExporter(SystemExit(3))]},
    "redaction raises": lambda: _redaction(lambda _: _raise(ValueError("no"))),
    "redaction returns no text": lambda: _redaction(lambda _: None),
    "none are sampled": lambda: {"sample": 1e-9},
}
"""The options of a monitor with the fault; without the cases that lie in what is asked."""
PARTS: dict[str, dict[str, Any]] = {
    "chunk cannot be read": {"chunk": Unreadable()},
    "question is no text": {"query": Unreadable()},
    "answer is no text": {"answer": Unreadable()},
    "answer of a million characters": {"answer": "It was built. " * 75_000},
    "application fails": {"error": LookupError("the index is gone")},
}
"""What an application hands over that is odd."""


def answered(
    monitor: Monitor,
    number: int,
    *,
    query: Any = "When was it built?",
    chunk: Any = "It was built in 1889.",
    answer: Any = "It was built in 1889.",
    error: Exception | None = None,
) -> Any:
    """Be an application: find a chunk and return an answer, or fail."""
    with monitor.interaction(query=query, name=f"application {number}") as i:
        i.retrieved([chunk])
        if error is not None:
            raise error
        i.answered(answer)
        return answer


def accounts(monitor: Monitor) -> dict[tuple[str, str], int]:
    """Return how many outcomes there are by judge and evaluator."""
    counts: dict[tuple[str, str], int] = {}
    for sample in samples(monitor.registry):
        if sample.name == "ragmonitor_evaluations_total":
            key = sample.labels["judge"], sample.labels["evaluator"]
            counts[key] = counts.get(key, 0) + int(sample.value)
    return counts


def check_the_law(monitor: Monitor, captured: int, *judges: str) -> None:
    """Check that each judge and evaluator has one outcome for every captured answer."""
    assert total(samples(monitor.registry), "ragmonitor_interactions_total") == captured
    counts = accounts(monitor)
    assert {judge for judge, _ in counts} == set(judges)
    assert counts == dict.fromkeys(counts, captured)


@parametrize("accounts.jsonl")
def test_each_answer_is_accounted_for(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The application gets its answer, and each answer has one outcome of each judge."""
    if case["case"] == "no traces arrive":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    parts = PARTS.get(case["case"], {})
    options = {"sample": 1.0, "judge": JudgeObject()} | FAULTS.get(case["case"], dict)()
    monitor = Monitor(**settings(**options))
    for number in range(ANSWERS):
        if error := parts.get("error"):
            with pytest.raises(type(error)) as raised:
                answered(monitor, number, **parts)
            assert raised.value is error
        else:
            expected = parts.get("answer", "It was built in 1889.")
            assert answered(monitor, number, **parts) is expected
    until("all is read", lambda: min(accounts(monitor).values()) >= ANSWERS)
    monitor.close(5)
    assert capfd.readouterr() == ("", "")
    check_the_law(monitor, ANSWERS, "builtin", "contract")
    name = case.get("evaluator", "faithfulness")
    found = samples(monitor.registry)
    for judge, expected in case["outcomes"].items():
        assert outcomes(found, judge=judge, evaluator=name) == expected


def test_many_threads_and_a_judge_that_fails_now_and_then_lose_no_answer() -> None:
    """Every second verdict fails: as many are scored as are not, and none is counted twice."""

    def says(answer: Any) -> Any:
        return assessment(answer) if int(answer.query) % 2 else _raise(ValueError("no"))

    monitor = Monitor(**settings(sample=1.0, judge=JudgeObject(says)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: answered(monitor, n, query=str(n)), range(100)))
    assert monitor.flush(20)
    monitor.close(5)
    check_the_law(monitor, 100, "builtin", "contract")
    found = outcomes(samples(monitor.registry), judge="contract", evaluator="faithfulness")
    assert found == {"scored": 50, "judge_error": 50}


def test_an_exporter_that_blocks_costs_the_application_nothing() -> None:
    """It waits neither for an answer nor, beyond the time it gives, for the end."""
    exporter = BlockingExporter()
    monitor = Monitor(**settings(exporters=[exporter]))
    for number in range(ANSWERS):
        answered(monitor, number)
    assert monitor.close(0.5) is False
    exporter.let_go.set()
    until("all is counted", lambda: set(accounts(monitor).values()) == {ANSWERS})
    check_the_law(monitor, ANSWERS, "builtin")


def test_answers_for_which_there_is_no_room_are_counted() -> None:
    """A full queue drops, and says of how many answers it did."""
    entered, let_go = threading.Event(), threading.Event()

    def slow(text: str) -> str:
        entered.set()
        let_go.wait(30)
        return text

    monitor = Monitor(**settings(capture={"queue_size": 2}, **_redaction(slow)))
    answered(monitor, 0)
    assert entered.wait(10)
    for number in range(1, 11):
        answered(monitor, number)
    let_go.set()
    assert monitor.flush(10)
    monitor.close(5)
    check_the_law(monitor, 11, "builtin")
    found = outcomes(samples(monitor.registry), evaluator="faithfulness")
    assert found.keys() == {"scored", "queue_full"}
    assert found["queue_full"] >= 11 - 1 - 2 - 1  # one may be between the queue and its reader


def test_answers_that_wait_when_the_monitor_closes_are_counted() -> None:
    """What the judge did not read by then, and what comes later, is `shutdown`."""
    judge = HangingJudge()
    monitor = Monitor(**settings(sample=1.0, judge=judge))
    for number in range(ANSWERS):
        answered(monitor, number)
    until("the judge is asked", lambda: judge.asked)
    assert monitor.close(0.5) is False
    monitor.observe(interaction(ANSWERS))
    found = samples(monitor.registry)
    check_the_law(monitor, ANSWERS + 1, "builtin", "contract")
    assert outcomes(found, judge="builtin", evaluator="faithfulness") == {
        "scored": ANSWERS,
        "shutdown": 1,
    }
    assert outcomes(found, judge="contract", evaluator="faithfulness") == {"shutdown": ANSWERS + 1}


def test_an_answer_that_is_stuck_when_the_monitor_closes_is_counted() -> None:
    """One is in the hands of a redaction that hangs, two wait behind it; none is counted twice."""
    entered, let_go = threading.Event(), threading.Event()

    def slow(text: str) -> str:
        entered.set()
        let_go.wait(30)
        return text

    monitor = Monitor(**settings(**_redaction(slow)))
    for number in range(ANSWERS):
        answered(monitor, number)
    assert entered.wait(10)
    assert monitor.close(0.5) is False
    until("all is counted", lambda: set(accounts(monitor).values()) == {ANSWERS})
    found = outcomes(samples(monitor.registry), evaluator="faithfulness")
    assert found == {"shutdown": ANSWERS}
    let_go.set()
    check_the_law(monitor, ANSWERS, "builtin")


def test_a_judge_that_hangs_is_given_up() -> None:
    """After its time the answer is `judge_timeout`, and the next one is read."""
    judge = HangingJudge()
    monitor = Monitor(**settings(sample=1.0, judge={"model": judge, "timeout_s": 0.1}))
    answered(monitor, 0)
    until("it is given up", lambda: accounts(monitor).get(("contract", "faithfulness")))
    found = outcomes(samples(monitor.registry), judge="contract", evaluator="faithfulness")
    assert found == {"judge_timeout": 1}
    assert monitor.close(5)
    check_the_law(monitor, 1, "builtin", "contract")
