"""The LLM judge in a real monitor: who reads, who stands in, what it may cost."""

import json
import threading
import time

import pytest

from ragmonitor import Budget, Cause, ExportSettings, JudgeSettings, Monitor, Scored, ServerSettings
from ragmonitor.errors import JudgeError
from ragmonitor.evaluators import table
from ragmonitor.guard import errors
from ragmonitor.judges import LlmJudge
from ragmonitor.testing import ListExporter
from tests.support.judge_caches import forget_support
from tests.support.openai_server import OpenAiServer, Reply, refused, truthful
from tests.support.scrape import outcomes, total
from tests.support.settings import merged
from tests.support.stories import interaction
from tests.support.waiting import until

pytest.importorskip("litellm")

ENTRIES = len(table.select(()))
A_REPLY = Reply(
    content='{"s":[[1]],"bad":[],"rel":3,"evasive":false,"ctx":[2,0]}',
    input_tokens=500,
    output_tokens=30,
)


@pytest.fixture
def servers():
    forget_support()
    with OpenAiServer() as first, OpenAiServer() as second:
        yield first, second


@pytest.fixture
def reports():
    return ListExporter()


@pytest.fixture
def monitors(servers, reports, monkeypatch):
    """Make monitors whose judge is the first server's model."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    made = []

    def make(**options):
        defaults = {
            "judge": {"model": "openai/first", "api_base": servers[0].api_base},
            "sample": 1.0,
            "budget": {"tokens_per_day": 10**9},
        }
        made.append(
            Monitor(
                service="test",
                exporters=[reports],
                server=ServerSettings(port=0),
                export=ExportSettings(traces=False),
                **merged(defaults, options),
            )
        )
        return made[-1]

    yield make
    for monitor in made:
        monitor.close()


def told(number, **changes):
    """Return an interaction of its own: no other is its duplicate."""
    return interaction(id=f"{number:032x}", query=f"When was tower {number} built?", **changes)


def observe(monitor, *numbers):
    for number in numbers:
        monitor.observe(told(number))
    assert monitor.flush(60)


def reported(reports, name):
    return [report for report in reports.reports if report.judge.name == name]


# Who stands in


def test_a_fallback_reads_what_the_judge_s_provider_fails_to(servers, reports, monitors):
    """Litellm asks it; the verdict bears its name, and is missing from the judge's own means."""
    first, second = servers
    first.always(refused(401))
    monitor = monitors(judge={"fallbacks": (f"openai/other@{second.api_base}",)})
    observe(monitor, 1)
    _, read = reports.reports
    assert (read.role, read.judge.name) == ("sampled", "openai/other")
    assert read.assessment.judge.name == "openai/other"
    assert all(e.judge.name == "openai/other" for e in read.evaluations)
    assert total(monitor.registry, "ragmonitor_judge_calls_total", judge="openai/other") == 1
    mean = {"evaluator": "faithfulness", "window": "1h"}
    assert total(monitor.registry, "ragmonitor_score_mean", judge="openai/other", **mean) == 1
    assert total(monitor.registry, "ragmonitor_score_mean", judge="openai/first", **mean) == 0
    missing = total(monitor.registry, "ragmonitor_judge_missing_ratio", judge="openai/first")
    assert missing == 1


def test_an_unreadable_reply_is_not_passed_on(servers, reports, monitors):
    """The provider works; another model would be a second opinion."""
    first, second = servers
    first.always("no judgement")
    observe(monitors(judge={"fallbacks": (f"openai/other@{second.api_base}",)}), 1)
    assert reported(reports, "openai/other") == []
    assert not second.chats


def test_where_all_fail_it_is_one_failure(servers, reports, monitors):
    """Under the judge's name, whoever failed last."""
    for server in servers:
        server.always(refused(401))
    observe(monitors(judge={"fallbacks": (f"openai/other@{servers[1].api_base}",)}), 1)
    (failed,) = reported(reports, "openai/first")
    assert {e.cause for e in failed.evaluations} == {Cause.JUDGE_ERROR}
    assert [len(server.chats) for server in servers] == [1, 1]


def test_a_dead_judge_is_down_before_the_coin(servers, reports, monitors):
    """What comes then had no chance, is counted as `judge_down`, and the gauge says why."""
    servers[0].always(refused(401))
    monitor = monitors(judge={"concurrency": 1})
    for number in range(7):
        observe(monitor, number)
    assert len(servers[0].chats) == 5
    decisions = [report.decision for report in reported(reports, "openai/first")]
    assert [decision.inclusion_probability for decision in decisions] == [1.0] * 5 + [0.0] * 2
    assert [decision.cause for decision in decisions[5:]] == [Cause.JUDGE_DOWN] * 2
    state = total(monitor.registry, "ragmonitor_judge_breaker_state", judge="openai/first")
    assert state == 2
    found = outcomes(monitor.registry, judge="openai/first", evaluator="faithfulness")
    assert sum(found.values()) == 7


