"""What a fleet's worker and its estimator can do in a second, on one core, over a real Redis.

python tests/bench/fleet.py [--answers 2000]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

from ragmonitor.fleet.estimator import Term
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.fleet.fleet_worker import FleetWorker
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.testing import ScriptedJudge
from ragmonitor.wire import encode
from tests.support.redis_server import running_redis
from tests.support.stories import assessment, interaction

SERVICE = "bench"


def measured(url: str, answers: int, **options: object) -> dict[str, float]:
    """Return answers per second of CPU, of a worker and of an estimator, and the memory of each."""
    stream = FleetStream(url, SERVICE)
    stream.put([encode(interaction(id=f"{n:032x}"), compressed=True) for n in range(answers)])
    settings = Settings.load(service=SERVICE, server=False, **options)
    worker = FleetWorker(settings, FleetStream(url, SERVICE), redactor=Redactor())
    began = time.process_time()
    worker.run(threading.Event(), drain=True)
    worker_s = time.process_time() - began
    term = Term(settings, stream, stream.lead("bench", "", 600.0))
    began = time.process_time()
    term.begin()
    while term.step():
        pass
    term.tick()
    estimator_s = time.process_time() - began
    assert sum(term.state.interactions.values()) == answers
    term.close()
    stream.release(stream.leader())
    stream._redis.flushall()
    return {
        "worker_per_s": round(answers / worker_s),
        "estimator_per_s": round(answers / estimator_s),
    }


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=2_000)
    answers = parser.parse_args().answers
    judge = ScriptedJudge(lambda _: assessment("supported"))
    with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as server:
        found = {
            "builtin": measured(server.url, answers),
            "judged": measured(server.url, answers, judge=judge, sample=1.0),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
