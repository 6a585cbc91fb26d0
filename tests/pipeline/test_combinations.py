"""Parts that are each tested alone, together: what stands between two of them."""

from __future__ import annotations

import pytest

import ragmonitor_langchain
import ragmonitor_llama_index
from integrations.langchain.tests.conftest import lcel
from integrations.llama_index.tests.scripted import query_engine
from ragmonitor import ExportSettings, Monitor, ServerSettings, guard
from ragmonitor.testing import ScriptedJudge
from tests.support.prometheus_server import free_port
from tests.support.scrape import scrape, total
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


def test_a_cell_that_is_run_three_times_counts_each_interaction_once(caplog) -> None:
    """As in a notebook: the newest monitor has the address, and all that is asked afterwards."""
    port = free_port()
    made = []
    try:
        for _ in range(3):
            monitor = Monitor(
                service="nb",
                server=ServerSettings(ui=True, port=port),
                export=ExportSettings(traces=False),
                sample=1.0,
                judge=ScriptedJudge(lambda _: assessment("supported")),
            ).start()
            ragmonitor_langchain.instrument(monitor)
            ragmonitor_llama_index.instrument(monitor)

            @monitor.answers
            def answer(_question: str) -> str:
                return "In 1889."

            made.append(monitor)
        app = lcel()
        for _ in range(3):
            answer("When?")
            app.chain.invoke("When?")
            query_engine().query("When?")
        assert all(monitor.flush() for monitor in made)
        url = until("the newest has the address", lambda: made[-1].metrics_url)
        assert made[-1].ui_url is not None
        assert [monitor.metrics_url for monitor in made[:-1]] == [None, None]
        found = scrape(url)["ragmonitor_interactions_total"]
        assert {s.labels["framework"]: s.value for s in found} == {
            "python": 3,
            "langchain": 3,
            "llama_index": 3,
        }
        counted = [total(m.registry, "ragmonitor_interactions_total") for m in made]
        assert counted == [0, 0, 9]
    finally:
        ragmonitor_langchain.uninstrument()
        ragmonitor_llama_index.uninstrument()
        for monitor in made:
            monitor.close()
    warned = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert all("has taken over" in message for message in warned), warned
    assert len(warned) <= 2


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
