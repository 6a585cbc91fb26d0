"""Judges that are given as objects, in every place that a monitor has for one."""

import json
from dataclasses import dataclass, replace
from functools import partial

import pytest

from ragmonitor import FunctionJudge, Monitor
from ragmonitor.judges import BuiltinJudge, EncoderJudge, LlmJudge
from ragmonitor.records import JudgeIdentity
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.testing import ListExporter
from tests.support.openai_server import OpenAiServer, Request, judged, read_prompt
from tests.support.scrape import outcomes, total
from tests.support.settings import merged
from tests.support.stories import assessment, interaction

pytest.importorskip("litellm")

ANSWER = "When was tower 1 built?"


def truth(prompt):
    messages = [{"role": "user", "content": prompt[prompt.index("<<") :]}]
    return json.dumps(
        judged(Request(method="POST", path="/", headers={}, body={"messages": messages}))
    )


def question_of(prompt):
    return read_prompt(prompt[prompt.index("<<") :]).question


@dataclass
class Case:
    """A judge, how to see what it was asked, and whom it must not be mistaken for."""

    judge: object
    asked: list


def by_function(*, is_async=False, **options):
    asked = []

    def answer(prompts):
        asked.extend(map(question_of, prompts))
        return [truth(prompt) for prompt in prompts]

    async def answer_later(prompts):
        return answer(prompts)

    return Case(
        FunctionJudge(answer_later if is_async else answer, name="openai/own", **options), asked
    )


class Own:
    """A judge of the user's own; its assessments call themselves otherwise."""

    def __init__(self):
        self.identity = JudgeIdentity(name="own", version="1", kind="CODE")
        self.asked = []

    async def assess(self, told):
        self.asked.append(told.query)
        return assessment("supported")


class OtherBuiltin(BuiltinJudge):
    """The built-in judge's rules under another name."""

    identity = JudgeIdentity(name="rules", version="1", kind="CODE")

    def __init__(self):
        super().__init__()
        self.asked = []

    async def assess(self, told):
        self.asked.append(told.query)
        return await super().assess(told)


class Classifier(EncoderJudge):
    """An encoder whose model finds everything supported."""

    def __init__(self):
        super().__init__("encoder/own")
        self.asked = []

    def _read(self, told):
        self.asked.append(told.query)
        return replace(assessment("supported"), judge=self.identity)


def of_itself(make):
    judge = make()
    return Case(judge, judge.asked)


def by_model(server, **options):
    return Case(
        LlmJudge("openai/gpt-4o-mini", api_base=server.api_base, api_key="own-key", **options),
        server.chats,
    )


CASES = {
    "function": by_function,
    "coroutine function": partial(by_function, is_async=True),
    "own class": partial(of_itself, Own),
    "rules": partial(of_itself, OtherBuiltin),
    "encoder": partial(of_itself, Classifier),
    "model": by_model,
}


@pytest.fixture
def servers(monkeypatch):
    """Return the judge's own server, and the public provider with the application's key."""
    with OpenAiServer() as own, OpenAiServer() as public:
        monkeypatch.setenv("OPENAI_API_KEY", "the-applications-key")
        monkeypatch.setenv("OPENAI_BASE_URL", public.api_base)
        monkeypatch.setenv("OPENAI_API_BASE", public.api_base)
        yield own, public


@pytest.fixture
def monitors():
    """Make monitors that judge everything, without a port."""
    made = []

    def make(judge, /, **options):
        defaults = {
            "sample": 1.0,
            "judge": {"model": judge},
            "server": False,
            "export": {"traces": False},
        }
        made.append(Monitor("test", **merged(defaults, options)))
        return made[-1]

    yield make
    for monitor in made:
        monitor.close()


def observe(monitor, number=1, **changes):
    told = interaction(id=f"{number:032x}", query=f"When was tower {number} built?", **changes)
    monitor.observe(told)
    assert monitor.flush(60)


