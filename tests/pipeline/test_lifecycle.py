"""Whatever ends or raises, the worker goes on, and captured = scored + unscored."""

import asyncio
import contextlib
import gc
import logging
import threading
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragmonitor import Monitor
from ragmonitor.metrics import DROPPED
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
    monkeypatch.setattr("ragmonitor.supervised.FIRST_PAUSE_S", 0.01)


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
            sample=0.5,
            server=False,
            content={"redaction": (redact,)},
            exporters=[FailingExporter(fails)],
        )
        worker = self.monitor._back.worker
        failing(worker._exports.traces, fails, emit="emit", export="late", flush="flush")
        failing(
            worker._exports.meters, fails, answered="answered", worked="worked", refresh="refresh"
        )
        failing(worker._estimates, fails, predict="predict", add="estimate", tick="tick", due="due")
        failing(worker._runner.config.sampler, fails, draw="draw", refund="refund")


STAGES = [
    *("redact", "judge", "export", "flush", "snapshot", "emit", "late", "answered", "worked"),
    *("refresh", "predict", "estimate", "tick", "due", "draw", "refund"),
]


def reconciles(monitor, captured):
    """Whether every judge has one outcome for every evaluator and interaction."""
    assert total(monitor.registry, "ragmonitor_interactions_total") == captured
    worker = monitor._back.worker
    for judge in worker._judges():
        for entry in worker.ledger._entries:
            found = outcomes(monitor.registry, judge=judge.identity.name, evaluator=entry.name)
            assert sum(found.values()) == captured, (judge.identity.name, entry.name, found)
    return True


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    plan=st.dictionaries(
        st.tuples(st.sampled_from(STAGES), st.integers(1, 6)), st.sampled_from(ENDS), max_size=12
    )
)
def test_captured_is_scored_plus_unscored_whatever_fails(quickly, plan):
    """Any stage, at any time, with any exception: each judge reports once on each interaction."""
    logging.getLogger("ragmonitor").setLevel(logging.CRITICAL)
    try:
        pipeline = Pipeline(plan)
        monitor = pipeline.monitor
        for number in range(6):
            monitor.observe(observed(number))
        monitor.flush(5)
        for number in range(6, 9):
            monitor.observe(observed(number))
        monitor.close(5)
        monitor.observe(observed(9))
        assert reconciles(monitor, 10)
    finally:
        logging.getLogger("ragmonitor").setLevel(logging.NOTSET)


@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize("stage", ["redact", "export", "judge", "emit", "tick", "refresh"])
def test_nothing_ends_the_worker(stage, error):
    """What fails once costs at most its own interaction: the next one is scored."""
    pipeline = Pipeline({(stage, 1): error})
    monitor = pipeline.monitor
    try:
        monitor.observe(observed(1))
        monitor.flush(10)
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


def test_a_run_that_ends_begins_again_and_is_counted(monkeypatch):
    """What was in hand is `internal_error`; a further thread is not needed."""
    monitor = Monitor(service="test", server=False, worker="thread")
    worker = monitor._back.worker
    work_off, n = worker._work_off, []

    async def die():
        n.append(1)
        if len(n) <= 2:
            worker.ledger.open(worker._queue.take(1)[0])
            raise SystemExit
        await work_off()

    monkeypatch.setattr(worker, "_work_off", die)
    for number in range(5):
        monitor.observe(observed(number))
    restarts = "ragmonitor_worker_restarts_total"
    until("it has begun again twice", lambda: total(monitor.registry, restarts) == 2)
    assert monitor.flush(20)
    found = outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
    assert found == {"internal_error": 2, "scored": 3}
    monitor.close(5)


def test_a_system_without_threads_is_asked_again(monkeypatch):
    """The error reaches nobody, and what waited is scored later."""
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "ragmonitor":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr("ragmonitor.supervised.START_AGAIN_S", 0.0)
    monitor = Monitor(service="test", server=False)
    monitor.observe(observed(1))
    assert not monitor.flush(0.2)
    monkeypatch.undo()
    monitor.observe(observed(2))
    assert monitor.flush(10)
    found = outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
    assert found == {"scored": 2}
    monitor.close(5)


