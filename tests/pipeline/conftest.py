"""What holds on a thread holds in a helper process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragmonitor.back_half.helper_process import HELPER

IN_BOTH_PLACES = frozenset(
    {
        "test_addresses",
        "test_combinations",
        "test_incidents",
        "test_last",
        "test_monitor",
        "test_otel_spans",
        "test_privacy",
        "test_texts_nowhere",
        "test_view",
    }
)
"""Files, and tests of files whose others gain nothing: who gives a judge or a function of their own
has the work done on a thread wherever they are told."""

WITH_VARIABLES = frozenset({"test_texts_nowhere"})
"""Files that set variables which a helper process is to find: it has those of its start."""


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
    module = request.module.__name__.rpartition(".")[2]
    if hasattr(request, "param") and place == "process" and module not in WITH_VARIABLES:
        request.getfixturevalue("_helper")


@pytest.fixture
def no_helper_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have each helper process end at once, and the next be tried soon."""
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("ragmonitor.back_half.helper_process.sys.executable", str(broken))
    monkeypatch.setattr("ragmonitor.supervised.FIRST_PAUSE_S", 0.01)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    module = metafunc.module.__name__.rpartition(".")[2]
    name = metafunc.function.__name__
    if {module, f"{module}.{name}"} & IN_BOTH_PLACES:
        metafunc.parametrize(
            "_worker",
            [
                pytest.param("thread", id=pytest.HIDDEN_PARAM),
                pytest.param("process", marks=pytest.mark.slow),
            ],
            indirect=True,
        )
