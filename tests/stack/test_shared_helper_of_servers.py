"""One helper process for all workers of gunicorn, uvicorn and celery: one exact scrape."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.prometheus_server import free_port
from tests.support.scrape import scrape
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="workers find a common helper on Linux"),
]

APPLICATION = """
import json, os
from ragmonitor import Monitor

class Told:
    def export(self, report):
        pass
    def alarm(self, event):
        with open("alarms", "a") as file:
            print(event.signal, event.raised, file=file)
    def flush(self, timeout_s):
        return True
    def close(self):
        pass

monitor = Monitor(service="shared", worker="shared", objectives={"hallucination": 0.05},
                  exporters=[Told()])

def answered(path):
    with monitor.interaction(query="How heavy may a parcel be?") as i:
        i.retrieved(["A parcel may weigh 40 kg."])
        i.answered("A parcel may weigh 90 kg." if "wrong" in path else "A parcel may weigh 40 kg.")
    return json.dumps([os.getpid(), getattr(monitor._back._helper, "pid", None)]).encode()

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
    "gunicorn": "gunicorn --workers 4 --bind 127.0.0.1:{port} application:wsgi",
    "gunicorn, preloaded": (
        "gunicorn --preload --workers 4 --bind 127.0.0.1:{port} application:wsgi"
    ),
    "gunicorn, max_requests": (
        "gunicorn --workers 4 --max-requests 20 --bind 127.0.0.1:{port} application:wsgi"
    ),
    "uvicorn": "uvicorn --workers 2 --port {port} --lifespan off application:asgi",
}