# Duplicates


def test_duplicates_cost_no_call(servers, reports, monitors):
    """Ten equal answers at once: one call, ten scores, nine counted as cached."""
    monitor = monitors()
    for number in range(10):
        monitor.observe(interaction(id=f"{number:032x}"))
    assert monitor.flush(60)
    assert len(servers[0].chats) == 1
    registry = monitor.registry
    judge = "openai/first"
    assert outcomes(registry, judge=judge, evaluator="faithfulness") == {"scored": 10}
    assert total(registry, "ragmonitor_judge_calls_total", judge=judge) == 1
    assert total(registry, "ragmonitor_judge_seconds_count", judge=judge, outcome="cached") == 9


# What it may cost


def test_fifty_at_once_never_exceed_the_budget(servers, reports, monitors):
    """Each reply costs half a dollar by the price given, and more was offered than is there."""
    servers[0].always(A_REPLY)  # 500 tokens in, 30 out
    monitor = monitors(
        budget={"tokens_per_day": None, "usd_per_hour": 240.0},
        judge={
            "input_usd_per_million_tokens": 1_000.0,
            "output_usd_per_million_tokens": 1_000.0,
            "concurrency": 50,
        },
    )
    for number in range(200):
        monitor.observe(told(number))
    assert monitor.flush(60)
    cost = total(monitor.registry, "ragmonitor_judge_cost_usd_total")
    assert 2 < cost <= 30.0  # half of the quarter that may be spent at once
    found = outcomes(monitor.registry, judge="openai/first", evaluator="faithfulness")
    assert sum(found.values()) == 200
    assert found["over_budget"] + found["not_sampled"] + found["scored"] == 200


def test_a_restart_does_not_refill_the_budget(servers, reports, monitors, tmp_path):
    """Ten processes' lives in a row cost together what one might."""
    servers[0].always(A_REPLY)
    cost = 0.0
    for life in range(10):
        monitor = monitors(
            budget={"tokens_per_day": None, "usd_per_day": 360.0},
            judge={
                "input_usd_per_million_tokens": 1_000.0,
                "output_usd_per_million_tokens": 1_000.0,
            },
            state=tmp_path,
        )
        observe(monitor, *range(life * 20, life * 20 + 20))
        cost += total(monitor.registry, "ragmonitor_judge_cost_usd_total")
        monitor.close()
    assert 2 < cost <= 15 + 1  # half of two hours' worth, and minutes' refill
    (state,) = tmp_path.glob("budget-usd-test-*.json")
    assert json.loads(state.read_text(encoding="utf-8"))["held"] == {}


def test_what_is_under_way_at_the_end_is_taken_as_spent(servers, monitors, tmp_path):
    """A call whose bill nobody saw: the budget that outlives us counts it."""
    servers[0].always(Reply(hangs=True))
    monitor = monitors(budget={"tokens_per_day": 2_400_000}, state=tmp_path)
    monitor.observe(told(1))
    assert servers[0].wait_until_hanging()
    monitor.close(0.1)
    (file,) = tmp_path.glob("budget-*.json")

    def level() -> float | None:
        state = json.loads(file.read_text(encoding="utf-8"))
        assert state["buckets"]["day"]["level"] < 100_000 - 500  # at every moment
        return None if state["held"] else state["buckets"]["day"]["level"]

    # The call is cancelled by a thread that `close` waits for no longer than it was told.
    assert until("nothing is held any more", level)


# What is not read at any cost


def test_evidence_too_long_has_no_chance_and_a_cause(servers, reports, monitors):
    """It is known before the coin, costs no call, and counts as uncovered."""
    monitor = monitors(judge={"max_calls": 1, "tokens_per_call": 2_000})
    monitor.observe(told(1, texts=("word " * 4_000,)))
    observe(monitor, 2)
    long, short = reported(reports, "openai/first")
    assert {e.cause for e in long.evaluations} == {Cause.EVIDENCE_TOO_LONG}
    assert long.decision.inclusion_probability == 0
    assert any(isinstance(e, Scored) for e in short.evaluations)


