"""The whole way of an interaction through a real monitor."""

import asyncio
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragmonitor import (
    Budget,
    CaptureSettings,
    Cause,
    ContentSettings,
    ExportSettings,
    JudgeError,
    JudgeSettings,
    Monitor,
    Scored,
    ServerSettings,
    SettingsError,
)
from ragmonitor.evaluators import table
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import outcomes, scrape, total
from tests.support.scripts import run_python
from tests.support.stories import CHINESE, assessment, interaction


@pytest.fixture
def reports():
    return ListExporter()


@pytest.fixture
def monitor(reports):
    with Monitor(service="test", server=ServerSettings(port=0), exporters=[reports]) as made:
        yield made


def observed(number, **changes):
    return interaction(id=f"{number:032x}", **changes)


def test_an_answer_is_scored_and_counted(monitor, reports):
    """One interaction: one report, its scores in the gauges, its outcome in the counters."""
    monitor.observe(interaction())
    assert monitor.flush()
    (report,) = reports.reports
    scores = {e.evaluator: e.score for e in report.evaluations if isinstance(e, Scored)}
    assert scores["faithfulness@1"] == 1.0
    samples = scrape(monitor.metrics_url)
    means = {
        s.labels["evaluator"]: s.value
        for s in samples["ragmonitor_score_mean"]
        if s.labels["window"] == "1h"
    }
    assert means["faithfulness"] == 1.0
    (count,) = samples["ragmonitor_interactions_total"]
    assert count.labels == {"service": "test", "framework": "python", "status": "ok"}


def test_an_invented_answer_scores_lower(monitor, reports):
    """What stands in no chunk is found, with its sentence and words."""
    monitor.observe(interaction(answer="Napoleon Bonaparte designed it for the Olympic Games."))
    assert monitor.flush(60)
    (report,) = reports.reports
    (sentence,) = report.assessment.sentences
    assert sentence.verdict == "absent"
    assert "Napoleon" in " ".join(sentence.words)


def test_plain_code_needs_no_framework(monitor, reports):
    """`with monitor.interaction(...)` records what is said inside."""
    with monitor.interaction(query="长城有多长？", tags=["beta"]) as i:
        i.retrieved(CHINESE[1])
        i.answered(CHINESE[2])
    assert monitor.flush(60)
    (report,) = reports.reports
    assert report.assessment.language == "zh"
    assert report.interaction.tags == ("beta",)


def test_nothing_runs_before_the_first_interaction():
    """A monitor that is only built starts no thread and opens no port."""
    before = threading.active_count()
    monitor = Monitor(service="test", server=ServerSettings(port=0))
    assert threading.active_count() <= before  # one of an earlier test may end meanwhile
    assert monitor.metrics_url is None
    assert monitor.close()


def test_what_comes_after_close_is_counted_as_unscored(reports):
    """Nothing is lost without a trace of it, not even then."""
    monitor = Monitor(service="test", server=ServerSettings(port=0), exporters=[reports])
    monitor.close()
    monitor.observe(interaction())
    assert outcomes(monitor.registry) == {"shutdown": len(table.select())}
    assert reports.reports == []


def test_an_unsuited_argument_reaches_nobody(monitor):
    """`observe` never raises."""
    monitor.observe(None)
    monitor.observe(interaction())
    assert monitor.flush()


def test_errors_and_partial_answers_are_not_scored_low(monitor, reports):
    """An application's error and a closed stream have their own causes."""
    monitor.observe(observed(1, status="error", error="ValueError: x", answer=""))
    monitor.observe(observed(2, status="partial", answer="The Eiffel"))
    monitor.observe(observed(3, answer="  "))
    assert monitor.flush(60)
    causes = [{e.cause for e in r.evaluations} for r in reports.reports]
    assert causes == [{Cause.APPLICATION_ERROR}, {Cause.PARTIAL}, {Cause.NO_ANSWER}]


