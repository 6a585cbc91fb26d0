"""Parts that are each tested alone, together: what stands between two of them."""

from __future__ import annotations

import pytest

from ragmonitor import Monitor, ServerSettings
from ragmonitor.runtime import guard
from ragmonitor.testing import ScriptedJudge
from tests.support.prometheus_server import free_port
from tests.support.scrape import total
from tests.support.stories import assessment, interaction
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _errors_are_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_logged", set())


def test_sessions_and_bounded_labels_leave_every_mean_in_the_scrape(caplog) -> None:
    """Sums of sessions are more series than an application's label may have values."""
    with Monitor(
        service="t",
        server=False,
        judge=ScriptedJudge(lambda _: assessment("supported")),
        sample=1.0,
    ) as monitor:
        for n in range(20):
            monitor.observe(interaction(id=f"{n:032x}", session_id=f"s{n}"))
        assert monitor.flush()
        for judge in ("builtin", "scripted"):
            found = {"service": "t", "judge": judge, "evaluator": "faithfulness", "window": "1h"}
            assert total(monitor.registry, "ragmonitor_score_mean", **found) == 1.0
            assert total(monitor.registry, "ragmonitor_score_lower", **found) > 0.5
    assert "error in stage" not in caplog.text


def test_an_older_monitor_that_opens_later_leaves_the_address_to_the_newer() -> None:
    """Each opens it on its own thread, in any order."""
    port = free_port()
    older, newer = (Monitor("nb", server=ServerSettings(port=port)) for _ in range(2))
    with newer:
        until("the newer serves", lambda: newer.metrics_url)
        with older:
            with older.interaction(query="When?") as i:
                i.retrieved(["In 1889."])
                i.answered("In 1889.")
            assert older.flush()
            assert (older.metrics_url, newer.metrics_url is not None) == (None, True)
