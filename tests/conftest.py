"""What every test begins with."""

from __future__ import annotations

import gc

import pytest
from hypothesis import is_hypothesis_test, settings

from ragmonitor.runtime import guard

# A busy machine is no counter-example: how work grows is tested by counting it.
settings.register_profile("ragmonitor", deadline=None)
settings.register_profile("everyday", deadline=None, max_examples=30)


def pytest_configure(config: pytest.Config) -> None:
    """Try few examples of each law in `make test`."""
    settings.load_profile("everyday" if config.option.markexpr == "not slow" else "ragmonitor")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Try the laws again in `make test-all`, with all their examples."""
    if config.option.markexpr == "slow":
        for item in items:
            if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Spare every later collection of garbage what was imported, and ten thousand tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _log_of_a_new_process(monkeypatch):
    """Begin with a log that quotes everything and has seen nothing, as a new process does."""
    monkeypatch.setattr(guard, "_quoting", guard._Quoting())
    monkeypatch.setattr(guard, "_logged", set())