class RaisingHandler(logging.Handler):
    def emit(self, record):
        raise OSError("the disk is full")


def test_a_log_handler_that_raises_reaches_neither_the_request_nor_the_worker(monkeypatch):
    """An error of ours is counted, and the application's handler is its own affair."""
    handler = RaisingHandler()
    logging.getLogger("ragmonitor").addHandler(handler)
    try:
        pipeline = Pipeline({(stage, 1): ValueError for stage in STAGES})
        monitor = pipeline.monitor
        monitor.observe(None)
        with monitor.interaction(query=None) as i:
            i.retrieved(3)
        monitor.observe(observed(1))
        monitor.flush(10)
        monitor.observe(observed(2))
        monitor.flush(10)
        assert total(monitor.registry, "ragmonitor_worker_restarts_total") == 0
        found = outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
        assert found["scored"] >= 1
        monitor.close(5)
    finally:
        logging.getLogger("ragmonitor").removeHandler(handler)


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
        counter = monitor._back.meters._instruments._instruments[DROPPED]
        with counter._lock, monitor._back.worker.ledger._refused._adding:
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


@pytest.mark.slow
def test_close_keeps_its_time_with_a_reading_in_hand():
    """A judge, a redaction or an exporter that hangs: close returns within its timeout."""
    free = threading.Event()

    class Hanging:
        def __init__(self, name):
            self.identity = ScriptedJudge(lambda _: None, name=name).identity

        async def assess(self, _):
            while not free.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.to_thread(free.wait, 60)

    class HangingExporter(ListExporter):
        def close(self):
            free.wait(60)

    try:
        for options in (
            {"judge": Hanging("h"), "sample": 1.0, "exporters": [HangingExporter()]},
            {"content": {"redaction": (lambda text: free.wait(60) and text,)}},
        ):
            monitor = Monitor(service="test", server=False, **options)
            monitor.observe(observed(1))
            began = time.monotonic()
            assert not monitor.close(2.0)
            assert time.monotonic() - began < 3.0
            assert reconciles(monitor, 1)
    finally:
        free.set()


def test_what_is_being_counted_when_the_time_is_over_is_in_the_sums(monkeypatch):
    """A report whose debt is paid and which is not counted yet: close waits for the step."""
    reached, free = threading.Event(), threading.Event()
    monitor = Monitor(service="test", server=False, exporters=[ListExporter()], worker="thread")
    worker = monitor._back.worker
    count = worker._exports.meters.export

    def counting(report):
        reached.set()
        free.wait(10)
        count(report)

    class Step:
        """The worker's lock: whoever waits for it outside of the worker lets the worker go on."""

        lock = threading.Lock()

        def acquire(self, timeout=-1.0):
            free.set()
            return self.lock.acquire(timeout=max(timeout, 10))

        def release(self):
            self.lock.release()

        def __enter__(self):
            self.lock.acquire()

        def __exit__(self, *_):
            self.lock.release()

    monkeypatch.setattr(worker._exports.meters, "export", counting)
    monkeypatch.setattr(worker, "_step", Step())
    monitor.observe(observed(1))
    assert reached.wait(10)
    assert not monitor.close(0.2)
    assert reconciles(monitor, 1)


def test_what_is_taken_at_the_end_is_in_the_sums(monkeypatch):
    """Who closes waits for the step in hand; between two of them nothing is in nobody's hands."""
    monitor = Monitor(service="test", server=False, exporters=[ListExporter()], worker="thread")
    worker = monitor._back.worker
    take = worker._queue.take
    is_within_step = []

    def taking(max_items):
        is_within_step.append(worker._step.locked())
        return take(max_items)

    monkeypatch.setattr(worker._queue, "take", taking)
    for number in range(3):
        monitor.observe(observed(number))
    assert monitor.close(60)
    assert reconciles(monitor, 3)
    assert len(is_within_step) > 3
    assert all(is_within_step)
