"""What every test begins with."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

from ragmonitor import guard

# A busy machine is no counter-example: how work grows is tested by counting it.
settings.register_profile("ragmonitor", deadline=None)
settings.load_profile("ragmonitor")


def pytest_collection_finish() -> None:
    """Spare every later collection of garbage what was imported, and ten thousand tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _log_of_a_new_process(monkeypatch):
    """Begin with a log that quotes everything and has seen nothing, as a new process does."""
    monkeypatch.setattr(guard, "_quoting", guard._Quoting())
    monkeypatch.setattr(guard, "_logged", set())
