"""`ragmonitor score --workers`: the same file as with one process, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import stories
from tests.support.waiting import until

LANGUAGES = (stories.ENGLISH, stories.CHINESE)


def record(number):
    """Return a record of either language; some are false, some have references, one is bad."""
    question, contexts, answer = LANGUAGES[number % 2]
    told = {"id": f"r{number}", "question": question, "contexts": contexts, "answer": answer}
    if number % 3 == 0:
        told["answer"] = f"{answer} {number} people came."
    if number % 5 == 0:
        told["reference"] = answer
    if number % 17 == 0:
        told["contexts"] = "no list"
    if number % 7 == 0:
        told["status"] = "error"
    return told


def write(path, records):
    path.write_text("\n".join(json.dumps(each) for each in records) + "\n", encoding="utf-8")
    return path


def command(*arguments):
    return [sys.executable, "-m", "ragmonitor.cli.app", "score", *map(str, arguments)]


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def score(*arguments, cwd):
    return subprocess.run(
        command(*arguments),
        env=ENVIRONMENT,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def workers_of(pid):
    """Return the processes that a command has spawned, and theirs."""
    children = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            children.append(int(each.parent.name))
    return children


@pytest.mark.slow
def test_the_output_and_the_summary_are_those_of_one_process(tmp_path):
    """To the byte, with lines that are bad, unscorable or in another language."""
    name = "out.csv"
    file = write(tmp_path / "in.jsonl", [record(n) for n in range(120)])
    said = []
    for n in (1, 3):
        (tmp_path / str(n)).mkdir()
        done = score(file, "-o", tmp_path / str(n) / name, "--json", "--workers", n, cwd=tmp_path)
        assert done.returncode == 1, done.stderr  # bad lines
        said.append((json.loads(done.stdout), done.stderr))
    assert said[0] == said[1]
    assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "3" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_it_no_worker_stays(tmp_path, sign):
    """Ctrl-C reaches the whole group, as from a terminal; the others the command alone."""
    file = write(tmp_path / "in.jsonl", [*map(record, range(2_000))])
    output = tmp_path / "out.jsonl"
    arguments = (file, "-o", output, "--workers", 2)
    with subprocess.Popen(
        command(*arguments),
        env=ENVIRONMENT,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        until("some lines", lambda: output.exists() and output.stat().st_size > 0, within_s=90)
        workers = workers_of(running.pid)
        assert len(workers) >= 2
        (os.killpg if sign is signal.SIGINT else os.kill)(running.pid, sign)
        told = running.communicate(timeout=60)[1]
    assert running.returncode == (130 if sign is signal.SIGINT else -sign)
    assert "Traceback" not in told
    until("no worker", lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in workers))
