"""`ragmonitor documents`: the lists of a page, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.estimation import summarise
from ragmonitor.export import PrometheusExporter, View
from ragmonitor.records import Snapshot
from tests.support.prometheus_server import free_port
from tests.unit.causes.test_document_causes import documents, fed

runner = CliRunner()
TOKEN = "a-token-of-sixteen-characters"


@contextmanager
def page(*, token: str | None = None, has_lists: bool = True) -> Iterator[str]:
    """Serve a page with the lists of a simulated service, and give its address."""
    view = View("shop", summarise=summarise, builtin="builtin", token=token)
    meters = PrometheusExporter(
        service="shop", summarise=summarise, serve=True, port=free_port(), pages=view
    )
    views = fed(documents(), 600, bad_document="d7.md").views() if has_lists else {}
    snapshot = Snapshot(views=views)
    view.snapshot(snapshot)
    meters.refresh(snapshot=snapshot, queue_depth=0, open_runs=0, errors={})
    try:
        assert meters.url is not None
        yield meters.url
    finally:
        meters.close()


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)


def test_the_lists_are_printed():
    """The document that went bad stands first, and is named."""
    with page() as url:
        result = runner.invoke(app, ["documents", url])
        data = json.loads(runner.invoke(app, ["documents", url, "--json"]).stdout)
    assert result.exit_code == 0, result.stderr
    assert "NAMED d7.md" in result.stdout
    assert data["misleading"][0]["document"] == "d7.md"
    assert {"noise", "missing", "conflicting", "retrievals"} <= set(data)


def test_a_page_with_a_token_wants_it():
    """Without the token nothing is read; with it the lists are."""
    with page(token=TOKEN) as url:
        without = runner.invoke(app, ["documents", url])
        given = runner.invoke(app, ["documents", url, "--token", TOKEN])
    assert without.exit_code == 2
    assert "status 401" in without.stderr
    assert given.exit_code == 0, given.stderr


def test_a_monitor_without_lists_says_how_to_get_them():
    """No scored answer yet, or no page: no traceback, but what to do."""
    with page(has_lists=False) as url:
        result = runner.invoke(app, ["documents", url])
    assert result.exit_code == 2
    assert "server.ui" in result.stderr
