"""What a fleet's worker and its estimator can do in a second, on one core, over a real Redis.

    PYTHONPATH=. python tests/bench/fleet.py [--answers 2000] [--page] [--loss 20]

Short answers are those of the tests; long ones have four chunks of 800 characters of docs/. With
`--page` the estimator serves the page, which nobody looks at. With
`--loss` also what Redis has lost of what it had acknowledged, when it is killed with -9 in so many
rounds, at a random time within a second of puts.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ragmonitor import Interaction
from ragmonitor.cli.services import GC_THRESHOLD
from ragmonitor.errors import StreamError
from ragmonitor.fleet import estimator
from ragmonitor.fleet.estimator import Term
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.fleet.fleet_worker import FleetWorker
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.testing import ScriptedJudge
from ragmonitor.wire import encode
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
        "estimator_per_s": round(answers / estimator_s),
        "redis_bytes": round(held / answers),
    }


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


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=2_000)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--loss", type=int, default=0, metavar="ROUNDS")
    options = parser.parse_args()
    estimator.LEASE_S = 600.0  # type: ignore[misc] # a busy machine holds it up for longer
    judge = ScriptedJudge(lambda _: assessment("supported"))
    judges: dict[str, dict[str, object]] = {"builtin": {}, "judged": {"judge": judge, "sample": 1}}
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as server:
        for kind in (short, long):
            for name, settings in judges.items():
                key = f"{kind.__name__}, {name}"
                found[key] = measured(
                    server.url, options.answers, kind, page=options.page, **settings
                )
    if options.loss:
        found["lost"] = {fsync: lost(fsync, options.loss) for fsync in ("everysec", "always")}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
