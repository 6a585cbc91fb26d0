"""Golden questions asked of an application that is monitored: their answers are no traffic."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from ragmonitor import Budget, Monitor
from ragmonitor.capture.probe_mark import ProbeMiddleware, current_mark, marked
from ragmonitor.goldens.golden import Golden, ReferenceChunk
from ragmonitor.records import Interaction, JudgeUsage, Probe
from ragmonitor.semconv import metrics
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import outcomes, total
from tests.support.stories import assessment, interaction

QUIET: dict[str, Any] = {"service": "test", "server": False}


def rounded(numbers: object) -> str:
    """Return numbers to nine digits: sums of floats depend on the order of what is added."""
    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.9g}", repr(numbers))


TOTALS = (metrics.ANSWERS, metrics.ESTIMATE, metrics.JUDGED_ANSWERS)
OTHERS = ("golden_availability", "anchors")
"""Alarms on golden questions and on reference answers, whose evidence begins with a tick."""
TALL = "The tower is 330 metres tall."
GOLDEN = Golden(
    id="tall",
    question="How tall is the tower?",
    answer=TALL,
    chunks=(ReferenceChunk(text=TALL, id="c0"),),
)


def answered(golden: str, answer: str = TALL, outcome: str = "answered") -> Interaction:
    """Return the asker's record of a golden question."""
    return replace(
        interaction(query=GOLDEN.question, texts=[TALL], answer=answer),
        id=f"probe-{golden}",
        status="ok" if outcome == "answered" else "error",
        reference=TALL,
        reference_chunks=GOLDEN.reference_chunks,
        probe=Probe(golden=golden, outcome=outcome),
    )


def test_what_golden_questions_cause_is_kept_apart():
    """The application's interaction is counted apart, and gives the asker its chunks."""
    exported = ListExporter()
    with Monitor(**QUIET, exporters=[exported]) as monitor:

        def ask(question: str) -> str:
            with monitor.interaction(query=question) as i:
                i.retrieved([TALL])
                i.answered(TALL)
            return TALL

        ask("Is it tall?")
        assert monitor.probe(ask, [GOLDEN], once=True).wait(20)
        assert monitor.flush(20)
        count = monitor.registry
        assert total(count, "ragmonitor_interactions_total") == 1
        assert total(count, "ragmonitor_golden_asks_total", outcome="answered") == 1
        score = "ragmonitor_golden_score"
        for name in ("answer_correctness", "context_recall", "faithfulness", "availability"):
            assert total(count, score, evaluator=name, window="1h", bound="mean") == 1
    assert {report.interaction.query for report in exported.reports} == {"Is it tall?"}


@given(st.lists(st.sampled_from(["traffic", "wrong", "golden", "fallen", "timeout", "captured"])))
@settings(max_examples=6, deadline=None)
def test_no_number_of_the_traffic_depends_on_golden_questions(story: list[str]):
    """Estimates, alarms, the sampling, its budget and the counts are those without them."""

    def state(kinds: list[str]) -> dict[str, Any]:
        judge = ScriptedJudge(
            lambda told: assessment("absent" if told.answer == "Wrong." else "supported")
        )
        monitor = Monitor(**QUIET, judge=judge, sample=0.5, budget=Budget(calls_per_day=10))
        try:
            for n, kind in enumerate(kinds):
                if not kind:
                    continue
                if kind in ("traffic", "wrong"):
                    answer = "Wrong." if kind == "wrong" else TALL
                    told = replace(interaction(texts=[TALL], answer=answer), id=f"traffic-{n}")
                    monitor.observe(told)
                elif kind == "captured":
                    with marked("g"):
                        monitor.observe(
                            replace(interaction(), attributes={"ragmonitor.probe": "g"})
                        )
                else:
                    outcome = "timeout" if kind == "timeout" else "answered"
                    answer = "It is 9 feet." if kind == "fallen" else TALL
                    monitor.observe(answered(f"g{n}", answer, outcome))
            assert monitor.flush(20)
            snapshot = monitor._back.estimates.snapshot()  # type: ignore[attr-defined]
            traffic = [told.id for told in judge.asked if told.id.startswith("traffic-")]
            return {
                "means": rounded(snapshot.means),
                "totals": rounded([e for e in snapshot.gauges if e.name in TOTALS]),
                "alarms": [each for each in snapshot.alarms if each.signal not in OTHERS],
                "drawn": sorted(traffic),
                "evaluations": outcomes(monitor.registry),
                "interactions": total(monitor.registry, "ragmonitor_interactions_total"),
                "chunks": total(monitor.registry, "ragmonitor_retrieved_chunks_count"),
            }
        finally:
            monitor.close()

    # Ids carry the place, so that the same answers are drawn in both.
    assert state(story) == state([each if each in ("traffic", "wrong") else "" for each in story])


def test_the_middleware_marks_requests_that_have_the_header():
    """And no others."""

    async def ask(_request: Any) -> JSONResponse:
        return JSONResponse({"mark": current_mark()})

    client = TestClient(ProbeMiddleware(Starlette(routes=[Route("/ask", ask, methods=["POST"])])))
    assert client.post("/ask").json() == {"mark": ""}
    headers = {"x-ragmonitor-probe": "a%20b"}
    assert client.post("/ask", headers=headers).json() == {"mark": "a b"}


class PaidJudge(ScriptedJudge):
    """Costs a call each time, as a judge of the user's own does."""

    budget_unit = "calls"

    def expected_cost(self, interaction: Interaction) -> float:
        return 1.0


def test_golden_questions_keep_to_the_budget():
    """What finds it spent is asked and not judged: the application is available."""
    judge = PaidJudge(lambda _: replace(assessment("supported"), usage=JudgeUsage(calls=1)))
    budget = Budget(calls_per_hour=80)  # 10 at first
    with Monitor(**QUIET, judge=judge, budget=budget, sample=1.0) as monitor:
        for n in range(20):
            monitor.observe(answered(f"g{n}"))
            assert monitor.flush(20)
        assert len(judge.asked) == 10
        assert total(monitor.registry, "ragmonitor_golden_asks_total", outcome="answered") == 20
