"""What a stream costs: putting a record, and a worker alone that takes, scores and settles it.

    PYTHONPATH=. python tests/bench/streams.py [--answers 1000] [--rounds 3]

Redis is a server of Debian's package, a process of its own. Kafka is librdkafka's mock cluster: it
runs on threads of this process, so its CPU is in the figures, and it has no disk, no replicas and
no network beyond loopback. It says what our side and the client cost at most, and nothing of a
broker.

All figures are CPU of the whole process: microseconds for each record put, in batches of 64, and
of each record taken and settled without anything between; answers a second that a worker with the
built-in judge scores. The best of the rounds stands. Short answers are those of the tests; long
ones have four chunks of 800 characters of docs/; the mock cluster has room for some 5,000 of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from ragmonitor.back_half.stream_worker import MAX_OPEN, StreamWorker
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.streams import Stream, stream_of
from ragmonitor.wire import encode
from tests.bench.fleet import SERVICE, long, short
from tests.support.kafka_cluster import running_kafka
from tests.support.redis_server import running_redis
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


def measured(address: Callable[[], str], records: Sequence[bytes]) -> dict[str, float]:
    """Return one round on new streams."""
    n, us = len(records), 1e6 / len(records)
    bare = stream_of(address(), SERVICE, max_records=1_000_000)
    bare.put(records[:1])  # connects
    found = {
        "put_us": put(bare, records) * us,
        "take_and_settle_us": taken(bare, n + 1) * us,
    }
    bare.close()
    url = address()
    for_worker = stream_of(url, SERVICE, max_records=1_000_000)
    put(for_worker, records)
    for_worker.close()
    found["worker_us"] = worked(stream_of(url, SERVICE, max_records=1_000_000), n) * us
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
        cluster = stack.enter_context(running_kafka())

        def redis() -> str:
            server.client().flushall()
            return server.url

        def kafka() -> str:
            return cluster.url(f"t{uuid.uuid4().hex}", partitions=3)

        for kind in (short, long):
            records = [encode(each, compressed=True) for each in kind(asked.answers)]
            for engine in (redis, kafka):
                rounds = [measured(engine, records) for _ in range(asked.rounds)]
                best = {name: min(each[name] for each in rounds) for name in rounds[0]}
                found[f"{kind.__name__}, {engine.__name__}"] = {
                    "put_us": round(best["put_us"], 1),
                    "take_and_settle_us": round(best["take_and_settle_us"], 1),
                    "worker_per_s": round(1e6 / best["worker_us"]),
                }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
