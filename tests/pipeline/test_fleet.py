"""Several workers of one service on one Redis: each answer counts once, whoever is killed when."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ragmonitor.pipeline.stream_worker import StreamWorker
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.records import Interaction
from ragmonitor.runtime.wire import encode
from ragmonitor.stats.sums import EXPECTED, EXPECTED2, SPREAD
from ragmonitor.store import Redis, Rows, Store, merge
from ragmonitor.store.redis import connect
from tests.support.fleet_worker import settings_of
from tests.support.in_memory_stream import InMemoryStream
from tests.support.redis_server import RedisServer, running_redis
from tests.support.stories import interaction
from tests.support.waiting import until

LEARNED = (EXPECTED, EXPECTED2, SPREAD)
"""Places of what verdicts were predicted to be, which depends on when one learned."""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    pytest.importorskip("redis")
    (tmp_path / "redis").mkdir()
    with running_redis(tmp_path / "redis") as running:
        yield running


class Fleet:
    """Workers of one service."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.calls_per_day = 0.0
        self.stream = RedisStream(url, "shop")
        self.workers: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        """Start one more."""
        arguments = (self.url, str(self.folder), str(self.calls_per_day))
        worker = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fleet_worker", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.workers.append(worker)
        return worker

    def kill(self, worker: subprocess.Popen[str]) -> None:
        """End one at once."""
        worker.kill()
        worker.communicate()
        self.workers.remove(worker)

    def noted(self, name: str) -> list[str]:
        """Return what the workers have noted."""
        path = self.folder / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def has_asked(self, least: int) -> bool:
        """Return whether the judge was asked so often."""
        return len(self.noted("asked")) > least

    def ended(self, within_s: float = 60) -> list[dict[str, Any]]:
        """Wait until nothing is left, and return what each of the living counted.

        One that has only just been started counted nothing.
        """
        until("the stream is empty", self._is_empty, within_s=within_s)
        for each in self.workers:
            each.terminate()
        told = [each.communicate(timeout=30)[0] for each in self.workers]
        return [json.loads(each) for each in told if each]

    def _is_empty(self) -> bool:
        state = self.stream.state()
        return state.waiting + state.open == 0


@pytest.fixture
def fleet(server: RedisServer, tmp_path: Path) -> Iterator[Fleet]:
    running = Fleet(server.url, tmp_path)
    yield running
    for each in running.workers:
        each.kill()


def answers(count: int) -> list[Interaction]:
    now = time.time_ns()
    return [interaction(id=f"{n:032x}", started_ns=now, ended_ns=now) for n in range(count)]


def sums(store: Store) -> Rows:
    """Return the sums of means, all buckets together.

    Without slices: each process looks at some answers before it has a value name one.
    """
    found: Rows = {}
    for kind in "rh":
        for begin in store.names(kind):
            merge(found, store.read(f"{kind}{begin}"))
    for row in found.values():
        for place in LEARNED:
            row[place] = 0.0
    return {series: row for series, row in found.items() if "|" not in series}


def sums_of_one(asked: Sequence[Interaction], folder: Path) -> Rows:
    """Return the sums of one process that nobody kills."""
    folder.mkdir()
    stream = InMemoryStream()
    for each in asked:
        stream.put(encode(each))
    # It has them all at once: whatever waited too long would be read by nobody.
    settings = settings_of(folder, reading_s=0.0, state=str(folder / "one.db"))
    judge = settings.judge.model_copy(update={"max_pending": len(asked)})
    settings = settings.model_copy(update={"judge": judge})
    worker = StreamWorker(settings, stream)
    worker.run(threading.Event(), drain=True)
    return sums(worker.back.estimates.store)


def assert_equal(found: Rows, expected: Rows) -> None:
    assert found.keys() == expected.keys()
    for series, row in expected.items():
        assert found[series] == pytest.approx(row, abs=1e-6), series


def test_two_workers_of_which_one_is_killed_count_each_answer_once(fleet: Fleet, tmp_path: Path):
    """Sums are those of one process, each account closes, and one alarm is raised."""
    asked = answers(300)
    workers = {str(each.pid): each for each in (fleet.start(), fleet.start())}
    for each in asked[:200]:
        fleet.stream.put(encode(each))
    until("verdicts come", lambda: len(fleet.noted("asked")) > 60, within_s=60)
    pid = fleet.noted("asked")[-1].split()[1]
    fleet.kill(workers.pop(pid))
    # Its producer heard of no success, and puts ten of them twice.
    for each in asked[190:]:
        fleet.stream.put(encode(each))
    # Who was killed may have had the lease, for ten seconds.
    until("it is raised", lambda: "hallucination scripted True" in fleet.noted("alarms"))
    (counted,) = fleet.ended()
    assert [each.returncode for each in workers.values()] == [0]
    read = [line.split()[0] for line in fleet.noted("asked")]
    assert set(read) == {each.id for each in asked}
    assert len(read) > 300, "the one that was killed had some in hand"
    for judge in ("builtin", "scripted"):
        assert sum(counted[judge].values()) == counted["captured"]
    store = Redis(*connect(fleet.url), "shop")
    assert_equal(sums(store), sums_of_one(asked, tmp_path / "one"))
    raised = Counter(fleet.noted("alarms"))
    assert raised["hallucination scripted True"] == 1
    assert max(raised.values()) == 1


@pytest.mark.slow
def test_twenty_kills_in_a_minute(fleet: Fleet, tmp_path: Path):
    """Three workers, of which always one more is killed and replaced."""
    asked, rng = answers(2_000), random.Random(1)
    for _ in range(3):
        fleet.start()
    for turn in range(20):
        for each in asked[turn * 100 : turn * 100 + 100]:
            fleet.stream.put(encode(each))
        time.sleep(2 + 2 * rng.random())
        # Where processes are slow to start all would be killed before they have anything in hand.
        until("verdicts come", partial(fleet.has_asked, 50 * turn), within_s=60)
        fleet.kill(rng.choice(fleet.workers))
        fleet.start()
    fleet.ended(within_s=300)
    store = Redis(*connect(fleet.url), "shop")
    assert_equal(sums(store), sums_of_one(asked, tmp_path / "one"))
