"""An encoder that reads every answer, in a real monitor, and who reads the rest."""

import asyncio
import json
import threading
from collections import Counter
from dataclasses import replace

import pytest

from ragmonitor import ExportSettings, JudgeIdentity, JudgeSettings, Monitor, Scored
from ragmonitor.errors import JudgeError, MissingExtraError, SettingsError
from ragmonitor.judges import BuiltinJudge
from ragmonitor.records import Cause
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import outcomes, total
from tests.support.stories import assessment, interaction

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
    """Return of each judge how many answers its hallucination rate is of, and how many missed."""
    found = Counter()
    for key, value in monitor._back.estimates.snapshot().totals:
        if key.signal == "hallucination" and not key.dimension:
            found[key.judge, "all"] += value.answers
            found[key.judge, "missing"] += value.missing
    return found


def test_every_answer_is_read_by_it(monitors, reports):
    """Its scores, under its name; relevancy and refusals are the rules', as it says nothing of."""
    observed(monitors(Tiny()), answers(12))
    assert {str(r.judge) for r in reports.reports} == {f"{ENCODER}@7"}
    assert {r.assessment.risk for r in reports.reports} == {0.75}
    assert len(reports.reports) == 12
    assert all(isinstance(e, Scored) for e in reports.reports[0].evaluations)


def test_what_it_cannot_read_the_rules_read_under_their_own_name(monitors, reports):
    """Counted by cause; nothing is lost, and no mean is of two readers."""
    monitor = monitors(Tiny())
    observed(monitor, [*answers(5), *answers(2, "unreadable")])
    assert Counter(r.judge.name for r in reports.reports) == {ENCODER: 5, RULES: 2}
    stood_in = "ragmonitor_builtin_stand_ins_total"
    by_cause = counted(monitor, stood_in, judge=ENCODER, cause="evidence_too_long")
    assert by_cause == counted(monitor, stood_in) == 2
    scored = outcomes(monitor.registry, evaluator="faithfulness")
    assert scored.total() == counted(monitor, "ragmonitor_interactions_total") == 7
    found = means(monitor)
    assert (found[ENCODER, "all"], found[ENCODER, "missing"]) == (7, 2)
    assert (found[RULES, "all"], found[RULES, "missing"]) == (2, 0)


def counted(monitor, sample, **labels):
    return total(monitor.registry, sample, **labels)


def test_an_answer_that_nobody_can_read_is_the_encoder_s(monitors, reports):
    """Once, with its cause: an application's error, or no answer at all."""
    monitor = monitors(Tiny())
    observed(monitor, [interaction(answer=""), interaction(answer="x", status="error", id="2")])
    assert {r.judge.name for r in reports.reports} == {ENCODER}
    causes = outcomes(monitor.registry, evaluator="faithfulness", judge=ENCODER)
    assert causes == {"no_answer": 1, "application_error": 1}


def test_a_model_that_cannot_be_loaded_costs_no_score(monitors, reports, caplog):
    """The log says what to do; the rules read every answer."""
    monitor = monitors(Missing())
    observed(monitor, answers(5))
    assert Counter(r.judge.name for r in reports.reports) == {RULES: 5}
    assert "ragmonitor[encoder]" in caplog.text
    stood_in = "ragmonitor_builtin_stand_ins_total"
    assert counted(monitor, stood_in, cause="judge_error") == 5


def test_an_encoder_that_hangs_holds_nobody_up(monitors, reports):
    """Neither the other answers nor the end."""
    encoder = Tiny()
    monitor = monitors(encoder, builtin_timeout_s=0.1)
    observed(monitor, answers(1))
    observed(monitor, answers(1, "hold"))
    observed(monitor, answers(3, "It is tall."))
    assert Counter(r.judge.name for r in reports.reports) == {ENCODER: 1, RULES: 4}
    encoder.released.set()


