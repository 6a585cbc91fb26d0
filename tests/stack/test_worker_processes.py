"""A preloaded gunicorn application with several worker processes, scraped as documented."""

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

import pytest

from tests.support.scrape import scrape
from tests.support.waiting import until

pytestmark = pytest.mark.slow

APPLICATION = """
import os
from ragmonitor import Monitor

monitor = Monitor(service="forked")

def answered(path):
    number = int(path.rpartition("/")[2] or 0)
    with monitor.interaction(query=f"When was number {number} built?") as i:
        i.retrieved(["It was built in 1889."])
        i.answered("It was built in 1889." if number % 2 else "Napoleon painted bananas.")
    return str(os.getpid()).encode()

answered("/0")  # the worker thread runs before any fork

def wsgi(environ, start_response):
    body = answered(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        body = answered(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
"""
SERVERS = {
    "gunicorn": "gunicorn --workers 3 --threads 2 --bind 127.0.0.1:{port} application:wsgi",
    "gunicorn, preloaded": (
        "gunicorn --preload --workers 3 --threads 2 --bind 127.0.0.1:{port} application:wsgi"
    ),
    "uvicorn, spawned": "uvicorn --workers 3 --port {port} --lifespan off application:asgi",
}
BEFORE = {"gunicorn": 3, "gunicorn, preloaded": 1, "uvicorn, spawned": 3}
"""Interactions at import: once in the parent that is forked, or once in each spawned worker."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(params=["thread", "process"])
def place(request):
    """Where the application's monitors work."""
    return request.param


@pytest.fixture(params=SERVERS)
def application(request, tmp_path, place):
    (tmp_path / "application.py").write_text(APPLICATION, encoding="utf-8")
    web, metrics = free_port(), free_port()
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", *SERVERS[request.param].format(port=web).split()],
        cwd=tmp_path,
        env={
            **os.environ,
            "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "metrics"),
            "RAGMONITOR_SERVER__PORT": str(metrics),
            "RAGMONITOR_WORKER": place,
        },
        stdout=log,
        stderr=log,
    )
    try:
        yield (
            f"http://127.0.0.1:{web}",
            f"http://127.0.0.1:{metrics}/metrics",
            tmp_path / "log",
            BEFORE[request.param],
        )
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def test_all_worker_processes_are_in_one_scrape(application):
    """Counters add up over processes, the mean is that of all answers, and nobody crashed."""
    web, metrics, log, before = application

    def ask(number):
        with urlopen(f"{web}/ask/{number}", timeout=30) as response:
            return response.read()

    until("the application answers", lambda: ask(1))
    with ThreadPoolExecutor(16) as pool:
        pids = set(pool.map(ask, range(2, 301)))
        # Which process takes a connection is the system's choice: one may be quicker for a while.
        asked = 300
        while len(pids) == 1 and asked < 2_000:
            asked += 1
            pids.add(ask(asked))
    assert len(pids) > 1, "one process only had all the requests"

    def counted(samples):
        return sum(s.value for s in samples.get("ragmonitor_interactions_total", ()))

    def of_the_day(samples, name):
        return [
            s.value
            for s in samples.get(name, ())
            if s.labels["evaluator"] == "faithfulness" and s.labels["window"] == "24h"
        ]

    def everything():
        # Counters are there at once, windowed sums when each process has refreshed its own.
        samples = scrape(metrics)
        seen = of_the_day(samples, "ragmonitor_score_effective_n")
        whole = counted(samples) >= asked + before and sum(seen) > asked - 1 + before
        return samples if whole else None

    samples = until("all interactions are in the scrape", everything)
    assert counted(samples) == asked + before
    (mean,) = of_the_day(samples, "ragmonitor_score_mean")
    assert mean == pytest.approx(asked / 2 / (asked + before), abs=0.01)
    text = log.read_text()
    assert "Traceback" not in text, text
    assert "error in stage" not in text, text
