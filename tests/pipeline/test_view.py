"""The page of a real monitor."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

from ragmonitor import Chunk, ExportSettings, Monitor, ServerSettings
from ragmonitor.errors import SettingsError
from ragmonitor.settings import Settings
from tests.support.prometheus_server import free_port
from tests.support.scripts import ROOT
from tests.support.settings import merged
from tests.support.waiting import until

TOKEN = "a token of enough length"
QUESTION = "How long may goods be returned?"
CHUNK = "Goods may be returned within 30 days of delivery, free of charge."
WRONG = "Goods may be returned within 90 days by paying a fee of 12 euros in Helsinki."


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    for name in tuple(os.environ):
        if name.startswith(("RAGMONITOR_", "OTEL_", "PROMETHEUS_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def watched(**options: Any) -> Monitor:
    defaults = {"server": {"ui": True, "port": 0}, "export": {"traces": False}}
    return Monitor("shop", **merged(defaults, options))


def answer(monitor: Monitor, text: str = WRONG) -> None:
    with monitor.interaction(query=QUESTION, attributes={"route": "/returns"}) as i:
        i.retrieved([Chunk(text=CHUNK, id="policy")])
        i.answered(text)


def state(url: str | None, since: str = "") -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}state.json?since={since}", timeout=10) as reply:
        told: dict[str, Any] = json.load(reply)
    return told


def test_a_wrong_answer_is_on_the_page_within_seconds():
    """With what is wrong in it, the chunk, and the rate with its interval."""
    with watched() as monitor:
        answer(monitor)
        assert monitor.flush(60)
        assert monitor.ui_url is not None
        told = state(monitor.ui_url)
    (found,) = told["answers"]
    assert found["basis"] == "builtin"
    assert found["question"] == QUESTION
    marked = [text for piece in found["answer"] for text, bad in piece.get("parts", ()) if bad]
    assert {"90", "Helsinki"} <= {word for text in marked for word in text.split()}
    assert "".join(text for text, _ in found["chunks"][0]["parts"]) == CHUNK
    assert found["attributes"] == {"route": "/returns"}
    rates = [n for n in told["numbers"] if n["signal"] == "hallucination" and n["window"] == "1h"]
    assert [(n["basis"], n["mean"]) for n in rates] == [("builtin", 1.0)]
    assert rates[0]["lower"] < 1.0
    assert {alarm["signal"] for alarm in told["alarms"]} >= {"hallucination", "refusal"}
    assert told["history"]["20m"]["times"]


@pytest.mark.parametrize("content", ["none", "hashed"])
def test_the_page_shows_no_text_that_may_not_be_shown(content):
    """As in traces and files."""
    with watched(content=content) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        told = state(monitor.ui_url)
    assert told["content"] == content
    data = json.dumps(told)
    for word in ("returned", "Helsinki", "90 days", "delivery"):
        assert word not in data
    assert told["answers"][0]["verdicts"]


def test_secrets_are_replaced_before_the_page_sees_them():
    """The redaction is the same as for judges and exporters."""
    key = "sk-proj-" + "a1B2c3D4" * 6
    with watched() as monitor:
        answer(monitor, f"{WRONG} The key is {key}.")
        assert monitor.flush(60)
        assert key not in json.dumps(state(monitor.ui_url))


def test_without_ui_there_is_no_page():
    """It is not a default."""
    with Monitor(
        service="shop", server=ServerSettings(port=0), export=ExportSettings(traces=False)
    ) as monitor:
        assert monitor.flush(60)
        assert monitor.metrics_url is not None
        assert monitor.ui_url is None
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(monitor.metrics_url.replace("/metrics", "/ragmonitor/"))


def test_where_others_can_connect_the_page_needs_a_token(caplog):
    """Else it is not served, and the log says why; /metrics is."""
    with caplog.at_level(logging.WARNING, "ragmonitor"):
        monitor = watched(server={"host": "0.0.0.0"})
    with monitor:
        assert monitor.flush(60)
        assert monitor.metrics_url is not None
        assert monitor.ui_url is None
    assert "the page is not served" in caplog.text
    assert "ui_token" in caplog.text


def test_where_others_can_connect_the_token_opens_it():
    """And nothing else does."""
    with watched(server={"host": "0.0.0.0", "ui_token": TOKEN}) as monitor:
        assert monitor.flush(60)
        url = str(monitor.ui_url).replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url)
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=10) as reply:
            assert reply.status == 200


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"server": {"ui": True, "enabled": False}}, "needs server.enabled"),
        ({"server": {"ui_token": "short"}}, "ui_token"),
        ({"server": {"ui_trace_url": "http://localhost:16686/trace/"}}, "trace_id"),
        ({"server": {"ui_trace_url": "javascript:alert('{trace_id}')"}}, "http"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, problem):
    """When they are read, not when somebody opens the page."""
    with pytest.raises(SettingsError, match=problem):
        Settings.load(**options)


def test_the_token_stands_in_no_representation():
    """A logged `Settings` tells nobody."""
    assert TOKEN not in repr(Settings.load(server=ServerSettings(ui=True, ui_token=TOKEN)))


APPLICATION = """
import sys
from tests.pipeline.test_view import answer
from tests.support.settings import merged
from ragmonitor import Monitor
monitor = Monitor(
    "shop", server={"ui": True, "port": int(sys.argv[1])}, export={"traces": False}
).start()
answer(monitor)
monitor.flush()
print(monitor.ui_url, flush=True)
sys.stdin.read()
monitor.close()
"""


@pytest.mark.slow
def test_of_several_processes_the_page_says_that_it_shows_one(tmp_path):
    """The one that has got the port; /metrics adds up all of them."""
    port = free_port()
    variables = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", APPLICATION, str(port)],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        urls = {process.stdout.readline().strip() for process in processes if process.stdout}
        assert urls == {f"http://127.0.0.1:{port}/ragmonitor/", "None"}
        told = until(
            "both are counted",
            lambda: (
                (found := state(f"http://127.0.0.1:{port}/ragmonitor/"))["processes"] == 2 and found
            ),
        )
        assert told["received"] == 1
    finally:
        for process in processes:
            process.communicate(timeout=30)
