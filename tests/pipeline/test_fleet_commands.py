"""What commands say of each process of a fleet, and of applications with a stream."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner, Result

from ragmonitor import Budget, Monitor, ServerSettings
from ragmonitor.back_half.stream_worker import StreamWorker
from ragmonitor.cli.app import app
from ragmonitor.cli.mcp_server import MonitorTools
from ragmonitor.cli.monitor_client import Page
from ragmonitor.errors import InputError
from ragmonitor.fleet import estimator as estimator_module
from ragmonitor.fleet import fleet_worker
from ragmonitor.fleet.estimator import Estimator, Term
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.fleet.fleet_worker import FleetWorker
from ragmonitor.records import Interaction, JudgeUsage
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.streams import RedisStream
from ragmonitor.testing import ScriptedJudge
from ragmonitor.wire import encode
from tests.support.prometheus_server import free_port
from tests.support.redis_server import RedisServer, running_redis
from tests.support.scrape import total
from tests.support.stories import assessment, interaction
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


@pytest.mark.parametrize("tool", ["rates", "alarms", "slices", "changes", "documents"])
def test_an_assistant_is_told_that_a_worker_has_no_numbers(fleet: Fleet, tool: str):
    """Empty lists would be taken for a service without traffic."""
    with pytest.raises(InputError, match=f"at {fleet.estimator}"):
        getattr(MonitorTools(fleet.worker), tool)()


def test_the_gate_says_why_a_worker_decides_nothing(fleet: Fleet):
    said = command(
        *("gate", "--service", SERVICE, "--candidate", "2", "--baseline", "1"),
        *("--address", fleet.worker, "--timeout", "1s", "--json"),
        code=5,
    ).stdout
    assert fleet.estimator in json.loads(said)["reason"]


def test_doctor_says_who_keeps_the_numbers(
    fleet: Fleet, server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    """Beside whether the stream's server keeps what it acknowledges."""
    monkeypatch.setenv("RAGMONITOR_STREAM", server.url)
    monkeypatch.setenv("RAGMONITOR_SERVICE", SERVICE)
    monkeypatch.setenv("RAGMONITOR_SERVER__PORT", fleet.worker.split(":")[2].split("/")[0])
    told = command("doctor", "--json").stdout
    checks = {each["name"]: each for each in json.loads(told)["checks"]}
    assert checks["stream"]["state"] == "ok"
    assert fleet.estimator in checks["stream's worker"]["finding"]
    assert "a worker of a fleet" in checks["metrics"]["finding"]
    assert "correct-horse" not in told


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


def test_looking_leaves_nothing_on_the_server(server: RedisServer, monkeypatch: pytest.MonkeyPatch):
    """Not even a group: the service's name may be mistyped."""
    monkeypatch.setenv("RAGMONITOR_STREAM", server.url)
    monkeypatch.setenv("RAGMONITOR_SERVER__PORT", "0")
    command("doctor")
    with server.client() as client:
        assert client.keys("*") == []


def test_an_application_with_a_stream_says_that_its_worker_has_the_numbers(server: RedisServer):
    """And not that it has none."""
    port = free_port()
    with Monitor(SERVICE, stream=server.url, server=ServerSettings(port=port)) as monitor:
        monitor.observe(answers(1)[0])
        until("it is served", lambda: monitor.metrics_url is not None)
        with pytest.raises(InputError, match="puts answers on a stream"):
            Page(monitor.metrics_url, "").poll()


# --- what a reading costs -------------------------------------------------------------------------


class PaidJudge(ScriptedJudge):
    """Costs a dollar cent for each reading, of which four are expected."""

    budget_unit = "usd"

    def expected_cost(self, interaction: Interaction) -> float:
        return 0.04


def paid() -> dict[str, Any]:
    usage = JudgeUsage(calls=1, cost_usd=0.01)
    judge = PaidJudge(lambda _: replace(assessment("supported"), usage=usage))
    return {"judge": judge, "sample": 0.5, "budget": Budget(usd_per_day=1_000.0)}


def sampled(registry: CollectorRegistry) -> list[float]:
    """Return the sampling rate, as it is and as it is set, and the cost of one reading."""
    names = ("sampling_rate", "max_sampling_rate", "expected_cost")
    return [total(registry, f"ragmonitor_judge_{name}") for name in names]


