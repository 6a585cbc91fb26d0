"""One of the workers of a service, as a process that a test may kill: see `test_fleet`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from ragmonitor import Budget, JudgeSettings
from ragmonitor.pipeline import stream_worker
from ragmonitor.pipeline.stream_worker import StreamWorker
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.records import AlarmEvent, Assessment, Interaction
from ragmonitor.settings import Settings
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import outcomes, total
from tests.support.stories import assessment

READING_S = 0.1


def verdict(answer: Interaction) -> Assessment:
    """Return what the judge says: half of the answers are bad."""
    return assessment("supported", "absent" if int(answer.id, 16) % 2 else "supported")


class SlowJudge(ScriptedJudge):
    """Takes a while, and notes in a file whom it was asked about."""

    def __init__(self, noted: Path, *, cost: float, reading_s: float) -> None:
        super().__init__(verdict)
        self._noted, self._cost, self._reading_s = noted, cost, reading_s
        self.budget_unit = "calls" if cost else None

    def expected_cost(self, interaction: Interaction) -> float:
        """Return what a reading costs."""
        return self._cost

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the script says, after a while."""
        note(self._noted, f"{interaction.id} {os.getpid()}")
        await asyncio.sleep(self._reading_s)
        return await super().assess(interaction)


class Heard(ListExporter):
    """Notes alarms in a file."""

    def __init__(self, noted: Path) -> None:
        super().__init__()
        self._noted = noted

    def alarm(self, event: AlarmEvent) -> None:
        """Note it."""
        note(self._noted, f"{event.signal} {event.judge} {event.raised}")


def note(path: Path, line: str) -> None:
    """Append a line, whole, whoever else appends."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def settings_of(
    folder: Path, *, calls_per_day: float = 0, reading_s: float = READING_S, **options: Any
) -> Settings:
    """Return the settings of each of the workers."""
    judge = SlowJudge(folder / "asked", cost=1.0 if calls_per_day else 0.0, reading_s=reading_s)
    return Settings.load(
        service="shop",
        server=False,
        sample=1.0,
        objectives=0.1,
        judge=JudgeSettings(model=judge),
        budget=Budget(calls_per_day=calls_per_day) if calls_per_day else None,
        exporters=[Heard(folder / "alarms")],
        export={"traces": False},
        **options,
    )


def main(url: str, folder: str, calls_per_day: str) -> None:
    """Work until asked to stop, and print what was counted."""
    stream_worker.STALE_S, stream_worker.RENEW_S = 2.0, 0.4
    stream_worker.CLAIM_S = 0.5
    # A record may be in the hands of more than three who are killed, and is none that kills.
    stream_worker.MAX_DELIVERIES = 100
    settings = settings_of(Path(folder), calls_per_day=float(calls_per_day), send_to=url)
    worker = StreamWorker(settings, RedisStream.of(settings))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    worker.run(stop)
    registry = worker.back.registry
    counted = {
        judge: dict(outcomes(registry, judge=judge, evaluator="faithfulness"))
        for judge in ("builtin", "scripted")
    }
    captured = total(registry, "ragmonitor_interactions_total")
    print(json.dumps(counted | {"captured": captured}))


if __name__ == "__main__":
    main(*sys.argv[1:])
