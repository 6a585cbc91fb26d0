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
from ragmonitor.runtime.queues import MemoryQueue
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
