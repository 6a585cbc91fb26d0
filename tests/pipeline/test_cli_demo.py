"""The demo, headless: real frameworks, the real monitor, the real endpoint."""

from __future__ import annotations

import json
import os
from importlib import metadata

import pytest

from ragmonitor.cli.demo.run import run
from ragmonitor.cli.drivers import GROUP
from ragmonitor.cli.options import DemoOptions

pytestmark = pytest.mark.slow

FRAMEWORKS = ("langchain", "llama_index")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    """Take away what the command would read from the environment and the current folder."""
    for name in tuple(os.environ):
        if name.startswith(("RAGMONITOR_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_a_short_demo_shows_the_spike_and_accounts_for_all(capsys):
    """Both frameworks are seen, and the hallucination rate rises during the spike."""
    for framework in FRAMEWORKS:
        if not metadata.entry_points(group=GROUP, name=framework):
            pytest.skip(f"the integration of {framework} is not installed; see `make setup`")
    code = run(DemoOptions(seconds=8, json_output=True, rate=20, port=0, cause="version"))
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0
    assert told["all_accounted_for"] is True
    assert told["failed"] == 0
    assert set(told["by_framework"]) == set(FRAMEWORKS)
    assert sum(told["by_framework"].values()) == told["interactions"] == told["asked"] > 20
    rate = told["hallucination_rate"]
    assert rate["before"] < 0.1
    assert rate["during"] > rate["before"] + 0.15
    assert told["refusals"] > 0
    assert len(told["worst"]) == 3
    assert all(unsupported["sentence"] and unsupported["words"] for unsupported in told["worst"])
    assert told["metrics_url"].startswith("http://127.0.0.1:")


def test_the_shortest_demo_shows_bad_answers_and_no_failures_of_the_judge(capsys):
    """Three seconds suffice for a marked sentence; nothing is missing but scores of refusals."""
    assert run(DemoOptions(seconds=3, json_output=True, port=0)) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["hallucination_rate"]["during"] > 0.5
    assert told["worst"][0]["phase"] == "during"
    assert set(told["unscored"]) <= {"refusal", "no_claims"}
