"""The demo under a real Prometheus and a real Alertmanager, as `make demo-stack` brings it up."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.prometheus_server import require_binary

pytestmark = [pytest.mark.stack, pytest.mark.slow]

SCRIPT = Path(__file__).parents[2] / "tools" / "demo_stack.py"


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module."""
    for binary in ("prometheus", "prometheus-alertmanager"):
        require_binary(binary)
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    spec = importlib.util.spec_from_file_location("demo_stack", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "demo_stack", module)
    spec.loader.exec_module(module)
    return module


def test_the_spike_pages_and_its_end_is_told(stack: ModuleType, tmp_path: Path) -> None:
    """The page comes within the spike, with its numbers; the pager hears when it is over."""
    outcome = stack.run(tmp_path, seconds=200.0, rate=10.0)
    spike = outcome.demo["spike"]
    assert outcome.demo["all_accounted_for"]
    assert outcome.page_delay_s is not None
    assert 0 < outcome.page_delay_s < spike["ended_s"] - spike["began_s"]
    assert "more answers are hallucinated than the limit permits" in outcome.page["summary"].lower()
    assert "by demo/stand-in" in outcome.page["description"]
    assert outcome.page["runbook_url"].endswith("#hallucination-spike")
    assert outcome.resolved_after_s is not None
    assert outcome.others == set()
