"""`ragmonitor explain`: what it says of a running monitor's series, and what it refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.cli.monitor_client import address
from ragmonitor.cli.monitor_state import ServiceState
from ragmonitor.errors import InputError
from ragmonitor.estimation import summarise
from ragmonitor.export import PrometheusExporter, View
from ragmonitor.records import AlarmState, Cause, Scored, Snapshot, Unscored
from ragmonitor.sampling import AdaptiveSampler, Budget
from ragmonitor.testing import ManualClock
from tests.support.prometheus_server import free_port
from tests.support.simulation import Service, statistics
from tests.support.streams import HOUR_S, JUDGE, Records, Stream, steady

runner = CliRunner()

COST = 0.001
PER_DAY = 4.8
"""Pays 183 readings an hour, of 3,600 answers: the budget decides."""
OBJECTIVE = 0.05


def explained(*options: str) -> Any:
    """Return what `--json` prints."""
    result = runner.invoke(app, ["explain", *options, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(*options: str) -> str:
    """Return what is said of a use that is wrong."""
    result = runner.invoke(app, ["explain", *options])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr


@contextmanager
def served(
    *,
    judge: bool = True,
    budget: bool = True,
    hours: float = 6.0,
    objective: float | None = OBJECTIVE,
) -> Iterator[str]:
    """Serve the series of a simulated service, and give their address."""
    clock = ManualClock()
    records = Records(evaluators=("faithfulness", "hallucination"))
    sampler = None
    if judge:
        sampler = AdaptiveSampler(
            0.5,
            clock=clock,
            budget=Budget(PER_DAY, clock=clock) if budget else None,
            expected_cost=lambda _: COST,
        )
    service = Service(
        estimates=statistics(
            clock,
            records,
            judge=judge,
            boost=1.0,
            objectives=None if objective is None else {"hallucination": objective},
        ),
        sampler=sampler,
        clock=clock,
        records=records,
        tick_s=60.0,
    )
    service.feed(Stream(seed=3, for_s=hours * HOUR_S, rate=steady(0.04)).answers())
    service.pass_time(hours * HOUR_S)
    exporter = PrometheusExporter("support-bot", summarise=summarise, port=0)
    try:
        missing = Unscored(evaluator="faithfulness@1", judge=JUDGE, cause=Cause.JUDGE_TIMEOUT)
        unread = replace(missing, cause=Cause.NOT_SAMPLED)
        scored = Scored(evaluator="faithfulness@1", judge=JUDGE, score=1.0)
        exporter.evaluations([scored, scored, scored, unread, missing])
        snapshot = service.estimates.snapshot()
        if sampler is not None:
            readings = (*snapshot.gauges, *sampler.gauges(JUDGE.name))
            snapshot = replace(snapshot, gauges=readings)
        exporter.refresh(snapshot=snapshot, queue_depth=0, open_runs=0, errors={})
        assert exporter.url is not None
        yield exporter.url
    finally:
        exporter.close()


@pytest.fixture(scope="module")
def judged() -> Iterator[str]:
    """Serve a service with a judge, whose budget decides."""
    with served() as url:
        yield url


@pytest.fixture(scope="module")
def builtin() -> Iterator[str]:
    """Serve a service without a judge."""
    with served(judge=False, hours=1.0) as url:
        yield url


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Serve always the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


# --- what it says ---------------------------------------------------------------------------------


def test_help_has_exit_codes():
    """As every command's."""
    assert "Exit codes" in runner.invoke(app, ["explain", "--help"]).output


def test_means_have_their_intervals(judged: str):
    """Of both windows, by the judge, with what they are worth."""
    (said,) = explained(judged)["services"]
    found = {(mean["signal"], mean["window"]): mean for mean in said["means"]}
    assert {"hallucination", "minor_hallucination", "refusal", "faithfulness"} == {
        signal for signal, _ in found
    }
    rate = found["hallucination", "24h"]
    assert rate["lower"] < 0.04 < rate["upper"]
    assert rate["judge"] == said["judge"] == JUDGE.name
    assert rate["effective_n"] > 500
    assert rate["coverage"] > 0.95


