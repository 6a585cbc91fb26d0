"""Texts and tokens go to the address that was named: no way out follows a redirect.

The judge's, through each provider's own client, is in `tests/unit/judges/test_llm.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from ragmonitor.cli.monitor_client import RunningMonitor
from ragmonitor.export import Langfuse, OtelExporter, Phoenix
from ragmonitor.goldens.asking import AskFailedError, HttpAsk
from ragmonitor.incidents.notices import Notifier
from ragmonitor.runtime.errors import InputError
from ragmonitor.settings import Settings
from tests.support.incidents import described
from tests.support.scoring_server import Fault, ScoringServer
from tests.unit.export.examples import TARGET, interaction, report

TOKEN = "t" * 20


def _scores(exporter: Phoenix | Langfuse) -> None:
    exporter.export(report(target=TARGET))
    assert not exporter.flush(10)
    exporter.close()


def _spans(url: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        exporter = OtelExporter(Settings.load())
        exporter.emit(interaction(), [])
        assert not exporter.flush(10)
        exporter.close()


def _probe(url: str) -> None:
    with pytest.raises(AskFailedError, match="30"):
        HttpAsk(url, headers={"x-api-key": TOKEN})("When?")


def _command(url: str) -> None:
    with pytest.raises(InputError, match="30"):
        RunningMonitor(url).records()


def _page(url: str) -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAGMONITOR_SERVER__TOKEN", TOKEN)
        monitor = RunningMonitor(url)
    with pytest.raises(InputError, match="30"):
        monitor.text("state.json")


def _notice(url: str) -> None:
    notifier = Notifier([url.replace("http", "json", 1)], lost=lambda _reason, _n: None)
    notifier.tell("raised", described())
    assert notifier.flush(10)


WAYS: dict[str, Callable[[str], None]] = {
    "Phoenix": lambda url: _scores(Phoenix(url, api_key=TOKEN)),
    "Langfuse": lambda url: _scores(Langfuse(url, public_key="pk", secret_key=TOKEN)),
    "OTLP": _spans,
    "probe": _probe,
    "status and incident": _command,
    "page and mcp": _page,
    "notices": _notice,
}


class _Elsewhere(ScoringServer):
    def reply(self, request: object) -> tuple[int, object]:
        return 200, {"answer": "330 m."}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("way", WAYS)
def test_a_redirect_is_not_followed(way: str, status: int) -> None:
    """The server that was named is asked, and the other never."""
    with contextlib.ExitStack() as servers:
        elsewhere, named = (servers.enter_context(_Elsewhere()) for _ in range(2))
        named.always(Fault(status, {"Location": f"{elsewhere.url}/v1/traces"}))
        WAYS[way](named.url)
    assert named.requests
    assert elsewhere.requests == []
