"""`Monitor.check` and `Monitor.guarded`, counted as any other signal."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import pytest

from ragmonitor import Interaction, Monitor
from ragmonitor.pipeline.answer_checks import GuardedPiece
from tests.support.scrape import total
from tests.support.waiting import until

CHUNKS = ["Parcels may be returned within 30 days."]
GOOD = "Parcels may be returned within 30 days."
BAD = "Parcels may be returned within 90 days."


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_what_was_decided_is_a_series(worker: Literal["thread", "process"]):
    """Answers and sentences apart, by outcome; nothing is recorded of them as interactions."""

    async def stream() -> AsyncIterator[str]:
        yield f"{GOOD} "
        yield BAD

    async def read(monitor: Monitor) -> list[GuardedPiece]:
        return [each async for each in monitor.guarded(stream(), CHUNKS)]

    with Monitor(service="shop", server=False, worker=worker) as monitor:
        assert monitor.check(BAD, CHUNKS, "How long do returns take?").hallucinated
        assert [bool(each.findings) for each in asyncio.run(read(monitor))] == [False, True]
        monitor.observe(
            Interaction(
                id="i",
                query="How long?",
                chunks=(),
                answer="Long.",
                framework="python",
                started_ns=0,
                ended_ns=1,
            )
        )
        decided = {("answer", "flagged"), ("sentence", "fine"), ("sentence", "flagged")}

        def counted() -> set[tuple[str, str]]:
            monitor.flush(10)
            return {
                (of, outcome)
                for of, outcome in decided
                if total(monitor.registry, "ragmonitor_checks_total", of=of, outcome=outcome) == 1
            }

        until("all are counted", lambda: counted() == decided)
        assert total(monitor.registry, "ragmonitor_interactions_total") == 1
