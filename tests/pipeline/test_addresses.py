"""Several monitors of one process, at one address."""

import logging

from ragmonitor import Monitor, ServerSettings
from tests.support.prometheus_server import free_port
from tests.support.scrape import scrape
from tests.support.stories import interaction
from tests.support.waiting import until


def counted(monitor):
    """Return interactions by service, as they are scraped where the monitor says."""
    found = scrape(monitor.metrics_url)
    samples = found.get("ragmonitor_interactions_total", [])
    return {sample.labels["service"]: sample.value for sample in samples}


def fed(monitor, n=1):
    for number in range(n):
        monitor.observe(interaction(id=f"{number:032x}"))
    assert monitor.flush(20)
    return monitor


def test_a_cell_that_is_run_twice_is_served_at_its_address(caplog):
    """The newest Monitor of a service takes the port over, and the warning says so."""
    port = free_port()
    first = fed(Monitor(service="a", server=ServerSettings(port=port, ui=True)), 2)
    assert counted(first) == {"a": 2}
    second = fed(Monitor(service="a", server=ServerSettings(port=port, ui=True)))
    try:
        assert counted(second) == {"a": 1}
        until("the first one knows", lambda: first.metrics_url is None)
        fed(first)
        assert counted(second) == {"a": 1}
        said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert len(said) == 1
        assert "a second Monitor of this process" in said[0]
    finally:
        second.close(5)
        first.close(5)


def test_two_services_of_one_process_share_an_address(caplog):
    """One scrape holds both, each family once; when the first closes the other goes on."""
    port = free_port()
    first = fed(Monitor(service="a", server=ServerSettings(port=port, ui=True)), 2)
    second = fed(Monitor(service="b", server=ServerSettings(port=port, ui=True)), 3)
    try:
        assert first.metrics_url == second.metrics_url
        assert counted(second) == {"a": 2, "b": 3}
        assert first.ui_url is not None
        assert second.ui_url is None
        first.close(5)
        until("the other one serves", lambda: fed(second).ui_url is not None)
        assert set(counted(second)) == {"b"}
        assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
    finally:
        second.close(5)
        first.close(5)
