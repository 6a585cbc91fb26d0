"""The page of a real monitor."""

from __future__ import annotations

import json
import logging
import os
import urllib.error
import urllib.request
from typing import Any

import pytest

from ragmonitor import Chunk, ExportSettings, Monitor, ServerSettings
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.settings import Settings
from tests.support.settings import merged

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


def got(url: str | None, name: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}{name}", timeout=10) as reply:
        told: dict[str, Any] = json.load(reply)
    return told


@pytest.mark.parametrize("content", ["none", "hashed"])
def test_the_page_shows_no_text_that_may_not_be_shown(content):
    """As in traces and files."""
    with watched(content=content) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        state, told = got(monitor.ui_url, "state.json"), got(monitor.ui_url, "answers.json")
    assert state["content"] == content
    data = json.dumps([state, told])
    for word in ("returned", "Helsinki", "90 days", "delivery"):
        assert word not in data
    assert told["answers"][0]["verdicts"]


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
    assert "token" in caplog.text


def test_where_others_can_connect_the_token_opens_it():
    """And nothing else does."""
    with watched(server={"host": "0.0.0.0", "token": TOKEN}) as monitor:
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
        ({"server": {"token": "short"}}, "token"),
        ({"server": {"ui_trace_url": "http://localhost:16686/trace/"}}, "trace_id"),
        ({"server": {"ui_trace_url": "javascript:alert('{trace_id}')"}}, "http"),
    ],
)
def test_settings_that_cannot_work_are_refused(options, problem):
    """When they are read, not when somebody opens the page."""
    with pytest.raises(SettingsError, match=problem):
        Settings.load(**options)