@pytest.mark.parametrize("name", CASES)
def test_a_given_judge_is_itself_asked(name, servers, monitors):
    """It reads the drawn answer; nobody else is asked."""
    own, public = servers
    case = CASES[name](own) if name.startswith("model") else CASES[name]()
    monitor = monitors(case.judge, budget={"calls_per_day": 10**6})
    observe(monitor)
    chats = own.chats
    asked = [question_of(r.user) for r in chats] if name.startswith("model") else case.asked
    assert asked == [ANSWER]
    assert {r.headers["authorization"] for r in chats} <= {"Bearer own-key"}
    assert public.requests == []
    registry, judge = monitor.registry, case.judge.identity.name
    series = {
        s.labels.get("judge")
        for family in registry.collect()
        for s in family.samples
        if s.name == "ragmonitor_uncovered_ratio"
    }
    assert judge in series
    found = outcomes(registry, judge=judge, evaluator="faithfulness")
    assert found == {"scored": 1}


# Budgets


@pytest.mark.parametrize(
    ("options", "budget", "is_read"),
    [
        ({}, {"budget": {"usd_per_day": 5}}, False),
        ({}, {"budget": {"usd_per_hour": 5}}, False),
        (
            {"price": (1e-6, 1e-6)},
            {"budget": {"usd_per_day": 50}},
            True,
        ),
        ({}, {"budget": {"tokens_per_day": 10**9}}, True),
        ({"budget_unit": "calls"}, {"budget": {"tokens_per_day": 10**9}}, True),
        ({}, {"budget": {"calls_per_day": 10**6}}, True),
        ({"budget_unit": "usd"}, {"budget": {"calls_per_hour": 10**6}}, True),
        ({"budget_unit": "usd"}, {}, True),
    ],
)
def test_a_function_judge_reads_within_a_budget_or_is_refused(options, budget, is_read, monitors):
    """What it costs is counted in the budget's unit, whatever it was built with."""
    case = by_function(**options)
    if not is_read:
        with pytest.raises(SettingsError, match=r"no price in US dollars.*budget\.calls_per_day"):
            monitors(case.judge, **budget)
        return
    observe(monitors(case.judge, **budget))
    assert len(case.asked) == 1


@pytest.mark.parametrize(
    "cost", [float("nan"), float("inf"), -1.0, "free", None, ZeroDivisionError]
)
def test_a_cost_that_is_no_amount_is_counted_and_harms_no_budget(cost, monitors, monkeypatch):
    """The answer is `judge_error`; the next one that has a cost is read."""

    class Odd(Own):
        budget_unit = "usd"
        cost = 0.001

        def expected_cost(self, told):
            if isinstance(self.cost, type):
                raise self.cost
            return self.cost

    monkeypatch.setattr("ragmonitor.stats.references.PAUSE_S", float("inf"))
    judge = Odd()
    monitor = monitors(judge, budget={"usd_per_day": 24})
    judge.cost = cost
    observe(monitor, 1)
    judge.cost = 0.001
    observe(monitor, 2)
    found = outcomes(monitor.registry, judge="own", evaluator="faithfulness")
    assert found == {"judge_error": 1, "scored": 1}
    assert total(monitor.registry, "ragmonitor_budget_level") == pytest.approx(1.0, abs=0.01)


def test_each_tenant_has_its_share_of_the_judged_answers():
    """At a rate that draws nobody the first answer of each is judged, and its chance is kept."""
    judge, reports = Own(), ListExporter()
    sample = {"rate": 1e-9, "floor_by": "tenant"}
    monitor = Monitor("test", server=False, judge=judge, sample=sample, exporters=[reports])
    tenants = [*("a" * 30), "b", "c", *("a" * 30)]
    for number, tenant in enumerate(tenants):
        told = {"id": f"{number:032x}", "query": f"of {tenant}", "attributes": {"tenant": tenant}}
        monitor.observe(interaction(**told))
    assert monitor.flush(30)
    monitor.close()
    assert judge.asked[:1] == ["of a"]
    assert {"of b", "of c"} <= {*judge.asked}
    assert len(judge.asked) < 10
    sampled = [each for each in reports.reports if each.role == "sampled" and each.assessment]
    drawn = {each.interaction.query: each.decision for each in sampled}
    assert drawn["of b"].inclusion_probability == drawn["of c"].inclusion_probability == 1
