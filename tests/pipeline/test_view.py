"""The page of a real monitor."""

from __future__ import annotations

import logging
import os
import urllib.error
import urllib.request
from typing import Any

import pytest

from ragmonitor import ExportSettings, Monitor, ServerSettings
from tests.support.settings import merged

TOKEN = "a token of enough length"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    for name in tuple(os.environ):
        if name.startswith(("RAGMONITOR_", "OTEL_", "PROMETHEUS_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def watched(**options: Any) -> Monitor:
    defaults = {"server": {"ui": True, "port": 0}, "export": {"traces": False}}
    return Monitor("shop", **merged(defaults, options))


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
