"""Several worker processes that share a judge's budget, a state folder and one scrape."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.openai_server import OpenAiServer
from tests.support.scrape import scrape
from tests.support.waiting import until

pytestmark = pytest.mark.slow

APPLICATION = """
import atexit, os, time
# Registered first, so that it runs last: what the interpreter then frees is not ours.
atexit.register(lambda: print("ended at", time.time(), flush=True))
from ragmonitor import Monitor

monitor = Monitor(service="forked")

def answered(path):
    number = path.rpartition("/")[2]
    with monitor.interaction(query=f"When was {number} built?", session_id=number[:1]) as i:
        i.retrieved([f"Number {number} was built in 1889."])
        i.answered(f"Number {number} was built in 1889.")
    return str(os.getpid()).encode()

def wsgi(environ, start_response):
    body = answered(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        monitor.close(5)  # uvicorn ends by the signal itself: nothing that waits for the exit runs
        print("ended at", time.time(), flush=True)
        await send({"type": "lifespan.shutdown.complete"})
    if scope["type"] == "http":
        body = answered(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
"""
EARLY = """
monitor.start()
answered("/0")
"""
SERVERS = {
    "gunicorn, running before the fork": (
        "gunicorn --preload --workers 3 --threads 2 --bind 127.0.0.1:{port} application:wsgi"
    ),
    "uvicorn, spawned": "uvicorn --workers 3 --port {port} --lifespan on application:asgi",
}
WORKERS = 3
BUDGET = 60
ASKED = 48
EXIT_MOST_S = 5.0


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Served:
    """An application in several processes."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, metrics: int, log: Path):
        self.process = process
        self.web = f"http://127.0.0.1:{port}"
        self.metrics = f"http://127.0.0.1:{metrics}/metrics"
        self._log = log

    def ask(self, number: int) -> bytes:
        with urlopen(f"{self.web}/{number}", timeout=90) as response:
            return bytes(response.read())

    def ask_all_workers(self) -> int:
        """Ask until every worker has answered, and then some; return how often."""
        pids: Counter[bytes] = Counter()
        with ThreadPoolExecutor(12) as pool:
            until("the application answers", lambda: pids.update([self.ask(0)]) or True)

            def ask() -> bool:
                pids.update(pool.map(self.ask, range(pids.total(), pids.total() + 24)))
                return len(pids) == WORKERS and pids.total() >= ASKED

            until(f"every worker answers, not only {pids}", ask, within_s=60)
        return pids.total()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def ends(self) -> float:
        """Return when the last worker was done, in seconds after it was asked to end."""
        began = time.time()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        ended = re.findall(r"^ended at (\S+)$", self.log, re.MULTILINE)
        assert len(ended) >= WORKERS, self.log
        # A master ends last: it waits for the interpreters of the others.
        return sorted(map(float, ended))[WORKERS - 1] - began


@contextmanager
def serving(kind: str, folder: Path, **variables: str) -> Iterator[Served]:
    code = APPLICATION + (EARLY if "before the fork" in kind else "")
    (folder / "application.py").write_text(code, encoding="utf-8")
    web, metrics = free_port(), free_port()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *SERVERS[kind].format(port=web).split()],
            cwd=folder,
            env={
                **os.environ,
                "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics"),
                "RAGMONITOR_SERVER__PORT": str(metrics),
                "RAGMONITOR_STATE": str(folder / "state"),
                "RAGMONITOR_JUDGE": "openai/judge",
                "RAGMONITOR_SAMPLE": "1",
                "RAGMONITOR_JUDGE__REPEAT_RATE": "0",
                "RAGMONITOR_JUDGE__REFERENCE_ANSWERS_PER_DAY": "0",
                "OPENAI_API_KEY": "none",
                **variables,
            },
            stdout=log,
            stderr=log,
        )
        try:
            yield Served(process, web, metrics, folder / "log")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(10)


@pytest.mark.parametrize("kind", SERVERS)
def test_each_worker_is_judged_out_of_one_budget(kind: str, tmp_path: Path) -> None:
    """All numbers are in one scrape, nothing is missing from the sums, and it ends at once."""
    with (
        OpenAiServer() as openai,
        serving(
            kind,
            tmp_path,
            RAGMONITOR_JUDGE__API_BASE=openai.api_base,
            RAGMONITOR_JUDGE__REPEAT_RATE="0",  # each call counted is an answer
            RAGMONITOR_BUDGET__CALLS_PER_HOUR=str(BUDGET),
        ) as served,
    ):
        captured = served.ask_all_workers() + (1 if "before the fork" in kind else 0)

        def settled() -> dict[str, Counter[str]] | None:
            samples = scrape(served.metrics)
            assert sum(s.value for s in samples["ragmonitor_interactions_total"]) == captured
            found: dict[str, Counter[str]] = {}
            for s in samples["ragmonitor_evaluations_total"]:
                if s.labels["evaluator"] == "faithfulness":
                    by = found.setdefault(s.labels["judge"], Counter())
                    by[s.labels["outcome"]] += int(s.value)
            whole = {judge: sum(by.values()) for judge, by in found.items()}
            assert whole == {"builtin": captured, "openai/judge": captured}
            return found

        found = until("captured = scored + unscored", settled, within_s=90)
        assert found["builtin"] == {"scored": captured}
        assert set(found["openai/judge"]) <= {"scored", "over_budget", "not_sampled"}
        # So small a budget bears one reading at once; one for each process were three.
        assert 1 <= len(openai.chats) < WORKERS
        assert found["openai/judge"]["scored"] == len(openai.chats)
        assert served.ends() < EXIT_MOST_S
        assert "Traceback" not in served.log
        assert "error in stage" not in served.log
