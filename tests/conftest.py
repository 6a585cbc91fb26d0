"""What every test begins with."""

from __future__ import annotations

import pytest
from hypothesis import settings

from ragmonitor import guard

# A busy machine is no counter-example: how work grows is tested by counting it.
settings.register_profile("ragmonitor", deadline=None)
settings.load_profile("ragmonitor")


@pytest.fixture(autouse=True)
def _log_of_a_new_process(monkeypatch):
    """Begin with a log that quotes everything and has seen nothing, as a new process does."""
    monkeypatch.setattr(guard, "_quoting", guard._Quoting())
    monkeypatch.setattr(guard, "_logged", set())
