"""What commands say of each process of a fleet, and of applications with a stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ragmonitor import ServerSettings
from ragmonitor.back_half.stream_worker import StreamWorker
from ragmonitor.cli.app import app
from ragmonitor.fleet import estimator as estimator_module
from ragmonitor.fleet import fleet_worker
from ragmonitor.fleet.estimator import Estimator
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.fleet.fleet_worker import FleetWorker
from ragmonitor.records import Interaction
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.streams import RedisStream
from ragmonitor.wire import encode
from tests.support.prometheus_server import free_port
from tests.support.redis_server import RedisServer, running_redis
from tests.support.scrape import total
from tests.support.stories import interaction
from tests.support.waiting import until

pytest.importorskip("redis")

SERVICE = "shop"


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis"), password="correct-horse") as running:
        yield running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator_module, "TICK_S", 0.1)
    monkeypatch.setattr(estimator_module, "STAND_BY_S", 0.05)
    monkeypatch.setattr(fleet_worker, "REFRESH_S", 0.1)
    monkeypatch.setattr(fleet_worker, "RETRY_S", 0.05)
    monkeypatch.setenv("RAGMONITOR_JUDGE__REFERENCE_ANSWERS_PER_DAY", "0")
    monkeypatch.setenv("RAGMONITOR_JUDGE__REPEAT_RATE", "0")


def stream(server: RedisServer) -> FleetStream:
    return FleetStream(server.url, SERVICE)


def answers(count: int, begin: int = 0) -> list[Interaction]:
    return [interaction(id=f"{n:032x}") for n in range(begin, begin + count)]


def put(server: RedisServer, records: Sequence[Interaction]) -> None:
    assert stream(server).put([encode(each) for each in records]) == len(records)


def settings(port: int = 0, **options: Any) -> Settings:
    served = ServerSettings(port=port) if port else ServerSettings(enabled=False)
    return Settings.load(service=SERVICE, server=served, **options)


@contextmanager
def running(work: Any) -> Iterator[Any]:
    stop = threading.Event()
    thread = threading.Thread(target=work.run, args=(stop,))
    thread.start()
    try:
        yield work
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def command(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [*words], env={"COLUMNS": "300"})
    assert result.exit_code == code, result.output
    return result


@dataclass(frozen=True)
class Fleet:
    """Where each process of a running fleet serves /metrics."""

    worker: str
    estimator: str
    standby: str


@pytest.fixture
def fleet(server: RedisServer) -> Iterator[Fleet]:
    ports = [free_port() for _ in range(3)]
    urls = [f"http://127.0.0.1:{port}/metrics" for port in ports]
    with ExitStack() as stack:
        first = stack.enter_context(running(Estimator(settings(ports[1]), stream(server))))
        until("it estimates", lambda: first.term is not None)
        second = stack.enter_context(running(Estimator(settings(ports[2]), stream(server))))
        work = FleetWorker(settings(ports[0]), stream(server), redactor=Redactor())
        stack.enter_context(running(work))
        put(server, answers(5))
        registry = first.term.meters.registry
        until("all are counted", lambda: total(registry, "ragmonitor_interactions_total") == 5)
        until("the worker has looked", lambda: work.meters.elsewhere.url == urls[1])
        until("so has the other one", lambda: second._standby and second._standby.elsewhere.url)
        yield Fleet(*urls)


@pytest.mark.parametrize(
    "words",
    [
        ("incident", "--address"),
    ],
    ids=" ".join,
)
def test_commands_that_read_the_page_say_who_has_it(fleet: Fleet, words: tuple[str, ...]):
    """And not that a setting is missing, which would not help."""
    said = command(*words, fleet.standby, code=2).stderr
    assert f"keeps them, at {fleet.estimator}" in said
    assert "server.ui" not in said


@pytest.mark.parametrize(
    ("change", "state", "said"),
    [
        (lambda client: client.config_set("maxmemory-policy", "allkeys-lru"), "failed", "deletes"),
        (lambda client: client.config_set("appendonly", "no"), "note", "ends with its process"),
        (lambda client: client.shutdown(nosave=True), "failed", "cannot be read"),
    ],
    ids=["evicts", "in memory alone", "gone"],
)
def test_doctor_finds_a_server_that_may_lose_records(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, change: Any, state: str, said: str
):
    monkeypatch.setenv("RAGMONITOR_STREAM", server.url)
    monkeypatch.setenv("RAGMONITOR_SERVER__PORT", "0")
    with server.client() as client:
        change(client)
    told = CliRunner().invoke(app, ["doctor", "--json"]).stdout
    checks = {each["name"]: each for each in json.loads(told)["checks"]}
    assert checks["stream"]["state"] == state
    assert said in checks["stream"]["finding"]


# --- what a reading costs -------------------------------------------------------------------------


# --- the sums -------------------------------------------------------------------------------------


def test_sums_hold_beside_a_worker_alone_and_in_the_fleet_that_follows(server: RedisServer):
    """Also for what the worker has buried, and what came twice."""

    def places() -> list[int]:
        found = asdict(stream(server).counts())
        names = ("waiting", "open", "settled", "buried", "duplicates")
        assert found["stored"] == sum(found[name] for name in names)
        return [found[name] for name in names]

    put(server, [*answers(7), *answers(1)])
    stream(server).put([b"nonsense"])
    alone = RedisStream(server.url, SERVICE)
    StreamWorker(settings(), alone, redactor=Redactor()).run(threading.Event(), drain=True)
    put(server, answers(3, begin=7))
    assert places() == [3, 0, 8, 1, 0]
    worker = FleetWorker(settings(), stream(server), redactor=Redactor())
    worker.run(threading.Event(), drain=True)
    assert places() == [0, 0, 11, 1, 0]


# --- the log --------------------------------------------------------------------------------------


# --- what the estimator keeps ---------------------------------------------------------------------