def test_a_judge_reads_the_drawn_share_and_its_scores_are_weighted(reports):
    """Drawn answers get a late report, the others say `not_sampled`; chances are kept."""
    judge = ScriptedJudge(lambda _: assessment("supported", "absent"))
    with Monitor(
        service="test",
        judge=JudgeSettings(model=judge),
        sample=0.5,
        server=ServerSettings(port=0),
        exporters=[reports],
    ) as monitor:
        for number in range(200):
            monitor.observe(observed(number))
        assert monitor.flush()
        judged = [r for r in reports.reports if r.judge.name == "scripted"]
        read = [r for r in judged if r.assessment is not None]
        assert len(judged) == 200
        assert len(read) == len(judge.asked)
        assert 60 < len(read) < 140
        assert {r.decision.inclusion_probability for r in judged} == {0.5}
        assert all(r.late for r in read)
        found = outcomes(monitor.registry, judge="scripted", evaluator="faithfulness")
        assert found == {"scored": len(read), "not_sampled": 200 - len(read)}
        rate = total(
            monitor.registry, "ragmonitor_hallucination_rate", judge="scripted", window="1h"
        )
        # Predictions get better from verdict to verdict, so the last digits depend on their order.
        assert rate == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (JudgeError("j", "gone", cause=Cause.JUDGE_TIMEOUT, retryable=True), "judge_timeout"),
        (JudgeError("j", "odd", cause=Cause.UNREADABLE, retryable=False), "unreadable"),
        (RuntimeError("a bug in a judge"), "judge_error"),
    ],
)
def test_a_failing_judge_is_a_cause_and_not_a_score(failure, cause):
    """Every kind of failure is counted under its own name."""

    def fail(_):
        raise failure

    with Monitor(
        service="test", judge=ScriptedJudge(fail), sample=1.0, server=ServerSettings(port=0)
    ) as monitor:
        monitor.observe(interaction())
        assert monitor.flush(60)
        assert outcomes(monitor.registry, judge="scripted") == {cause: len(table.select())}


def test_a_judge_that_cannot_tell_its_cost_is_a_cause_too(reports):
    """The built-in judge's score stand, and the sums come out."""

    class Priceless(ScriptedJudge):
        budget_unit = "usd"

        def expected_cost(self, told):
            raise ZeroDivisionError

    judge = Priceless(lambda _: assessment("supported"))
    with Monitor(
        service="test",
        judge=judge,
        sample=1.0,
        budget=Budget(usd_per_day=1),
        server=ServerSettings(port=0),
        exporters=[reports],
    ) as monitor:
        monitor.observe(interaction())
        assert monitor.flush(60)
        assert outcomes(monitor.registry, judge="scripted") == {"judge_error": len(table.select())}
        assert outcomes(monitor.registry, judge="builtin")["scored"] == len(table.select())


def test_a_held_trace_takes_the_judge_s_scores_along(reports):
    """With judge_wait_s a quick judge's report is not late."""
    judge = ScriptedJudge(lambda _: assessment("supported"))
    with Monitor(
        service="test",
        judge=judge,
        sample=1.0,
        export=ExportSettings(judge_wait_s=5),
        server=ServerSettings(port=0),
        exporters=[reports],
    ) as monitor:
        monitor.observe(interaction())
        assert monitor.flush()
    assert [(r.judge.name, r.late) for r in reports.reports] == [
        ("builtin", False),
        ("scripted", False),
    ]


def test_captured_is_scored_plus_unscored_under_load(reports):
    """A small queue, many threads, a judge that fails at times: every sum comes out."""

    class Erratic(ScriptedJudge):
        async def assess(self, told):
            await asyncio.sleep(0.001)
            if int(told.id, 16) % 3 == 0:
                raise JudgeError("j", "busy", cause=Cause.JUDGE_ERROR, retryable=True)
            return await super().assess(told)

    judge = Erratic(lambda _: assessment("supported", "absent"))
    with Monitor(
        service="test",
        judge=judge,
        sample=0.7,
        capture=CaptureSettings(queue_size=50),
        server=ServerSettings(port=0),
        exporters=[reports],
    ) as monitor:
        with ThreadPoolExecutor(8) as pool:
            for number in range(3_000):
                pool.submit(
                    monitor.observe,
                    observed(number, status="error" if number % 11 == 0 else "ok"),
                )
        assert monitor.flush(60)
        captured = total(monitor.registry, "ragmonitor_interactions_total")
        assert captured == 3_000
        for name in ("builtin", "scripted"):
            for entry in table.select():
                found = outcomes(monitor.registry, judge=name, evaluator=entry.name)
                assert sum(found.values()) == captured, (name, entry.name, found)
        lexical = outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
        dropped = total(monitor.registry, "ragmonitor_dropped_total", reason="queue_full")
        assert lexical["queue_full"] == dropped
        assert len([r for r in reports.reports if r.judge.name == "builtin"]) == 3_000 - dropped


def test_what_close_has_no_time_for_is_counted():
    """A worker that hangs at the first answer: the others are unscored, cause `shutdown`."""
    hanging, free = threading.Event(), threading.Event()

    def hang(text):
        hanging.set()
        free.wait(30)
        return text

    monitor = Monitor(
        service="test", server=ServerSettings(port=0), content=ContentSettings(redaction=(hang,))
    )
    try:
        for number in range(5):
            monitor.observe(observed(number))
        assert hanging.wait(10)
        # All five may be in hand already; what is put now certainly waits.
        for number in range(5, 9):
            monitor.observe(observed(number))
        assert not monitor.close(0.1)
        found = outcomes(monitor.registry, evaluator="faithfulness")
        assert found["shutdown"] >= 4
    finally:
        free.set()


