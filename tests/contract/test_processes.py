"""Answers are captured and scored in whatever kind of process they are given, and none is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.contract.kit import HERE, environment, free_port, lines, parametrize, run, until

PROGRAMS = HERE / "programs"
JUDGES = ("builtin", "contract")
FRAMEWORKS = (
    *("langchain", "langchain_core", "llama_index", "litellm", "openai"),
    *("torch", "transformers", "celery", "gevent", "redis"),
)


def scored(folder: Path) -> Counter[tuple[str, str]]:
    """Return how often each question was scored by each judge."""
    return Counter(
        (line["question"], line["judge"].partition("@")[0])
        for line in lines(folder / "reports.jsonl")
        if "score" in line["evaluations"]["faithfulness"]
    )


def expected(questions: Any) -> Counter[tuple[str, str]]:
    """Return that each question was scored once by each judge."""
    return Counter((str(question), judge) for question in questions for judge in JUDGES)


@parametrize("processes.jsonl")
def test_a_program_loses_no_answer(case: dict[str, Any], tmp_path: Path) -> None:
    """Each answer of parent and children is scored once, at the latest when they end."""
    pytest.importorskip(case.get("needs", "sys"))
    name, *arguments = case["program"]
    ended = run([sys.executable, PROGRAMS / name, *arguments], tmp_path)
    assert (ended.status, ended.out, ended.err) == (0, "", "")
    assert scored(tmp_path) == expected(range(11))


@parametrize("servers.jsonl")
def test_a_server_loses_no_answer(case: dict[str, Any], tmp_path: Path) -> None:
    """Each request is scored once, whichever process took it; the server ends when it is told."""
    pytest.importorskip(case["needs"])
    port = free_port()
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", *(part.format(port=port) for part in case["command"])],
            cwd=tmp_path,
            env=environment(),
            stdout=log,
            stderr=log,
        )
    try:

        def ask(number: int) -> bytes:
            with urlopen(f"http://127.0.0.1:{port}/{number}", timeout=20) as reply:
                return bytes(reply.read())

        first = case["before"]
        until("the server answers", lambda: ask(first), within_s=60)
        with ThreadPoolExecutor(8) as pool:
            processes = set(pool.map(ask, range(first + 1, 40)))
        asked = 40
        while len(processes) < case["processes"] and asked < 1_000:
            processes.add(ask(asked))  # which process takes it is the system's choice
            asked += 1
        assert len(processes) == case["processes"]
        until("all is scored", lambda: scored(tmp_path) == expected(range(asked)))
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.wait(10)
    assert scored(tmp_path) == expected(range(asked))
    text = (tmp_path / "log").read_text("utf-8")
    assert "Traceback" not in text, text
    assert "ragmonitor:" not in text, text


def test_a_prefork_pool_of_celery_loses_no_answer(tmp_path: Path) -> None:
    """Each task is scored once, and the pool ends when it is told."""
    pytest.importorskip("celery")
    (tmp_path / "broker").mkdir()
    module = "tests.contract.programs.celery_tasks"
    # Before the pool is there, which would read what this broker has written by half.
    asking = f"from {module} import answered; [answered.delay(n) for n in range(20)]"
    assert run([sys.executable, "-c", asking], tmp_path).status == 0
    with (tmp_path / "log").open("wb") as log:
        pool = subprocess.Popen(
            [
                *(sys.executable, "-m", "celery", "--app", module, "worker"),
                *("--pool", "prefork", "--concurrency", "2", "--loglevel", "WARNING"),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            ],
            cwd=tmp_path,
            env=environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until("all is scored", lambda: scored(tmp_path) == expected(range(20)), within_s=120)
        pool.send_signal(signal.SIGTERM)
        assert pool.wait(40) == 0
    finally:
        if pool.poll() is None:
            os.killpg(pool.pid, signal.SIGKILL)
        pool.wait(10)
    assert scored(tmp_path) == expected(range(20))
    text = (tmp_path / "log").read_text("utf-8")
    assert "Traceback" not in text, text


def test_nothing_of_ours_that_hangs_holds_the_exit(tmp_path: Path) -> None:
    """A judge or a redaction that takes a minute: the application ends within five seconds."""
    parts = ("sleeping", "stubborn", "blocking", "threaded", "redaction")

    def ending(part: str) -> Any:
        return run([sys.executable, PROGRAMS / "hanging.py", part], tmp_path)

    with ThreadPoolExecutor(len(parts)) as pool:
        ended = dict(zip(parts, pool.map(ending, parts), strict=True))
    assert {part: (each.status, each.err) for part, each in ended.items()} == dict.fromkeys(
        parts, (0, "")
    )
    held = {part: float(each.out) for part, each in ended.items()}
    assert max(held.values()) < 6, held


def test_nothing_runs_before_the_first_interaction(tmp_path: Path) -> None:
    """No thread, no port; neither a framework nor litellm is imported, by a model's name either."""
    ended = run([sys.executable, PROGRAMS / "quiet.py"], tmp_path)
    assert (ended.status, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert not {*FRAMEWORKS, "ragmonitor_langchain"} & {*found["imported"], *found["loaded"]}
    assert (found["threads"], found["tasks"], found["url"]) == (1, 1, None)
