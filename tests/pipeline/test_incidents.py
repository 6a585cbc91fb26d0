"""Incidents of a real monitor: from bad answers to the page, the file and the command line."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from ragmonitor import Chunk, Monitor
from ragmonitor.cli.app import app
from ragmonitor.settings import AlarmSettings
from tests.support.renamed_judge import JUDGE

TOKEN = "a token of enough length"
CHUNK = "Goods may be returned within 30 days of delivery, free of charge."
SOURCE = "secret-policy.md"
WRONG = "Goods may be returned within 90 days by paying a fee of 12 euros in Helsinki."


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def alarmed(**options) -> Monitor:
    """Return a running monitor whose answers are bad enough for an alarm."""
    monitor = Monitor(
        "shop",
        judge=JUDGE,
        sample=1.0,
        objectives={"hallucination": 0.05},
        alarms=AlarmSettings(signals=("hallucination",), false_alarm_every_days=0.01),
        export={"traces": False},
        **options,
    ).start()

    def answer() -> None:
        for number in range(20):
            with monitor.interaction(query=f"Question {number}?", attributes={"route": "/r"}) as i:
                i.retrieved([Chunk(text=CHUNK, id="policy", metadata={"source": SOURCE})])
                i.answered(WRONG)

    answer_until_alarmed(monitor, answer)
    return monitor


def answer_until_alarmed(monitor: Monitor, answer: Callable[[], None]) -> None:
    """Give answers until there is an alarm: evidence takes time as well as verdicts."""
    end_s = time.monotonic() + 60
    while not any(each.active for each in monitor.alarms):
        assert time.monotonic() < end_s
        answer()
        assert monitor.flush(60)
        time.sleep(0.5)
    assert monitor.flush(60)


def get(url: str, token: str = "") -> tuple[str, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as reply:
        return reply.read().decode(), reply.headers["Content-Security-Policy"]


def test_an_alarm_is_an_incident_on_the_page_and_in_the_folder(tmp_path):
    """The same on both ways, with its worst answers; the command line reads both."""
    state = tmp_path / "state"
    server = {"ui": True, "port": 0, "token": TOKEN}
    with alarmed(server=server, state=state) as monitor:
        listed, _ = get(f"{monitor.ui_url}incidents.json", TOKEN)
        (incident,) = json.loads(listed)["incidents"]
        page, _ = get(f"{monitor.ui_url}incidents/{incident['id']}.md?lang=zh", TOKEN)
        brief, _ = get(f"{monitor.ui_url}state.json", TOKEN)
        words = ["incident", "latest", "--address", monitor.ui_url]
        shown = CliRunner().invoke(app, words, env={"RAGMONITOR_SERVER__TOKEN": TOKEN})
        refused = CliRunner().invoke(app, words)
    assert incident["answers"][0]["sentences"][0]["text"] == WRONG
    assert "最差的回答" in page
    assert json.loads(brief)["incidents"][0]["id"] == incident["id"]
    assert shown.exit_code == 0, shown.stderr
    environment = {"RAGMONITOR_STATE": str(state), "RAGMONITOR_SERVICE": "shop"}
    kept = CliRunner().invoke(app, ["incident", "latest"], env=environment)
    assert kept.stdout == shown.stdout
    assert refused.exit_code == 2
    assert "needs its token" in refused.stderr


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_a_route_that_got_worse_is_named(tmp_path, worker):
    """By the incident of all answers, and not by a series; wherever it runs."""
    with Monitor(
        "shop",
        judge=JUDGE,
        sample=1.0,
        objectives={"hallucination": 0.1},
        alarms=AlarmSettings(
            signals=("hallucination",),
            false_alarm_every_days=1.0,
        ),
        export={"traces": False},
        server={"ui": True, "port": 0},
        state=tmp_path / "state",
        worker=worker,
    ) as monitor:

        def answer(is_since: bool = True) -> None:
            for number in range(80):
                route = "billing" if number % 4 == 0 else "faq"
                answer = WRONG if is_since and route == "billing" else CHUNK
                attributes = {"route": route, "user_id": "u1"}
                with monitor.interaction(query=f"Question {number}?", attributes=attributes) as i:
                    i.retrieved([Chunk(text=CHUNK, id="policy")])
                    i.answered(answer)

        answer(is_since=False)
        assert monitor.flush(60)
        answer_until_alarmed(monitor, answer)
        listed, _ = get(f"{monitor.ui_url}incidents.json")
        (incident,) = json.loads(listed)["incidents"]
        page, _ = get(f"{monitor.ui_url}incidents/{incident['id']}.md?lang=zh")
        metrics = urllib.request.urlopen(monitor.metrics_url, timeout=10).read().decode()
    assert [each["signal"] for each in incident["alarms"]] == ["hallucination"]
    assert incident["cause"]["kind"] == "slice"
    assert incident["cause"]["name"] == "route=billing"
    assert "route=billing" in page
    assert "billing" not in metrics
    assert "user_id" not in metrics


@pytest.mark.parametrize("content", ["all", "none"])
def test_texts_in_the_state_have_a_size_and_follow_the_policy(tmp_path, content):
    """The worst answers and the reference answers stand in it as far as texts may, and cut."""
    state = tmp_path / "state.db"
    with alarmed(state=state, content=content, server=False) as monitor:
        with monitor.interaction(query="How long may that be? " * 10_000) as interaction:
            interaction.retrieved([Chunk(text=CHUNK, id="policy", metadata={"source": SOURCE})])
            interaction.answered(f"{WRONG} " * 2_000)
        assert monitor.flush(60)
    with sqlite3.connect(state) as db:
        kept = db.execute("SELECT kind, row FROM rows WHERE row IS NOT NULL").fetchall()
    assert max(len(row) for _, row in kept) < 20_000
    kinds = {kind for kind, row in kept if b"Helsinki" in row}
    assert kinds == ({"incident", "reference"} if content == "all" else set())


def test_no_thread_of_the_application_waits_for_the_state(tmp_path, monkeypatch):
    """A file may be locked by another process for a second: only our own threads wait for it."""
    connect, threads = sqlite3.connect, set()

    def traced(*given, **named):
        db = connect(*given, **named)
        db.set_trace_callback(lambda _: threads.add(threading.current_thread()))
        return db

    monkeypatch.setattr(sqlite3, "connect", traced)
    with alarmed(state=tmp_path / "state.db", server=False) as monitor:
        monitor.event("reindexed")
        monitor.feedback("unknown", True)
        assert monitor.flush(60)
    assert threads - {threading.current_thread()} == threads != set()