def test_refusals_do_not_pile_up_while_the_worker_hangs():
    """The notes of what was refused are bounded, and every one is counted."""
    hanging, free = threading.Event(), threading.Event()

    def hang(text):
        hanging.set()
        free.wait(30)
        return text

    with Monitor(
        service="test",
        server=ServerSettings(port=0),
        capture=CaptureSettings(queue_size=1),
        content=ContentSettings(redaction=(hang,)),
    ) as monitor:
        monitor.observe(interaction())
        assert hanging.wait(10)
        for number in range(12_000):
            monitor.observe(observed(number))
        dropped = total(monitor.registry, "ragmonitor_dropped_total", reason="queue_full")
        assert dropped > 10_000
        free.set()
        assert monitor.flush(30)
        assert total(monitor.registry, "ragmonitor_interactions_total") == 12_001


def test_an_interaction_that_cannot_be_built_is_counted():
    """A translator's fault costs that interaction only, and shows."""

    class Broken:
        framework, status = "x", "ok"

        def interaction(self):
            raise KeyError("translator")

    with Monitor(service="test", server=ServerSettings(port=0)) as monitor:
        monitor._hand_over(Broken())
        monitor.observe(interaction())
        assert monitor.flush(60)
        assert total(monitor.registry, "ragmonitor_dropped_total", reason="unreadable") == 1
        assert total(monitor.registry, "ragmonitor_internal_errors_total", stage="worker") == 1
        found = outcomes(monitor.registry, evaluator="faithfulness")
        assert found == {"scored": 1, "internal_error": 1}
        assert total(monitor.registry, "ragmonitor_interactions_total") == 2


def test_redaction_comes_before_judge_and_exporters(reports):
    """No exporter and no judge sees what the hook removed."""
    judge = ScriptedJudge(lambda _: assessment("supported"))
    with Monitor(
        service="test",
        judge=judge,
        sample=1.0,
        server=ServerSettings(port=0),
        exporters=[reports],
        content=ContentSettings(redaction=(lambda text: text.replace("Eiffel", "[name]"),)),
    ) as monitor:
        monitor.observe(interaction())
        assert monitor.flush(60)
    assert "Eiffel" not in repr(judge.asked)
    assert "Eiffel" not in repr(reports.reports)
    assert "[name]" in judge.asked[0].answer


def test_a_chosen_set_of_evaluators_is_all_there_is(reports):
    """`evaluators=` limits what is scored and counted."""
    with Monitor(
        service="test",
        server=ServerSettings(port=0),
        evaluators=("faithfulness",),
        exporters=[reports],
    ) as monitor:
        monitor.observe(interaction())
        assert monitor.flush(60)
    assert [e.evaluator for e in reports.reports[0].evaluations] == ["faithfulness@1"]


def test_settings_and_options_together_are_refused():
    """Which of the two would win nobody could say."""
    from ragmonitor import Settings

    with pytest.raises(SettingsError, match="not both"):
        Monitor(service="test", settings=Settings.load())


STORY = """
    from ragmonitor import Monitor

    def tell(monitor, n=1):
        for number in range(n):
            with monitor.interaction(query=f"When {number}?") as i:
                i.retrieved(["The tower was built in 1889."])
                i.answered("The tower was built in 1889.")
"""


def test_what_waits_at_exit_is_still_scored(tmp_path):
    """An application that just ends loses nothing."""
    run_python(
        STORY
        + """
    monitor = Monitor(service="t", server=False, exporters="jsonl:out.jsonl")
    tell(monitor, 50)
    """,
        tmp_path,
    )
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 50
    assert {json.loads(line)["evaluations"]["faithfulness"]["score"] for line in lines} == {1.0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_scores_its_own_and_only_its_own(tmp_path):
    """Parent and child each have a worker; what waited at the fork is scored once."""
    run_python(
        STORY
        + """
    import os
    monitor = Monitor(service="t", server=False, exporters="jsonl:out.jsonl")
    tell(monitor, 20)                       # the worker is busy with these when the fork comes
    children = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            tell(monitor, 10)
            assert monitor.close(20)
            os._exit(0)
        children.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    tell(monitor, 5)
    assert monitor.flush(20)
    """,
        tmp_path,
    )
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    assert len(ids) == len(set(ids)) == 20 + 3 * 10 + 5


def test_two_monitors_of_one_process_keep_apart(reports):
    """Each counts and scores what it was handed."""
    other = ListExporter()
    with (
        Monitor(service="a", server=ServerSettings(port=0), exporters=[reports]) as first,
        Monitor(service="b", server=ServerSettings(port=0), exporters=[other]) as second,
    ):
        first.observe(observed(1))
        second.observe(observed(2))
        second.observe(observed(3))
        assert first.flush()
        assert second.flush()
        assert (len(reports.reports), len(other.reports)) == (1, 2)
        assert total(second.registry, "ragmonitor_interactions_total", service="b") == 2
        assert total(second.registry, "ragmonitor_interactions_total", service="a") == 0
