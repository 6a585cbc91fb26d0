"""An encoder that reads every answer, in a real monitor, and who reads the rest."""

import asyncio
import threading
from collections import Counter
from dataclasses import replace

import pytest

from ragmonitor import ExportSettings, JudgeIdentity, JudgeSettings, Monitor, Scored
from ragmonitor.judges import BuiltinJudge
from ragmonitor.records import Cause
from ragmonitor.runtime.errors import JudgeError, MissingExtraError, SettingsError
from ragmonitor.testing import ListExporter
from tests.support.scrape import outcomes, total
from tests.support.stories import interaction

ENCODER, RULES = "builtin:tiny", "builtin"


class Tiny:
    """Doubts every answer; some it cannot read, and some it holds up."""

    identity = JudgeIdentity(name="tiny", version="7", kind="LLM")

    def __init__(self):
        self.released = threading.Event()  # which keeps it in this process

    async def assess(self, told):
        return await asyncio.to_thread(self._read, told)

    def _read(self, told):
        if "hold" in told.answer:
            self.released.wait(60)
        if "unreadable" in told.answer:
            raise JudgeError("tiny", "no room", cause=Cause.EVIDENCE_TOO_LONG, retryable=False)
        return replace(BuiltinJudge().read(told), judge=self.identity, risk=0.75)


class Missing(Tiny):
    """Has no model."""

    async def assess(self, told):
        raise MissingExtraError("torch", "encoder")


def answers(n, answer="It is 300 m tall."):
    return [
        interaction(answer=answer, id=f"{answer}{number}", texts=["It is 300 m tall."])
        for number in range(n)
    ]


@pytest.fixture
def reports():
    return ListExporter()


@pytest.fixture
def monitors(reports):
    made = []

    def make(encoder, *, judge=None, **options):
        settings = JudgeSettings(model=judge, builtin=encoder, **options)
        made.append(
            Monitor(
                service="test",
                exporters=[reports],
                server=False,
                export=ExportSettings(traces=False),
                judge=settings,
                sample=1.0,
            )
        )
        return made[-1]

    yield make
    for monitor in made:
        monitor.close()


def observed(monitor, told):
    for each in told:
        monitor.observe(each)
    assert monitor.flush(60)


def means(monitor):
    """Return of each judge how many answers its hallucination rate is of, and the share missed."""
    return {
        each.key.judge: (each.judged, round(each.missing, 2))
        for each in monitor._back.estimates.snapshot().means
        if each.key.signal == "hallucination" and not each.key.dimension and each.window == "24h"
    }


def test_every_answer_is_read_by_it(monitors, reports):
    """Its scores, under its name; relevancy and refusals are the rules', as it says nothing of."""
    observed(monitors(Tiny()), answers(12))
    assert {str(r.judge) for r in reports.reports} == {f"{ENCODER}@7"}
    assert {r.assessment.risk for r in reports.reports} == {0.75}
    assert len(reports.reports) == 12
    assert all(isinstance(e, Scored) for e in reports.reports[0].evaluations)


def test_what_it_cannot_read_the_rules_read_under_their_own_name(monitors, reports):
    """Nothing is lost, and no mean is of two readers."""
    monitor = monitors(Tiny())
    observed(monitor, [*answers(5), *answers(2, "unreadable")])
    assert Counter(r.judge.name for r in reports.reports) == {ENCODER: 5, RULES: 2}
    scored = outcomes(monitor.registry, evaluator="faithfulness")
    assert scored.total() == counted(monitor, "ragmonitor_interactions_total") == 7
    assert means(monitor) == {ENCODER: (5, 0.29), RULES: (2, 0.0)}


def counted(monitor, sample, **labels):
    return total(monitor.registry, sample, **labels)


def test_a_model_that_cannot_be_loaded_costs_no_score(monitors, reports, caplog):
    """The log says what to do; the rules read every answer."""
    monitor = monitors(Missing())
    observed(monitor, answers(5))
    assert Counter(r.judge.name for r in reports.reports) == {RULES: 5}
    assert "ragmonitor[encoder]" in caplog.text


@pytest.mark.parametrize("value", ["openai/gpt-4o-mini", "encoder:", "lettuce", object()])
def test_what_cannot_read_every_answer_is_refused(value):
    """A language model would cost money for each."""
    with pytest.raises(SettingsError, match=r"judge\.builtin"):
        JudgeSettings(builtin=value)
