"""The pytest plugin: golden questions as test cases, and assertions on answers.

pytest imports this module wherever the package is installed, so it imports nothing else of it
before a test asks for something.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ragmonitor.goldens.answer_assertions import AnswerAssertions
    from ragmonitor.goldens.golden import Golden

_MARKER = (
    "rag(goldens): run the test once for each golden question of a file (or list); the argument "
    "`golden` is the question"
)
_OPTIONS = {
    "judge": "the judge of ragmonitor_check: a model, or builtin (the default)",
    "budget_usd": "the most that the judge may cost, over all workers",
    "replies": "a file of the judge's recorded replies, from the root folder",
}
_CHECK = pytest.StashKey["AnswerAssertions"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, on the command line and in the ini file."""
    group = parser.getgroup("ragmonitor")
    for name, text in _OPTIONS.items():
        parser.addini(f"ragmonitor_{name}", text, default="")
        option = f"--ragmonitor-{name.replace('_', '-')}"
        group.addoption(option, dest=f"ragmonitor_{name}", default=None, help=text)
    group.addoption(
        "--ragmonitor-record",
        action="store_true",
        help="ask the judge for replies that are not recorded, and record them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a marked test once for each golden question."""
    marker = metafunc.definition.get_closest_marker("rag")
    if marker is None:
        return
    if "golden" not in metafunc.fixturenames or "goldens" not in marker.kwargs:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: pytest.mark.rag(goldens=...) needs a file or a list, "
            "and the test an argument `golden`"
        )
    goldens = _goldens(marker.kwargs["goldens"], metafunc.definition.path, metafunc.config)
    metafunc.parametrize("golden", goldens, ids=[_test_id(each) for each in goldens])


def _goldens(
    chosen: str | os.PathLike[str] | Sequence[Golden], test: Path, config: pytest.Config
) -> list[Golden]:
    """Return the questions that are asked: not rejected, and if mined, accepted.

    Raises:
        pytest.UsageError: The file cannot be read, or none of its questions is to be asked.
    """
    from ragmonitor.goldens.golden import askable, read_goldens
    from ragmonitor.runtime.errors import RagMonitorError

    name = "the list goldens"
    try:
        if isinstance(chosen, str | os.PathLike):
            name = os.fspath(chosen)
            beside = test.parent / chosen
            chosen = read_goldens(beside if beside.exists() else config.rootpath / chosen)
        return askable(chosen, name)
    except RagMonitorError as error:
        raise pytest.UsageError(str(error)) from error


def _test_id(golden: Golden) -> str:
    words = re.sub(r"\W+", "-", golden.question)[:60].strip("-")
    return f"{words}-{golden.id[:6]}"


@pytest.fixture
def ragmonitor_check(request: pytest.FixtureRequest) -> AnswerAssertions:
    """Return assertions on answers: `assert_faithful`, `assert_correct`, `assert_retrieves`."""
    stash = request.config.stash
    if _CHECK not in stash:
        stash[_CHECK] = _built(request.config)
    return stash[_CHECK]


def _built(config: pytest.Config) -> AnswerAssertions:
    """Return the assertions of this process.

    Raises:
        pytest.UsageError: An option is wrong.
    """
    from ragmonitor.goldens.answer_assertions import AnswerAssertions
    from ragmonitor.runtime.errors import RagMonitorError

    budget, replies = _option(config, "budget_usd"), _option(config, "replies")
    try:
        # Each worker of xdist spends its part: they know nothing of each other.
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        return AnswerAssertions(
            _option(config, "judge") or None,
            budget_usd=float(budget) / workers if budget else None,
            replies=config.rootpath / replies if replies else None,
            records=config.getoption("ragmonitor_record"),
        )
    except (RagMonitorError, ValueError) as error:
        raise pytest.UsageError(f"ragmonitor: {error}") from error


def _option(config: pytest.Config, name: str) -> str:
    value: Any = config.getoption(f"ragmonitor_{name}")
    return str(value if value is not None else config.getini(f"ragmonitor_{name}"))