def test_answers_are_counted_by_what_became_of_them(judged: str):
    """Judged, predicted, without a verdict and why; and how many had no chance."""
    (said,) = explained(judged)["services"]
    answers = said["answers"]
    assert answers["answers"] == 5
    assert answers["predicted"] == 1
    assert answers["without_verdict"] == {"judge_timeout": 1}
    assert answers["scored"] == 3
    assert 0 <= answers["uncovered_ratio"] < 0.05


def test_a_budget_that_decides_is_seen_to(judged: str):
    """The pace is what the budget bears, and below the setting."""
    (said,) = explained(judged)["services"]
    sampling = said["sampling"]
    assert sampling["bound_by"] == "budget"
    assert sampling["rate"] < sampling["judge_rate"] == pytest.approx(0.5)
    (limit,) = sampling["budget"]
    assert limit["sustained_per_hour"] == pytest.approx(PER_DAY * 11 / 12 / 24)
    assert sampling["cost_per_hour"] == pytest.approx(limit["sustained_per_hour"], rel=0.3)
    assert limit["level"] < limit["limit"] / 12


def test_other_budgets_pay_in_proportion(judged: str):
    """Up to the setting, where it is said; more readings are narrower and faster."""
    (said,) = explained(judged)["services"]
    rows = {row["budget"]: row for row in said["planning"]}
    assert list(rows) == ["x0.25", "x0.5", "x1", "x2", "x4", "unlimited", "every answer"]
    one = rows["x1"]["judged_per_hour"]
    assert one == pytest.approx(183, rel=0.02)
    assert rows["x0.25"]["judged_per_hour"] == pytest.approx(one / 4)
    assert rows["x4"]["rate"] < rows["unlimited"]["rate"] == 0.5
    assert rows["every answer"]["rate"] == 1.0
    assert rows["x0.25"]["half_width_1h"] > rows["x1"]["half_width_1h"]
    assert rows["x1"]["half_width_1h"] > rows["x1"]["half_width_24h"]
    slow, fast = rows["x0.25"]["delays"], rows["x1"]["delays"]
    assert [jump["mean"] for jump in fast] == [0.1, 0.2]
    assert all(a["hours"] > b["hours"] for a, b in zip(slow, fast, strict=True))
    assert fast[0]["hours"] > fast[1]["hours"]


def test_the_hourly_width_is_that_of_the_gauge(judged: str):
    """At the budget of now, in a window that is filled."""
    (said,) = explained(judged)["services"]
    row = next(row for row in said["planning"] if row["budget"] == "x1")
    hour = next(m for m in said["means"] if (m["signal"], m["window"]) == ("hallucination", "1h"))
    assert row["half_width_1h"] == pytest.approx((hour["upper"] - hour["lower"]) / 2, rel=0.15)


def test_other_traffic_may_be_planned_for(judged: str):
    """A budget that pays for a tenth pays for all of a tenth of the traffic."""
    (said,) = explained(judged, "--answers-per-hour", "100")["services"]
    row = next(row for row in said["planning"] if row["budget"] == "x1")
    assert (row["rate"], row["judged_per_hour"]) == (0.5, 50.0)


def test_an_alarm_says_where_it_stands(judged: str):
    """Given tolerances, and those that are being learned, each with its line."""
    (said,) = explained(judged)["services"]
    alarms = {alarm["signal"]: alarm for alarm in said["alarms"]}
    assert alarms["hallucination"]["objective"] == OBJECTIVE
    assert not alarms["hallucination"]["active"]
    assert said["threshold_days"] == 30.0


def test_without_a_limit_the_setting_decides():
    """There is one row for now, and one for everything."""
    with served(budget=False, hours=0.5) as url:
        (said,) = explained(url)["services"]
    assert said["sampling"]["judge_rate"] == pytest.approx(0.5)
    assert [row["budget"] for row in said["planning"]] == ["unlimited", "every answer"]


def test_what_is_learned_takes_its_time(judged: str):
    """The text says how much of learning is done and what it takes; no delay is made up."""
    with served(hours=0.5, objective=None) as url:
        (said,) = explained(url)["services"]
        text = runner.invoke(app, ["explain", url]).stdout
    assert all(row["delays"] == [] for row in said["planning"])
    assert "is being learned" in text
    assert "raises an alarm. The setting objectives" in " ".join(text.split())