def test_texts_too_long_for_the_builtin_judge_have_a_cause_of_their_own(servers, reports, monitors):
    """They have no score of it, are no error of ours, and the model reads them all the same."""
    ours = errors["judge"]
    monitor = monitors(judge={"tokens_per_call": 60_000})
    monitor.observe(told(1, texts=("It is in Paris. " * 13_000,)))
    assert monitor.flush(60)
    (builtin,) = reported(reports, "builtin")
    assert {(e.cause, e.detail.partition(",")[0]) for e in builtin.evaluations} == {
        (Cause.TOO_LONG, "builtin: question")
    }
    assert errors["judge"] == ours
    (judged,) = reported(reports, "openai/first")
    assert any(isinstance(e, Scored) for e in judged.evaluations)


# Many at once


class Slow:
    """Replies after a while, or once so many are in flight; notes how many were."""

    def __init__(self, latency_s=0.0, *, until=0):
        self.latency_s = latency_s
        self.now, self.most = 0, 0
        self.lock = threading.Condition()
        self.until = until

    def __call__(self, request):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.lock.notify_all()
            assert self.lock.wait_for(lambda: self.most >= self.until, 60)
        time.sleep(self.latency_s)
        with self.lock:
            self.now -= 1
        return truthful(request)


@pytest.mark.slow
def test_many_in_flight_and_more_behind_them(servers, reports, monitors):
    """Never more at once than allowed, all of those at once, and every answer is scored."""
    slow = Slow(until=40)
    servers[0].always(slow)
    monitor = monitors(judge={"concurrency": 40})
    for number in range(160):
        monitor.observe(told(number))
    assert monitor.flush(60)
    assert slow.most == 40
    found = outcomes(monitor.registry, judge="openai/first", evaluator="faithfulness")
    assert found == {"scored": 160}


def test_no_more_are_drawn_than_may_wait(servers, reports, monitors):
    """What comes beyond has no chance and a cause; memory does not grow with a slow provider."""
    servers[0].always(Slow(1.0))
    monitor = monitors(judge={"concurrency": 5, "max_pending": 10})
    for number in range(100):
        monitor.observe(told(number))
    assert monitor.flush(60)
    found = outcomes(monitor.registry, judge="openai/first", evaluator="faithfulness")
    assert sum(found.values()) == 100
    assert found["judge_busy"] >= 70
    busy = [r for r in reported(reports, "openai/first") if r.decision.cause is Cause.JUDGE_BUSY]
    assert {report.decision.inclusion_probability for report in busy} == {0.0}


def test_the_judge_s_own_calls_are_not_traffic(servers, reports, monitors):
    """With litellm instrumented, what the judge asks is no interaction and no span of ours."""
    instrument = pytest.importorskip("ragmonitor_litellm")
    servers[0].always(truthful)
    monitor = monitors()
    instrument.instrument(monitor)
    try:
        observe(monitor, *range(3))
    finally:
        instrument.uninstrument()
    assert total(monitor.registry, "ragmonitor_interactions_total") == 3
    assert len(servers[0].chats) == 3


def test_a_judge_s_settings_reach_it(monkeypatch):
    """One address for the first judge alone, its own for each other."""
    from ragmonitor.settings import Settings
    from ragmonitor.wiring import judge_named

    settings = Settings.load(
        judge=JudgeSettings(model="openai/a", api_base="http://h/v1"),
        budget=Budget(tokens_per_hour=100_000),
    )
    made = [judge_named(settings, name) for name in ("openai/a", "openai/b", "m@http://i/v1")]
    assert all(isinstance(judge, LlmJudge) for judge in made)
    assert [judge._completer.api_base for judge in made] == ["http://h/v1", None, "http://i/v1"]
    assert made[2].identity.name == "m"


async def test_a_budget_reckons_with_the_dearest_of_the_models(servers):
    """Whoever replies; with a fallback of no known price it reads nothing, and says so."""
    from ragmonitor.settings import Settings
    from ragmonitor.wiring import judge_named

    judge = JudgeSettings(
        model="openai/gpt-99-new",
        fallbacks=("openai/gpt-4o",),
        input_usd_per_million_tokens=0,
        output_usd_per_million_tokens=0,
    )
    made = judge_named(Settings.load(judge=judge, budget=Budget(usd_per_day=5)), judge.model)
    await made.prepare()
    assert made._completer.price.input_usd > 0
    assert made.expected_cost(told(1)) > 0.001
    unlisted = judge.model_copy(update={"fallbacks": ("openai/gpt-98-new",)})
    made = judge_named(Settings.load(judge=unlisted, budget=Budget(usd_per_day=5)), judge.model)
    with pytest.raises(JudgeError, match="no price of this model, or of a fallback"):
        await made.prepare()