def test_a_fleet_knows_what_a_reading_costs_as_one_process_does(server: RedisServer):
    """The estimator reads nothing: what workers paid is in what they settle."""
    with Monitor(SERVICE, server=False, worker="thread", **paid()) as alone:
        for each in answers(200):
            alone.observe(each)
        assert alone.flush()
        of_one = sampled(alone.registry)
    put(server, answers(200))
    with (
        running(Estimator(settings(**paid()), stream(server))) as one,
        running(FleetWorker(settings(**paid()), stream(server), redactor=Redactor())),
    ):
        until("it is there", lambda: one.term is not None)
        registry = one.term.meters.registry
        until("all are counted", lambda: total(registry, "ragmonitor_interactions_total") == 200)
        until("all are shown", lambda: total(registry, "ragmonitor_judge_expected_cost") > 0)
        of_fleet = sampled(registry)
    assert of_fleet == pytest.approx([0.5, 0.5, 0.01])
    assert of_one == pytest.approx([0.5, 0.5, 0.01], rel=0.05)
    # It outlives the estimator, which may have no money for another reading.
    successor = Term(settings(**paid()), stream(server), stream(server).lead("next", "", 60.0))
    successor.begin()
    successor.tick()
    assert total(successor.meters.registry, "ragmonitor_judge_expected_cost") == pytest.approx(0.01)
    assert total(successor.meters.registry, "ragmonitor_judge_sampling_rate") == 0.5
    successor.close()


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


def test_an_outage_writes_no_traceback(server: RedisServer, caplog: pytest.LogCaptureFixture):
    """Not even where the estimator, or a worker alone, gives its lease back in vain."""
    work = StreamWorker(settings(), RedisStream(server.url, "other"), redactor=Redactor())
    with running(Estimator(settings(), stream(server))) as one, running(work):
        until("it estimates", lambda: one.term is not None)
        until("the worker works", lambda: work._has_lease)
        server.process.kill()
        until("its term is over", lambda: one.term is None)
    said = [record for record in caplog.records if record.name == "ragmonitor"]
    assert [
        record for record in said if record.exc_info or "Traceback" in record.getMessage()
    ] == []
    assert any("cannot be" in record.getMessage() for record in said)


def test_a_lost_lease_is_not_told_as_an_outage(
    server: RedisServer, caplog: pytest.LogCaptureFixture
):
    """The server answers; another estimator has taken over."""
    with running(Estimator(settings(), stream(server))) as one:
        until("it estimates", lambda: one.term is not None)
        with server.client() as client:
            client.set(f"ragmonitor:{{{SERVICE}}}:worker", "estimator another-1-a 9")
            until("its term is over", lambda: one.term is None)
    assert "another estimator has taken this service over; this estimator stands by" in caplog.text
    assert "see that the stream's server answers" not in caplog.text


def test_who_has_no_judge_says_that_nothing_is_frozen_anew(caplog: pytest.LogCaptureFixture):
    """In its log, whoever asked."""
    with (
        caplog.at_level(logging.WARNING, "ragmonitor"),
        Monitor(SERVICE, server=False, worker="thread") as monitor,
    ):
        monitor.refreeze_anchors()
    assert "nothing is frozen anew: no judge is configured" in caplog.text


def test_who_waits_says_for_whom(server: RedisServer, caplog: pytest.LogCaptureFixture):
    """A worker of a fleet, and an estimator, beside a worker alone, which excludes them."""
    caplog.set_level(logging.INFO, "ragmonitor")
    with ExitStack() as stack:
        alone = StreamWorker(settings(), stream(server), redactor=Redactor())
        stack.enter_context(running(alone))
        until("it has the service", lambda: alone._has_lease)
        worker = FleetWorker(settings(), stream(server), redactor=Redactor())
        stack.enter_context(running(worker))
        stack.enter_context(running(Estimator(settings(), stream(server))))
        until("the worker waits", lambda: "waits for a worker without --fleet" in caplog.text)
        until("so does the estimator", lambda: "stands by: the worker on" in caplog.text)
        put(server, answers(3))
        until("the other one has all", lambda: stream(server).counts().settled == 3)
    assert total(worker.meters.registry, "ragmonitor_worker_seconds_count", stage="read") == 0


# --- what the estimator keeps ---------------------------------------------------------------------


def test_incidents_of_a_fleet_are_read_off_its_checkpoint(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    """By the command that reads a state folder elsewhere."""
    monkeypatch.setenv("RAGMONITOR_STREAM", server.url)
    monkeypatch.setenv("RAGMONITOR_SERVICE", SERVICE)
    Estimator(settings(), stream(server)).run(threading.Event(), drain=True)
    assert "no incident is kept" in command("incident", "list", code=1).stderr
