"""Commands read the environment; these tests bring their own."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away every variable that a command would read."""
    for name in tuple(os.environ):
        if name.startswith(("RAGMONITOR_", "OTEL_")):
            monkeypatch.delenv(name)