def test_without_a_judge_it_says_so(builtin: str):
    """The built-in judge's numbers are its opinion, and are not dressed up."""
    (said,) = explained(builtin)["services"]
    assert said["judge"] == "builtin"
    assert not said["is_judged"]
    assert said["sampling"] is None
    assert said["planning"] == []
    text = runner.invoke(app, ["explain", builtin]).stdout
    assert "NOT JUDGED" in text
    assert "--answers-per-hour" in text


def test_without_a_judge_traffic_can_be_said(builtin: str):
    """Every answer bets then, at stakes of 1."""
    (said,) = explained(builtin, "--answers-per-hour", "600")["services"]
    (row,) = said["planning"]
    assert row["judged_per_hour"] == 600
    assert len(row["delays"]) == 2


@pytest.mark.parametrize("url", ["judged", "builtin"])
def test_the_text_has_every_part(url: str, request: pytest.FixtureRequest):
    """Headings that somebody on call finds, whatever is known already."""
    text = runner.invoke(app, ["explain", request.getfixturevalue(url)]).stdout
    for heading in (
        "Estimates",
        "What they are made of",
        "Alarms: evidence in % of the threshold",
        "What comes in",
        "What would happen at other budgets",
    ):
        assert heading in text


def test_the_service_can_be_named(judged: str):
    """And the address may be a host and a port."""
    host = judged.removesuffix("/metrics")
    (said,) = explained("--service", "support-bot", host)["services"]
    assert said["service"] == "support-bot"


def test_json_has_no_number_that_json_has_not(judged: str):
    """Infinite and missing ones are null."""
    text = runner.invoke(app, ["explain", judged, "--json"]).stdout
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def test_an_alarm_of_a_topic_says_what_it_is_about_where_the_page_does():
    """Its words are texts, which stand on the page alone; without it, the number."""
    rising = AlarmState(
        signal="hallucination{topic=topic-07}",
        judge="model",
        kind="slice",
        evidence_s=86_400.0,
        active=True,
        objective=0.05,
    )
    snapshot = Snapshot(alarms=(rising,), views={"topics": {"topic-07": "return, parcel"}})
    said = {}
    for has_page in (True, False):
        view = View("x", summarise=summarise, builtin="builtin") if has_page else None
        exporter = PrometheusExporter("x", summarise=summarise, port=0, pages=view)
        try:
            exporter.refresh(snapshot=snapshot, queue_depth=0, open_runs=0, errors={})
            if view is not None:
                view.snapshot(snapshot)
            said[has_page] = runner.invoke(app, ["explain", str(exporter.url)])
            (alarm,) = explained(str(exporter.url))["services"][0]["alarms"]
            assert alarm.get("title") == ("return, parcel" if has_page else None)
        finally:
            exporter.close()
    assert "topic=topic-07 (return, parcel)" in said[True].stdout
    assert "parcel" not in said[False].stdout
    assert "topics are told by their numbers" in said[False].stderr


def test_wrong_settings_keep_nobody_from_an_address_that_is_given(judged: str, monkeypatch):
    """The token stands in them, which no number needs."""
    monkeypatch.setenv("RAGMONITOR_JUGDE", "a-model")
    assert explained(judged)["services"][0]["service"] == "support-bot"


def test_a_topic_has_the_words_of_its_own_service_alone():
    """Services of one process have numbers at one address, and the page of one; topics repeat."""
    rising = AlarmState(
        signal="hallucination{topic=topic-07}",
        judge="model",
        kind="slice",
        evidence_s=86_400.0,
        active=True,
        objective=0.05,
    )
    snapshot = Snapshot(alarms=(rising,), views={"topics": {"topic-07": "return, parcel"}})
    view = View("shop", summarise=summarise, builtin="builtin")
    port = free_port()
    shop = PrometheusExporter("shop", summarise=summarise, port=port, pages=view)
    clinic = PrometheusExporter("clinic", summarise=summarise, port=port)
    try:
        for exporter in (shop, clinic):
            exporter.refresh(snapshot=snapshot, queue_depth=0, open_runs=0, errors={})
        view.snapshot(snapshot)
        services = explained(str(shop.url))["services"]
    finally:
        clinic.close()
        shop.close()
    titles = {each["service"]: each["alarms"][0].get("title") for each in services}
    assert titles == {"shop": "return, parcel", "clinic": None}


