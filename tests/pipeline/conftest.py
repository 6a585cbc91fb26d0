"""Monitors of these tests work on a thread, unless they are told otherwise."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say where monitors work that are not told: a worker takes a second to start."""
    monkeypatch.setenv("RAGMONITOR_WORKER", "thread")
