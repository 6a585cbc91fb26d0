"""Replicas on several machines that share one state: a budget, an alarm, a calibration."""

import json
import logging
import time

import pytest

from ragmonitor import Budget, ExportSettings, JudgeSettings, Monitor
from ragmonitor.stats.sums import ANSWERS
from ragmonitor.stats.tick import Tick
from ragmonitor.store import store_at
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.prometheus_server import free_port
from tests.support.redis_server import running_redis
from tests.support.scrape import total
from tests.support.stories import assessment, interaction
from tests.support.waiting import until

PASSWORD = "correct-horse"


class Heard(ListExporter):
    """Hears of alarms, too."""

    def __init__(self):
        super().__init__()
        self.alarms = []

    def alarm(self, event):
        self.alarms.append(event)


class Listening(ListExporter):
    """Hears of people's feedback, too."""

    def __init__(self):
        super().__init__()
        self.told = []

    def feedback(self, joined):
        self.told.append(joined)


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis"), password=PASSWORD) as server:
        yield server


def bad(_):
    return assessment("supported", "absent")


def good(_):
    return assessment("supported")


class PaidJudge(ScriptedJudge):
    """Costs a call each."""

    budget_unit = "calls"

    def expected_cost(self, interaction):
        return 1.0


def replica(place, script=good, **options):
    """Return the monitor of one replica, which judges every answer if there is something left."""
    judge = PaidJudge(script)
    settings = {"model": judge}
    defaults = {
        "service": "shop",
        "sample": 1.0,
        "server": False,
        "objectives": 0.1,
        "content": "all",
        "export": ExportSettings(traces=False),
    }
    monitor = Monitor(judge=JudgeSettings(**settings), state=place, **(defaults | options))
    return monitor, judge


def tell(monitor, numbers):
    for number in numbers:
        now = time.time_ns()
        monitor.observe(interaction(id=f"{number:032x}", started_ns=now, ended_ns=now))
    assert monitor.flush(30)


def test_one_alarm_for_all_replicas(redis):
    """Each has half of the evidence; one of them raises it, once, and both show it."""
    heard = Heard()
    replicas = [replica(redis.url, bad, service="alarm", exporters=[heard])[0] for _ in range(2)]
    for turn in range(8):
        for place, each in enumerate(replicas):
            tell(each, range(turn * 10 + place * 5, turn * 10 + place * 5 + 5))
    raised = [each for each in heard.alarms if each.signal == "hallucination"]
    assert [each.raised for each in raised] == [True]
    for each in replicas:
        assert total(each.registry, "ragmonitor_alarm_active", signal="hallucination") == 1
        each.close(20)


def test_one_budget_for_all_replicas(redis):
    """Ten calls at the beginning, whoever makes them."""
    replicas = [
        replica(redis.url, service="budget", budget=Budget(calls_per_day=240.0)) for _ in range(3)
    ]
    for turn in range(4):
        for place, (each, _) in enumerate(replicas):
            tell(each, range(turn * 30 + place * 10, turn * 30 + place * 10 + 10))
    asked = [len(judge.asked) for _, judge in replicas]
    assert 1 <= sum(asked) <= 10
    for each, _ in replicas:
        each.close(20)


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_without_its_server_it_answers_and_scores(worker, caplog, tmp_path):
    """It begins, scores, raises nothing, and names no password; the budget waits for the server."""
    caplog.set_level(logging.INFO)
    port = free_port()
    monitor = Monitor(
        service="alone",
        state=f"redis://:{PASSWORD}@127.0.0.1:{port}/0",
        worker=worker,
        server=False,
        export=ExportSettings(traces=False),
        exporters=[f"jsonl:{tmp_path / 'reports.jsonl'}"],
    )
    tell(monitor, range(5))
    monitor.close(20)
    reports = map(json.loads, (tmp_path / "reports.jsonl").read_text().splitlines())
    assert {each["id"] for each in reports} == {f"{n:032x}" for n in range(5)}
    said = [record.getMessage() for record in caplog.records]
    assert any("no mean and no alarm is known until it is back" in each for each in said)
    assert not any(PASSWORD in each for each in said)


def test_a_server_that_comes_later_gets_what_waited(tmp_path):
    """It is tried again and again, and `ragmonitor_store_up` says whether it is there."""
    port = free_port()
    place = f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
    options = {"state": place, "worker": "thread", "server": False}
    with Monitor("late", export=ExportSettings(traces=False), **options) as monitor:
        tell(monitor, range(5))
        assert total(monitor.registry, "ragmonitor_store_up") == 0
        with running_redis(tmp_path, password=PASSWORD, port=port):
            until("it is up", lambda: total(monitor.registry, "ragmonitor_store_up") == 1)
            sums = Tick(store_at(place, "late")).sums(0.0)
    assert sums["builtin::refusal"][ANSWERS] == 5


def test_feedback_finds_the_answer_of_another_replica(redis):
    """A load balancer sends people's thumbs anywhere."""
    listening = Listening()
    gave = Monitor(service="thumbs", state=redis.url, server=False)
    took = Monitor(service="thumbs", state=redis.url, server=False, exporters=[listening])
    tell(gave, range(3))
    took.feedback(f"{1:032x}", False, comment="wrong tower")
    took.feedback(f"{9:032x}", True)
    assert took.flush(20)
    took.close(20)
    gave.close(20)
    (joined,) = listening.told
    assert (joined.feedback.interaction_id, joined.feedback.direction) == (f"{1:032x}", "bad")