def test_closing_leaves_what_is_waiting_to_the_rules(monitors, reports):
    """The time for closing suffices for all of them, whatever the encoder is at."""
    encoder = Tiny()
    monitor = monitors(encoder, builtin_timeout_s=300)
    observed(monitor, answers(1))
    for each in answers(9, "hold"):
        monitor.observe(each)
    monitor.close(5)
    encoder.released.set()
    assert Counter(r.judge.name for r in reports.reports) == {ENCODER: 1, RULES: 9}


def test_too_many_that_wait_are_left_to_the_rules(monitors, reports):
    """Those that wait longest; the encoder goes on with the others."""
    monitor = monitors(Tiny())
    for each in answers(150):
        monitor._back.queue.put(Finished(each))
    observed(monitor, [])
    read_by = Counter(r.judge.name for r in reports.reports)
    assert read_by.total() == 150
    assert read_by[RULES] >= 45
    stood_in = "ragmonitor_builtin_stand_ins_total"
    assert counted(monitor, stood_in, cause="judge_busy") == read_by[RULES]


class Finished:
    framework, status = "python", "ok"

    def __init__(self, told):
        self._told = told

    def interaction(self):
        return self._told


def test_beside_a_judge_each_answer_has_a_report_of_both(monitors, reports):
    """Whoever read it in the encoder's place; its risk predicts only where it read itself."""
    judge = ScriptedJudge(lambda _: assessment("supported"))
    monitor = monitors(Tiny(), judge=judge)
    observed(monitor, [*answers(6), *answers(3, "unreadable")])
    by = Counter((r.judge.name, r.role) for r in reports.reports)
    assert by == {(ENCODER, "builtin"): 6, (RULES, "builtin"): 3, ("scripted", "sampled"): 9}
    [pooled] = [
        each
        for (signal, language), each in monitor._back.estimates._predictions._calibrations.items()
        if (signal, language) == ("hallucination", "")
    ]
    *by_risk, without = (a + b for a, b in zip(*weights(pooled), strict=True))
    assert (sum(by_risk), without) == pytest.approx((6, 3), rel=0.01)  # older ones fade


def weights(calibration):
    return calibration._sums["weight"], calibration._fresh["weight"]


def test_the_alarms_without_a_judge_are_the_encoder_s(monitors):
    """An answer that the rules read updates none of them."""
    monitor = monitors(Tiny())
    observed(monitor, [*answers(4), *answers(3, "unreadable")])
    states = {s.signal: s for s in monitor._back.estimates.snapshot().alarms}
    assert states["hallucination"].judge == ENCODER


@pytest.mark.parametrize("name", ["builtin", "builtin:tiny"])
def test_no_judge_takes_its_name(monitors, name):
    """Their scores would be one series."""
    with pytest.raises(SettingsError, match="built-in judge"):
        monitors(Tiny(), judge=ScriptedJudge(lambda _: assessment("supported"), name=name))


@pytest.mark.parametrize("value", ["openai/gpt-4o-mini", "encoder:", "lettuce", object()])
def test_what_cannot_read_every_answer_is_refused(value):
    """A language model would cost money for each."""
    with pytest.raises(SettingsError, match=r"judge\.builtin"):
        JudgeSettings(builtin=value)


def test_it_is_set_by_variable_and_file(monkeypatch, tmp_path):
    """Like every option."""
    monkeypatch.setenv("RAGMONITOR_JUDGE__BUILTIN", "encoder:org/model")
    monitor = Monitor(service="test", server=False, worker="thread")
    assert monitor._back.worker._reader.identity.name == "builtin:org/model"
    monitor.close()
    monkeypatch.delenv("RAGMONITOR_JUDGE__BUILTIN")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ragmonitor.toml").write_text(
        f"[ragmonitor]\nservice = 'test'\n[ragmonitor.judge]\nbuiltin = {json.dumps('encoder:m')}\n"
    )
    monitor = Monitor(server=False, worker="thread")
    assert monitor._back.worker._reader.identity.name == "builtin:m"
    monitor.close()
