"""What a fleet's worker and its estimator can do in a second, on one core, over a real Redis.

    PYTHONPATH=. python tests/bench/fleet.py [--answers 2000] [--page] [--calls] [--loss 20]
    PYTHONPATH=. python tests/bench/fleet.py --workers 1,2 [--answers 6000] [--rounds 3]

Short answers are those of the tests; long ones have four chunks of 800 characters of docs/. With
`--page` the estimator serves the page, which nobody looks at. With `--calls` the calls of functions
that it makes for each answer stand in the place of its rate: they are the same on a busy machine.
With `--loss` also what Redis has lost of what it had acknowledged, when it is killed with -9 in so
many rounds, at a random time within a second of puts.

With `--workers`: what so many `ragmonitor worker --fleet` settle of the same answers, which wait on
the stream of a redis-server of its own on loopback, as a rate and for each second of their CPU.
Both are of the time between the first look at which every worker has begun, and the last at which
answers still wait. Each worker is bound to a core of its own, as far as there are cores: a kernel
may keep two busy processes on one. `cores` is what they had of them. There are five times as many
short answers as long ones; the numbers of workers take turns, and the medians stand.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from statistics import median

from ragmonitor import Interaction
from ragmonitor.cli.services import GC_THRESHOLD
from ragmonitor.errors import StreamError
from ragmonitor.fleet import estimator
from ragmonitor.fleet.estimator import Term
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.fleet.fleet_worker import FleetWorker
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.streams.redis_streams import GROUP
from ragmonitor.testing import ScriptedJudge
from ragmonitor.wire import encode
from tests.bench.million_queued import running
from tests.bench.wire import DOCS, record
from tests.support.redis_server import running_redis
from tests.support.stories import assessment, interaction

SERVICE = "bench"


def short(answers: int) -> Sequence[Interaction]:
    """Return the answers of the tests."""
    return [interaction(id=f"{n:032x}") for n in range(answers)]


def long(answers: int) -> Sequence[Interaction]:
    """Return answers from another place of the documentation each."""
    source = (DOCS / "statistics.md").read_text("utf-8")
    room = len(source) - 4_000
    return [replace(record(source[n * 97 % room :], 800), id=f"{n:032x}") for n in range(answers)]


def measured(
    url: str,
    answers: int,
    kind: Callable[[int], Sequence[Interaction]],
    *,
    page: bool,
    counts_calls: bool = False,
    **options: object,
) -> dict[str, float]:
    """Return answers per second of CPU, of a worker and an estimator, and Redis' bytes for each."""
    stream = FleetStream(url, SERVICE)
    before = stream._redis.info("memory")["used_memory"]
    stream.put([encode(each, compressed=True) for each in kind(answers)])
    held = stream._redis.info("memory")["used_memory"] - before
    settings = Settings.load(service=SERVICE, server=False, **options)
    worker = FleetWorker(settings, FleetStream(url, SERVICE), redactor=Redactor())
    began = time.process_time()
    worker.run(threading.Event(), drain=True)
    worker_s = time.process_time() - began
    if page:
        shown = {"port": 0, "ui": True}
        settings = Settings.load(service=SERVICE, server=shown, **options)
    term = Term(settings, stream, stream.lead("bench", "", 600.0))
    gc.freeze()  # as `ragmonitor estimator` does
    gc.set_threshold(GC_THRESHOLD)
    began = time.process_time()
    term.begin()
    with counted() if counts_calls else nullcontext([0]) as calls:
        while term.step():
            pass
        term.tick()
    estimator_s = time.process_time() - began
    gc.set_threshold(700)
    gc.unfreeze()
    assert sum(term.state.interactions.values()) == answers
    term.close()
    stream.release(stream.leader())
    stream._redis.flushall()
    return {
        "worker_per_s": round(answers / worker_s),
        **(
            {"estimator_calls": round(calls[0] / answers)}
            if counts_calls
            else {"estimator_per_s": round(answers / estimator_s)}
        ),
        "redis_bytes": round(held / answers),
    }


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count calls of functions, ours and built-in ones."""
    calls = [0]

    def note(_: object, event: str, __: object) -> None:
        calls[0] += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def drained(url: str, data: Sequence[bytes], workers: int) -> tuple[float, float]:
    """Return answers a second, and for each second of the workers' CPU.

    Raises:
        ValueError: The answers were taken before every worker had begun.
    """
    stream = FleetStream(url, SERVICE)
    for at in range(0, len(data), 64):
        stream.put(data[at : at + 64])
    looks: list[tuple[float, float, int]] = []
    with ExitStack() as stack:
        pids = [
            stack.enter_context(running(url, ("worker", "--fleet"))).pid for _ in range(workers)
        ]
        for pid, core in zip(pids, cycle(sorted(os.sched_getaffinity(0))), strict=False):
            os.sched_setaffinity(pid, {core})
        at_work: set[bytes] = set()
        while stream.state().waiting:
            # The clock of another process's CPU time, as of `clock_getcpuclockid`.
            cpu_s = sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)
            if len(at_work) < workers:
                consumers = stream._redis.xinfo_consumers(stream._key, GROUP)
                at_work |= {each["name"] for each in consumers}
            else:
                looks.append((time.monotonic(), cpu_s, stream.unsettled()))
            time.sleep(0.05)
    stream._redis.flushall()
    stream.close()
    if len(looks) < 2:
        raise ValueError("too few answers: they were taken before every worker had begun")
    (began_s, before_s, first), (ended_s, after_s, last) = looks[0], looks[-1]
    return (last - first) / (ended_s - began_s), (last - first) / (after_s - before_s)


def scaled(workers: Sequence[int], answers: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the rates of so many workers, and their ratios to those of the first number."""
    found: dict[str, dict[str, float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_redis(Path(folder), fsync="everysec") as server,
    ):
        for kind, times in ((short, 5), (long, 1)):
            data = [encode(each, compressed=True) for each in kind(times * answers)]
            each_round: dict[int, list[tuple[float, float]]] = defaultdict(list)
            for _ in range(rounds):
                for n in workers:
                    each_round[n].append(drained(server.url, data, n))
            first = each_round[workers[0]]
            for n, these in each_round.items():
                found[f"{kind.__name__}, {n}"] = {
                    "per_s": round(median(rate for rate, _ in these)),
                    "per_cpu_s": round(median(of_cpu for _, of_cpu in these)),
                    "cores": round(median(rate / of_cpu for rate, of_cpu in these), 2),
                    "ratio": round(_ratio(these, first, 0), 2),
                    "ratio_per_cpu": round(_ratio(these, first, 1), 2),
                }
    return found


def _ratio(
    these: Sequence[tuple[float, float]], first: Sequence[tuple[float, float]], which: int
) -> float:
    """Return the median over rounds of a figure's ratio to that of the same round."""
    return median(a[which] / b[which] for a, b in zip(these, first, strict=True))


def lost(fsync: str, rounds: int) -> list[int]:
    """Return how many acknowledged records each kill of Redis lost."""
    chance, found = random.Random(7), []
    data = [encode(each, compressed=True) for each in short(64)]
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            with running_redis(Path(folder), fsync=fsync) as server:
                acknowledged = 0
                threading.Timer(chance.uniform(0.2, 1.2), server.process.kill).start()
                with suppress(StreamError):
                    while True:
                        acknowledged += FleetStream(server.url, SERVICE).put(data)
                server.process.wait(10)
            with running_redis(Path(folder), fsync=fsync) as server:
                stored = server.client().xlen(f"ragmonitor:{{{SERVICE}}}:records")
            found.append(max(0, acknowledged - stored))
    return found


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=2_000)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--loss", type=int, default=0, metavar="ROUNDS")
    parser.add_argument("--workers", type=_numbers, default=(), metavar="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.workers:
        print(json.dumps(scaled(options.workers, options.answers, options.rounds), indent=1))
        return
    estimator.LEASE_S = 600.0  # type: ignore[misc] # a busy machine holds it up for longer
    judge = ScriptedJudge(lambda _: assessment("supported"))
    judges: dict[str, dict[str, object]] = {"builtin": {}, "judged": {"judge": judge, "sample": 1}}
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as server:
        for kind in (short, long):
            for name, settings in judges.items():
                key = f"{kind.__name__}, {name}"
                found[key] = measured(
                    server.url,
                    options.answers,
                    kind,
                    page=options.page,
                    counts_calls=options.calls,
                    **settings,
                )
    if options.loss:
        found["lost"] = {fsync: lost(fsync, options.loss) for fsync in ("everysec", "always")}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
