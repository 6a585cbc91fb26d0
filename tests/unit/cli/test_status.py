"""`ragmonitor status`: one screen, and an exit code, of a monitor that runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ragmonitor import Monitor
from ragmonitor.cli.app import app
from ragmonitor.cli.status import lines
from ragmonitor.records import Verdict
from tests.contract.kit import JudgeObject, assessment, interaction, samples, settings, total, until

runner = CliRunner()
INVENTED = "Napoleon sold \x1b[31mbananas in Rome."


def says(answer):
    bad = answer.answer.startswith("Napoleon")
    return assessment(answer, Verdict.ABSENT if bad else Verdict.SUPPORTED)


@pytest.fixture
def monitored():
    """Return a function that starts a monitor which serves its page, and has it judge answers."""
    started = []

    def start(answers, bad_every=0, **options):
        options = settings(
            judge=JudgeObject(says),
            sample=1.0,
            objectives={"hallucination": 0.05},
            **options,
        ) | {"server": {"enabled": True, "port": 0, "ui": True}}
        monitor = Monitor(**options)
        started.append(monitor)
        for number in range(answers):
            bad = bad_every and number % bad_every == 0
            monitor.observe(interaction(number, **({"answer": INVENTED} if bad else {})))
        monitor.flush(10)
        return monitor

    yield start
    for monitor in started:
        monitor.close()


def test_a_fine_monitor_is_exit_code_0(monitored):
    """All that was captured has an outcome, and nothing alarms."""
    result = runner.invoke(app, ["status", "--address", monitored(40).metrics_url])
    assert result.exit_code == 0, result.output
    assert "0 of 9 alarms active" in result.stdout
    assert "all accounted for: 40 captured = 40 scored + 0 not scored" in result.stdout
    assert "100 %, as asked" in result.stdout
    assert "newest incident: none" in result.stdout
    assert re.search(r"^  hallucination +contract +0 % ", result.stdout, re.MULTILINE)
    assert len(result.stdout.splitlines()) <= 40


def test_an_alarm_is_exit_code_1_with_what_it_rests_on(monitored):
    """When, how sure, the limit, the sentence and the incident; no text commands the terminal."""
    monitor = monitored(240, bad_every=2)

    def alarmed():
        return total(samples(monitor.registry), "ragmonitor_alarm_active") > 0

    until("the alarm is raised", alarmed)
    until("an incident is kept", lambda: "incidents/" in shown(monitor).stdout)
    result = shown(monitor)
    assert result.exit_code == 1
    for words in (
        "ALARM hallucination (contract): raised 20",
        "of the threshold; limit at most 5 %",
        "»Napoleon sold [31mbananas in Rome.«",
        f"{monitor.ui_url}incidents/",
    ):
        assert words in result.stdout
    assert result.stdout.replace("\n", "").isprintable()
    found = json.loads(
        runner.invoke(app, ["status", "--address", monitor.metrics_url, "--json"]).stdout
    )
    (service,) = found["services"]
    rates = [each for each in service["numbers"] if each["signal"] == "hallucination"]
    assert rates[0]["mean"] == pytest.approx(0.5, abs=0.01)
    assert any(each["active"] for each in service["alarms"])
    assert found["all_accounted_for"]


def shown(monitor):
    return runner.invoke(app, ["status", "--address", monitor.metrics_url])


def test_watching_ends_with_ctrl_c_and_shows_answers_that_come(monitored):
    """Those that were there before are not shown as new."""
    monitor = monitored(5)
    words = [
        sys.executable,
        "-m",
        "ragmonitor.cli.app",
        "status",
        "--address",
        monitor.metrics_url,
        "--watch",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, text=True) as watching:
        os.set_blocking(watching.stdout.fileno(), False)
        numbers, seen = iter(range(100, 10_000)), []

        def is_shown():
            monitor.observe(interaction(next(numbers), answer=INVENTED))
            seen.append(watching.stdout.read() or "")
            return "bananas" in "".join(seen)

        until("an answer is shown", is_shown)
        watching.send_signal(signal.SIGINT)
        os.set_blocking(watching.stdout.fileno(), True)
        seen.append(watching.stdout.read())
        assert watching.wait(10) == 0
    assert "answers: " in "".join(seen)


def test_a_budget_that_permits_less_than_was_asked_is_shown():
    """And an answer without an outcome is not passed over."""
    budget = {"unit": "usd", "per": "day"}
    series = [
        ("ragmonitor_judge_sampling_rate", {"judge": "m"}, 0.039),
        ("ragmonitor_judge_max_sampling_rate", {"judge": "m"}, 1.0),
        ("ragmonitor_arrivals_per_second", {}, 3.9),
        ("ragmonitor_judge_cost_usd_total", {"judge": "m"}, 0.2),
        ("ragmonitor_budget_limit", budget, 5.0),
        ("ragmonitor_budget_level", budget, 4.8),
        ("ragmonitor_interactions_total", {}, 10),
        ("ragmonitor_evaluations_total", {"judge": "m", "evaluator": "f", "outcome": "scored"}, 2),
        ("ragmonitor_evaluations_total", {"judge": "m", "evaluator": "f", "outcome": "refusal"}, 7),
        ("ragmonitor_dropped_total", {"reason": "queue_full"}, 3),
    ]
    record = {
        "service": "shop",
        "version": "0.1.0",
        "numbers": [],
        "alarms": [],
        "series": [{"name": name, "labels": x, "value": value} for name, x, value in series],
    }
    text = "\n".join(lines([record], is_complete=False))
    assert "the budget permits 3.9 % at 3.9 answers/s; asked: 100 %" in text
    assert "$0.2 spent since the start; budget: $5 per day, of which $4.8" in text
    assert "NOT ALL ACCOUNTED FOR: 10 captured = 2 scored + 1 under way + 7 not scored" in text
    assert "dropped: 3 (queue_full 3)" in text