def test_a_monitor_that_has_seen_nothing_is_explained_all_the_same():
    """Each part says that nothing is known."""
    exporter = PrometheusExporter("x", summarise=summarise, serve=False)
    state = ServiceState(exporter.state())
    exporter.close()
    assert state.version
    assert (state.means, state.answers, state.planning) == ([], None, ())


def test_several_services_of_one_address_are_all_explained():
    """The first monitor of a process serves what the others count too."""
    port = free_port()
    exporters = [
        PrometheusExporter(service, summarise=summarise, port=port)
        for service in ("support-bot", "search")
    ]
    try:
        for exporter in exporters:
            exporter.refresh(snapshot=Snapshot(), queue_depth=0, open_runs=0, errors={})
        services = explained(f"127.0.0.1:{port}")["services"]
    finally:
        for exporter in exporters:
            exporter.close()
    assert [each["service"] for each in services] == ["support-bot", "search"]


# --- what it refuses ------------------------------------------------------------------------------


def test_nobody_answers():
    """It says where, why, and what to look at."""
    said = refused(f"127.0.0.1:{free_port()}")
    assert "nothing answers at http://127.0.0.1:" in said
    assert "is the monitored application running?" in said


def test_somebody_else_answers():
    """Series of others are not a monitor's."""
    with answering(200, b"up 1\n") as url:
        assert "serves no state of a monitor" in refused(url)


@pytest.mark.parametrize("body", [b"[]", b'{"services": 1}', b'{"services": [{}]}', b"<html>"])
def test_what_is_served_is_no_state(body: bytes):
    """JSON of somebody else, or a page."""
    with answering(200, body) as url:
        assert "no state of a monitor" in refused(url)


def test_a_status_is_said():
    """Such as that of a server that wants to know who asks."""
    with answering(403, b"") as url:
        assert "answers with status 403" in refused(url)


def test_a_service_that_is_not_there(judged: str):
    """The ones that are there are named."""
    said = refused(judged, "--service", "other")
    assert "no service 'other', but support-bot" in said


def test_a_password_is_never_shown():
    """Not even in what goes wrong."""
    said = refused(f"http://me:secret@127.0.0.1:{free_port()}/metrics")
    assert "secret" not in said


@pytest.mark.parametrize("wrong", ["ftp://127.0.0.1/metrics", "http://:9464", "http://a:b/metrics"])
def test_what_is_no_address(wrong: str):
    """It is said before anything is asked."""
    with pytest.raises(InputError, match="is no address of HTTP"):
        address(wrong)


def test_host_and_port_are_enough(monkeypatch: pytest.MonkeyPatch):
    """The rest is as always; without any the settings say."""
    assert address("10.0.0.1:9000") == "http://10.0.0.1:9000/metrics.json"
    assert address("https://a.example/x/metrics") == "https://a.example/x/metrics.json"
    assert address("127.0.0.1:9464/metrics.json") == "http://127.0.0.1:9464/metrics.json"
    assert address(None) == "http://127.0.0.1:9464/metrics.json"
    monkeypatch.setenv("RAGMONITOR_SERVER__HOST", "0.0.0.0")
    monkeypatch.setenv("RAGMONITOR_SERVER__PORT", "9999")
    assert address(None) == "http://127.0.0.1:9999/metrics.json"


def test_a_limit_of_differences_is_shown_as_one(judged: str):
    """Verdicts less predictions may be 0.02 off: 0.51 is where that stands on a scale of 0 to 1."""
    shown = runner.invoke(app, ["explain", judged], env={"COLUMNS": "120"}).output
    (row,) = [line for line in shown.splitlines() if "calibration_high" in line]
    assert "+0.02" in row
    assert "0.51" not in row
