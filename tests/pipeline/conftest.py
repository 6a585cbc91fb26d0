"""What holds on a thread holds in a helper process: the same tests run in both places."""

from __future__ import annotations

import os

import pytest

IN_BOTH_PLACES = frozenset(
    {
        "test_addresses",
        "test_canaries",
        "test_chinese",
        "test_combinations",
        "test_contract",
        "test_every_answer",
        "test_incidents",
        "test_labels",
        "test_last",
        "test_lifecycle",
        "test_monitor",
        "test_otel_spans",
        "test_privacy",
        "test_statistics",
        "test_texts_nowhere",
        "test_view",
    }
)
"""Those that give a judge or a function of their own work on a thread all the same."""


@pytest.fixture(autouse=True)
def _worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Say where monitors work that are not told."""
    place = getattr(request, "param", os.environ.get("RAGMONITOR_WORKER", "thread"))
    monkeypatch.setenv("RAGMONITOR_WORKER", place)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in IN_BOTH_PLACES:
        metafunc.parametrize(
            "_worker",
            [
                pytest.param("thread", id=pytest.HIDDEN_PARAM),
                pytest.param("process", marks=pytest.mark.slow),
            ],
            indirect=True,
        )
