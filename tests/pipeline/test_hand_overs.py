"""Where threads and processes hand over: what comes between two looks is neither lost nor twice.

Each test holds one side at such a place until the other has gone on.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ragmonitor import Monitor
from ragmonitor.pipeline.back_half.stream_sender import StreamSender
from ragmonitor.redaction import Redactor
from ragmonitor.runtime.feedback import feedback_of
from ragmonitor.runtime.queues import MemoryQueue
from ragmonitor.settings import Settings
from tests.support.in_memory_stream import InMemoryStream
from tests.support.scrape import outcomes, total

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the helper needs POSIX")

QUIET: dict[str, Any] = {"service": "test", "server": False}


def answer(monitor: Monitor) -> None:
    with monitor.interaction(query="How heavy may a parcel be?") as i:
        i.retrieved(["A parcel may weigh 40 kg."])
        i.answered("A parcel may weigh 50 kg.")


def sums(monitor: Monitor) -> tuple[float, Counter[str]]:
    """Return how many interactions were captured, and evaluations of faithfulness by outcome."""
    found = outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
    return total(monitor.registry, "ragmonitor_interactions_total"), found


def put_after(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Have something happen between the look at the state and the next place in the queue."""
    put = MemoryQueue.put

    def late(queue: MemoryQueue, finished: Any) -> bool:
        monkeypatch.setattr(MemoryQueue, "put", put)
        meanwhile()
        return put(queue, finished)

    monkeypatch.setattr(MemoryQueue, "put", late)


def sender() -> StreamSender:
    settings = Settings.load(**QUIET, send_to="redis://127.0.0.1:1")
    return StreamSender(settings, redactor=Redactor(), poll=lambda: 0, open_stream=InMemoryStream)


# The end of a monitor


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_what_is_handed_over_while_the_monitor_closes_is_counted(monkeypatch, worker):
    """Who looked before the end puts it where nobody takes it any more."""
    monitor = Monitor(**QUIET, worker=worker)
    answer(monitor)
    assert monitor.flush(60)
    put_after(monkeypatch, lambda: monitor.close(60))
    answer(monitor)
    assert sums(monitor) == (2.0, Counter(scored=1, shutdown=1))


def test_feedback_that_comes_while_the_monitor_closes_is_counted(monkeypatch):
    """It waits in the queue of answers."""
    back = sender()
    put_after(monkeypatch, lambda: back.close(60))
    back.feedback(feedback_of("a" * 32, True, kind="thumbs", at_s=1.0))
    assert total(back.registry, "ragmonitor_dropped_total", reason="feedback_lost") == 1
