"""Parts that are each tested alone, together: what stands between two of them."""

from __future__ import annotations

import pytest

from ragmonitor import Monitor, guard
from ragmonitor.testing import ScriptedJudge
from tests.support.scrape import total
from tests.support.stories import assessment, interaction


@pytest.fixture(autouse=True)
def _errors_are_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_logged", set())


def test_sessions_and_bounded_labels_leave_every_mean_in_the_scrape(caplog) -> None:
    """Sums of sessions are more series than an application's label may have values."""
    with Monitor(
        service="t",
        prometheus=False,
        judge=ScriptedJudge(lambda _: assessment("supported")),
        judge_rate=1.0,
    ) as monitor:
        for n in range(20):
            monitor.observe(interaction(id=f"{n:032x}", session_id=f"s{n}"))
        assert monitor.flush()
        for judge in ("lexical", "scripted"):
            found = {"service": "t", "judge": judge, "evaluator": "faithfulness", "window": "1h"}
            assert total(monitor.registry, "ragmonitor_score_mean", **found) == 1.0
            assert total(monitor.registry, "ragmonitor_score_lower", **found) > 0.5
    assert "error in stage" not in caplog.text
