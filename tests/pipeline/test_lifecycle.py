"""Whatever ends or raises, the worker goes on, and captured = scored + unscored."""

import asyncio
import gc
import threading
from collections import Counter
from types import SimpleNamespace

import pytest

from ragmonitor import Monitor
from ragmonitor.pipeline.back_half import Carried
from ragmonitor.records import Cause
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import outcomes, total
from tests.support.stories import assessment, interaction
from tests.support.waiting import until


class PanicException(BaseException):
    """What an extension module in Rust raises: no `Exception`."""


ENDS = [
    PanicException,
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    GeneratorExit,
    MemoryError,
    StopIteration,
    ValueError,
]


def observed(number, **changes):
    return interaction(id=f"{number:032x}", **changes)


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr("ragmonitor.runtime.supervised.FIRST_PAUSE_S", 0.01)


class Fails:
    """Raises what it is told to at the calls it is told to, and counts them."""

    def __init__(self, plan):
        self.plan = plan
        self.calls = Counter()

    def __call__(self, stage):
        self.calls[stage] += 1
        error = self.plan.get((stage, self.calls[stage]))
        if error is not None:
            raise error(stage)


class FailingExporter(ListExporter):
    def __init__(self, fails):
        super().__init__()
        self.fails = fails

    def export(self, report):
        self.fails("export")
        super().export(report)

    def flush(self, timeout_s):
        self.fails("flush")
        return True

    def snapshot(self, snapshot):
        self.fails("snapshot")


def failing(thing, fails, **stages):
    """Have methods of a stage fail now and then."""
    for method, stage in stages.items():
        original = getattr(thing, method)

        def call(*args, original=original, stage=stage, **options):
            fails(stage)
            return original(*args, **options)

        setattr(thing, method, call)


class Pipeline:
    """A monitor of which every stage may fail."""

    def __init__(self, plan):
        self.fails = fails = Fails(plan)

        def redact(text):
            fails("redact")
            return text

        def judged(_):
            fails("judge")
            return assessment("supported")

        self.monitor = Monitor(
            service="test",
            judge=ScriptedJudge(judged),
            sample=1.0,
            server=False,
            content={"redaction": (redact,)},
            exporters=[FailingExporter(fails)],
        )
        worker = self.monitor._back
        failing(worker.exports.traces, fails, emit="emit", export="late", flush="flush")
        failing(worker.exports.meters, fails, answered="answered", refresh="refresh")
        failing(worker.estimates, fails, predict="predict", add="estimate", tick="tick", due="due")
        failing(worker.runner.sampler, fails, draw="draw", refund="refund")


def reconciles(monitor, captured):
    """Whether every judge has one outcome for every evaluator and interaction."""
    assert total(monitor.registry, "ragmonitor_interactions_total") == captured
    worker = monitor._back
    for judge in worker.stages.judges:
        for entry in worker.ledger._entries:
            found = outcomes(monitor.registry, judge=judge.name, evaluator=entry.name)
            assert sum(found.values()) == captured, (judge.name, entry.name, found)
    return True


STAGES = (
    *("redact", "predict", "draw", "judge", "refund", "estimate", "emit", "answered", "export"),
    *("late", "flush", "tick", "due", "refresh", "snapshot"),
)


@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize("stage", STAGES)
def test_nothing_ends_the_worker(stage, error):
    """What fails once costs at most its own interaction: the next one is scored."""
    pipeline = Pipeline({(stage, 1): error})
    monitor = pipeline.monitor
    try:
        monitor.observe(observed(1))
        monitor.flush(2)
        monitor.observe(observed(2))
        until(
            "the next one is scored",
            lambda: (
                monitor.flush(10)
                and "scored"
                in outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
            ),
        )
        assert reconciles(monitor, 2)
    finally:
        monitor.close(5)


def test_what_is_lost_is_counted_once_for_each_judge_of_who_counts_it():
    """Of a monitor whose worker has another judge; what cannot be read has a reason of its own."""
    judge = ScriptedJudge(lambda _: assessment("supported"))
    here = Monitor(service="test", server=False, worker="thread")
    there = Monitor(service="test", server=False, judge=judge, sample=1.0)
    for finished in (Carried(framework="a"), Carried(framework="b")):
        here._back.ledger.refuse(finished, Cause.QUEUE_FULL)
    there._back.ledger.take_over(here._back.ledger.take())
    broken = SimpleNamespace(framework="broken", status="ok", interaction=lambda: 1 / 0)
    there._hand_over(broken)
    assert there.flush(10)
    there.close(5)
    assert reconciles(there, 3)
    dropped = "ragmonitor_dropped_total"
    found = {
        each: total(there.registry, dropped, reason=each) for each in ("queue_full", "unreadable")
    }
    assert found == {"queue_full": 2, "unreadable": 1}
    assert total(there.registry, dropped) == 3


def test_a_finaliser_within_a_lock_of_the_counters_waits_for_nobody():
    """A stream that is collected while its own thread counts or scrapes ends at once."""
    monitor = Monitor(service="test", server=False, worker="thread")
    monitor.observe(observed(1))
    monitor.close(5)

    class Stream:
        def __del__(self):
            monitor.observe(observed(2))

    done = threading.Event()

    def collect():
        counters = monitor._back.meters._instruments
        with counters._lock, monitor._back.ledger._notes._adding:
            for _ in range(3):
                cycle = [Stream()]
                cycle.append(cycle)
                del cycle
                gc.collect()
        done.set()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    assert done.wait(10)
    found = outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
    assert found == {"scored": 1, "shutdown": 3}
