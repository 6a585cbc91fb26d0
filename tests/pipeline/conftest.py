"""What holds on a thread holds in a helper process: the same tests run in both places."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ragmonitor.back_half.helper_process import HELPER

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


@pytest.fixture(scope="module")
def _helper() -> Iterator[None]:
    """Keep one helper process for a module's tests: each start takes half a second of CPU time."""
    connection, pid = HELPER.connect()
    with connection:
        yield
    HELPER.leave(pid, 10)


@pytest.fixture(autouse=True)
def _worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Say where monitors work that are not told."""
    place = getattr(request, "param", os.environ.get("RAGMONITOR_WORKER", "thread"))
    monkeypatch.setenv("RAGMONITOR_WORKER", place)
    if hasattr(request, "param") and place == "process":
        request.getfixturevalue("_helper")


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
