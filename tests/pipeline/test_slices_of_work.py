"""The worker beside an application works in slices; where it has an interpreter to itself not."""

from __future__ import annotations

import functools
import threading

import pytest

from ragmonitor import Monitor
from ragmonitor.pipeline import placement
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.runtime import lock_slices
from tests.support.stories import interaction

SENTENCES = 12


@pytest.fixture
def pauses(monkeypatch):
    """Every slice is over at once; collects the threads that paused."""
    found = []
    monkeypatch.setattr(lock_slices, "SLICE_S", 0.0)
    monkeypatch.setattr(
        lock_slices, "sleep", lambda _s: found.append(threading.current_thread().name)
    )
    return found


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_worker_beside_an_application_gives_the_lock_back_at_each_sentence(
    pauses, monkeypatch, is_apart
):
    """And nobody else pauses for it: the request's thread does not."""
    monkeypatch.setattr(placement, "Pipeline", functools.partial(Pipeline, is_apart=is_apart))
    answer = " ".join(f"Parcel {n} weighs {n + 3} kg." for n in range(SENTENCES))
    with Monitor(service="test", server=False, worker="thread") as monitor:
        monitor.observe(interaction(answer=answer))
        assert monitor.flush()
    if is_apart:
        assert not pauses
    else:
        assert set(pauses) == {"ragmonitor"}
        assert len(pauses) > SENTENCES
