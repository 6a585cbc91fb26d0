"""What a stream costs: putting a record, and a worker alone that takes, scores and settles it.

    PYTHONPATH=. python tests/bench/streams.py [--answers 1000] [--rounds 3]

Redis is a server of Debian's package, a process of its own.

All figures are CPU of the whole process: microseconds for each record put, in batches of 64, and
of each record taken and settled without anything between; answers a second that a worker with the
built-in judge scores. The best of the rounds stands. Short answers are those of the tests; long
ones have four chunks of 800 characters of docs/.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ragmonitor.back_half.stream_worker import MAX_OPEN, StreamWorker
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.streams import RedisStream, Stream
from ragmonitor.wire import encode
from tests.bench.fleet import SERVICE, long, short
from tests.support.redis_server import RedisServer, running_redis
from tests.support.scrape import total

BATCH = 64


def put(stream: Stream, records: Sequence[bytes]) -> float:
    """Return the CPU seconds of putting records in batches."""
    began_s = time.process_time()
    stored = sum(stream.put(records[at : at + BATCH]) for at in range(0, len(records), BATCH))
    took_s = time.process_time() - began_s
    assert stored == len(records), "the stream refused some"
    return took_s


def taken(stream: Stream, records: int) -> float:
    """Return the CPU seconds of taking and settling records."""
    assert stream.hold("bench", 600.0)
    began_s = time.process_time()
    left = records
    while left:
        ids = [each.id for each in stream.take("bench", MAX_OPEN, wait_s=5.0, stale_s=None)]
        stream.settle(ids)
        left -= len(ids)
    took_s = time.process_time() - began_s
    stream.release("bench")
    return took_s


def worked(stream: Stream, records: int) -> float:
    """Return the CPU seconds of a worker from the first record to the last."""
    settings = Settings.load(service=SERVICE, server=False)
    worker = StreamWorker(settings, stream, redactor=Redactor())
    began_s = time.process_time()
    worker.run(threading.Event(), drain=True)
    took_s = time.process_time() - began_s
    assert total(worker.back.registry, "ragmonitor_interactions_total") == records
    return took_s


def measured(server: RedisServer, records: Sequence[bytes]) -> dict[str, float]:
    """Return one round on new streams."""
    n, us = len(records), 1e6 / len(records)
    server.client().flushall()
    bare = RedisStream(server.url, SERVICE)
    bare.put(records[:1])  # connects
    found = {
        "put_us": put(bare, records) * us,
        "take_and_settle_us": taken(bare, n + 1) * us,
    }
    bare.close()
    server.client().flushall()
    for_worker = RedisStream(server.url, SERVICE)
    put(for_worker, records)
    for_worker.close()
    found["worker_us"] = worked(RedisStream(server.url, SERVICE), n) * us
    return found


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        server = stack.enter_context(
            running_redis(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        )
        for kind in (short, long):
            records = [encode(each, compressed=True) for each in kind(asked.answers)]
            rounds = [measured(server, records) for _ in range(asked.rounds)]
            best = {name: min(each[name] for each in rounds) for name in rounds[0]}
            found[kind.__name__] = {
                "put_us": round(best["put_us"], 1),
                "take_and_settle_us": round(best["take_and_settle_us"], 1),
                "worker_per_s": round(1e6 / best["worker_us"]),
            }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
