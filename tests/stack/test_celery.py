"""Tasks of celery: each process of a prefork pool has a helper process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.prometheus_server import free_port
from tests.support.scrape import scrape
from tests.support.waiting import until

pytestmark = pytest.mark.slow

TASKS, PROCESSES = 40, 2
APPLICATION = """
from celery import Celery
from celery.signals import worker_process_shutdown

from ragmonitor import Monitor

app = Celery("tasks", broker="filesystem://")
app.conf.update(
    broker_transport_options={
        "data_folder_in": "broker", "data_folder_out": "broker", "control_folder": "broker",
        "polling_interval": 0.02,
    },
    task_ignore_result=True,
    worker_hijack_root_logger=False,
)
monitor = Monitor(service="tasks")

@app.task(name="answered")
def answered(number):
    with monitor.interaction(query=f"When was {number} built?") as i:
        i.retrieved([f"Number {number} was built in 1889."])
        i.answered(f"Number {number} was built in 1889.")

@worker_process_shutdown.connect
def closed(**_):
    monitor.close(5)  # the pool's processes run no exit handler
"""
ASK = "from application import answered; [answered.delay(n) for n in range({n})]"


@pytest.mark.parametrize("worker", ["process", "thread"])
def test_every_task_of_a_prefork_pool_is_scored(worker: str, tmp_path: Path) -> None:
    """All are in one scrape, whichever process ran them; the pool ends, and ours with it."""
    port = free_port()
    (tmp_path / "application.py").write_text(APPLICATION, encoding="utf-8")
    for folder in ("broker", "metrics"):
        (tmp_path / folder).mkdir()
    environment = {
        **os.environ,
        "RAGMONITOR_WORKER": worker,
        "RAGMONITOR_SERVER__PORT": str(port),
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "metrics"),
        "PYTHONPATH": str(tmp_path),
    }
    # Before the pool is there: it reads what this broker has written by half, and ends.
    subprocess.run(
        [sys.executable, "-c", ASK.format(n=TASKS)], cwd=tmp_path, env=environment, check=True
    )
    with (tmp_path / "log").open("wb") as log:
        pool = subprocess.Popen(
            [
                *(sys.executable, "-m", "celery", "--app", "application", "worker"),
                *("--pool", "prefork", "--concurrency", str(PROCESSES), "--loglevel", "WARNING"),
            ],
            cwd=tmp_path,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:

        def settled() -> bool:
            samples = scrape(f"http://127.0.0.1:{port}/metrics")
            assert sum(s.value for s in samples["ragmonitor_interactions_total"]) == TASKS
            outcomes = [
                (s.labels["outcome"], s.value)
                for s in samples["ragmonitor_evaluations_total"]
                if s.labels["evaluator"] == "faithfulness"
            ]
            assert {outcome for outcome, n in outcomes if n} == {"scored"}
            return sum(n for _, n in outcomes) == TASKS

        until("every task is scored", settled, within_s=90)
        pool.send_signal(signal.SIGTERM)
        assert pool.wait(30) == 0
        until("no process of the session is left", lambda: not _is_alive(pool.pid), within_s=15)
        assert "Traceback" not in (tmp_path / "log").read_text()
    finally:
        if _is_alive(pool.pid):
            os.killpg(pool.pid, signal.SIGKILL)
        pool.wait(10)


def _is_alive(group: int) -> bool:
    """Return whether a process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