class Served:
    """A server that runs, and what it was asked."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, web: int, port: int) -> None:
        self.process, self.folder = process, folder
        self._web, self._metrics = f"http://127.0.0.1:{web}", f"http://127.0.0.1:{port}/metrics"
        self.asked = 0

    def ask(self, path: str = "right") -> tuple[int, int | None]:
        """Return the process ids of the worker that answered and of its helper."""
        with urlopen(f"{self._web}/{path}", timeout=30) as response:
            worker, helper = json.loads(response.read())
        self.asked += 1
        return worker, helper

    def ask_many(self, n: int, path: str = "right") -> set[int]:
        """Return the workers that answered; at once."""
        with ThreadPoolExecutor(8) as pool:
            return {worker for worker, _ in pool.map(self.ask, [path] * n)}

    def helpers(self) -> set[int | None]:
        """Return the helpers of workers that have one."""
        return {self.ask()[1] for _ in range(20)} - {None}

    def counted(self) -> tuple[float, float]:
        """Return interactions, and evaluations of faithfulness."""
        samples = scrape(self._metrics)
        captured = sum(s.value for s in samples.get("ragmonitor_interactions_total", ()))
        evaluated = sum(
            s.value
            for s in samples.get("ragmonitor_evaluations_total", ())
            if s.labels["evaluator"] == "faithfulness"
        )
        return captured, evaluated

    def raised(self) -> float:
        """Return how many alarms of hallucination were raised."""
        samples = scrape(self._metrics)["ragmonitor_alarms_raised_total"]
        return sum(s.value for s in samples if s.labels["signal"] == "hallucination")


@contextmanager
def serving(folder: Path, command: str) -> Iterator[Served]:
    (folder / "application.py").write_text(APPLICATION, encoding="utf-8")
    web, port = free_port(), free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command.format(port=web).split()],
            cwd=folder,
            env={**os.environ, "RAGMONITOR_SERVER__PORT": str(port)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        served = Served(process, folder, web, port)
        until("the application answers", served.ask)
        yield served
        process.terminate()
        process.wait(30)
        until("nothing of it is left", lambda: not _is_alive(process.pid))
        text = (folder / "log").read_text()
        assert "Traceback" not in text, text
        assert "error in stage" not in text, text
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("command", SERVERS.values(), ids=SERVERS)
def test_one_scrape_has_all_answers_of_all_workers(tmp_path, command):
    """However the workers come to be, and though they are replaced; all is gone at the end."""
    with serving(tmp_path, command) as served:
        workers = served.ask_many(200)
        # Which process takes a connection is the system's choice: one may be quicker for a while.
        while len(workers) == 1 and served.asked < 2_000:
            workers |= served.ask_many(8)
        assert len(workers) > 1
        until("all are there", lambda: served.counted() == (served.asked, served.asked))
        assert len(served.helpers()) == 1
        until("all are there", lambda: served.counted() == (served.asked, served.asked))


def test_a_killed_worker_takes_neither_the_helper_nor_a_count_along(tmp_path):
    """Also the one that started the helper: the server replaces it, and the sums go on."""
    with serving(tmp_path, SERVERS["gunicorn"]) as served:
        for _ in range(3):
            served.ask_many(40)
            until("all are there", lambda: served.counted() == (served.asked, served.asked))
            os.kill(served.ask()[0], signal.SIGKILL)
            served.asked -= 1  # what the worker had not handed over died with it, or did not
            before = served.asked
            until("the server goes on", lambda: served.ask_many(8))
            captured = until("it is counted", lambda: _settled(served))
            assert captured - served.asked in (0, 1)
            assert served.asked > before
            served.asked = int(captured)


def _settled(served: Served) -> float:
    """Return the interactions, once as many were evaluated and none is missing."""
    captured, evaluated = served.counted()
    return captured if captured == evaluated >= served.asked else 0.0


def test_a_graceful_restart_keeps_the_sums(tmp_path):
    """The workers of before and after have the same helper, for as long as the server lives."""
    with serving(tmp_path, SERVERS["gunicorn"]) as served:
        before = served.ask_many(100)
        helper = until("it is known", lambda: served.ask()[1])
        served.process.send_signal(signal.SIGHUP)
        until("others answer", lambda: served.ask()[0] not in before)
        served.ask_many(100)
        until("all are there", lambda: served.counted() == (served.asked, served.asked))
        assert served.helpers() == {helper}


def test_a_killed_helper_is_replaced_by_one_for_all(tmp_path):
    """Its sums end with it, as those of any process; what comes afterwards is in one scrape."""
    with serving(tmp_path, SERVERS["gunicorn"]) as served:
        served.ask_many(100)
        until("all are there", lambda: served.counted() == (served.asked, served.asked))
        helper = until("it is known", lambda: served.ask()[1])
        until("all are there", lambda: served.counted() == (served.asked, served.asked))
        os.kill(helper, signal.SIGKILL)
        before, served.asked = served.asked, 0
        served.ask_many(100)
        # What it had not told of by then is counted again, as what it had in hand.
        captured = until("all are there", lambda: _settled(served))
        assert captured <= served.asked + before
        (other,) = served.helpers()
        assert other != helper


@pytest.mark.parametrize("more", ["", "--preload"])
def test_workers_of_gevent_score_on_a_thread_and_say_why(tmp_path, more):
    """No greenlet may wait for a helper process; all is scored, and the log names what to do."""
    command = f"gunicorn {more} --worker-class gevent --workers 1 --bind 127.0.0.1:{{port}}"
    with serving(tmp_path, f"{command} application:wsgi") as served:
        served.ask_many(40)
        until("all are there", lambda: served.counted() == (served.asked, served.asked))
        text = (tmp_path / "log").read_text()
        assert text.count("gevent has replaced threads") == 1
        assert "did not start" not in text


def test_there_is_one_alarm_for_all_workers(tmp_path):
    """It is raised once, and told to one of them."""
    with serving(tmp_path, SERVERS["gunicorn"]) as served:
        served.ask_many(200, "wrong")
        until("it is raised", lambda: served.raised() == 1)
        until("it is told", (tmp_path / "alarms").exists)
        served.ask_many(200, "wrong")
        until("all are there", lambda: served.counted() == (served.asked, served.asked))
        assert served.raised() == 1
        told = (tmp_path / "alarms").read_text().splitlines()
        assert told.count("hallucination True") == 1
