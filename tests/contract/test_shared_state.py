"""Four processes of one service with `state=file.db`: any of them shows the counts of all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.kit_outputs import openmetrics, samples, until, value

PROGRAM = """
import json, sys
from ragmonitor import Monitor, ServerSettings
from tests.contract.kit_outputs import BAD, GOOD, tell, until

server = ServerSettings(port=0)
with Monitor("shop", state=sys.argv[1], worker="thread", server=server) as monitor:
    print(until("it serves", lambda: monitor.metrics_url), flush=True)
    for line in sys.stdin:
        for kind, n in json.loads(line).items():
            for number in range(n):
                tell(monitor, f"Question {number}?", {"good": GOOD, "bad": BAD}[kind])
        monitor.flush(30)
        print("done", flush=True)
"""
COUNTS = (10, 20, 30, 40)


class Process:
    """One of the four."""

    def __init__(self, state: Path) -> None:
        self._running = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        self.url = self._said()

    def _said(self) -> str:
        assert self._running.stdout is not None
        return self._running.stdout.readline().strip()

    def answers(self, good: int, bad: int) -> None:
        """Have it answer, and wait until that is counted."""
        assert self._running.stdin is not None
        print(json.dumps({"good": good, "bad": bad}), file=self._running.stdin, flush=True)
        assert self._said() == "done"

    def counted(self) -> tuple[float, float, float]:
        """Return interactions, scored answers, and the observations of a histogram."""
        found = samples(openmetrics(self.url))
        return (
            value(found, "ragmonitor_interactions_total", framework="python", status="ok") or 0,
            value(found, "ragmonitor_answers_total", signal="hallucination", judge="builtin") or 0,
            value(found, "ragmonitor_interaction_seconds_count", framework="python") or 0,
        )

    def rate(self) -> float | None:
        """Return the hallucination rate that it shows."""
        found = samples(openmetrics(self.url))
        return value(found, "ragmonitor_hallucination_rate", judge="builtin", window="1h")

    def kill(self) -> None:
        """Kill it."""
        self._running.kill()
        self._running.communicate(timeout=30)


@pytest.fixture
def four(tmp_path: Path) -> Iterator[list[Process]]:
    """Run four processes."""
    running = [Process(tmp_path / "shop.db") for _ in COUNTS]
    yield running
    for each in running:
        each.kill()


def test_four_processes_have_one_set_of_series(four: list[Process]) -> None:
    """Counters, histograms and means are of all answers, also once one of them is killed."""
    for process, n in zip(four, COUNTS, strict=True):
        process.answers(n - 5, 5)
    total = float(sum(COUNTS))
    for process in four:
        until("its totals", lambda p=process: p.counted() == (total, total, total))
        until("its rate", lambda p=process: p.rate() == pytest.approx(0.2))
    four[3].kill()
    for process in four[:3]:
        assert process.counted() == (total, total, total)
    four[0].answers(10, 0)
    until("the new total", lambda: four[1].counted() == (total + 10,) * 3)
