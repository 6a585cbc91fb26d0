"""What processes leave in the folder that they share, torn or whole."""

from __future__ import annotations

import logging
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from ragmonitor import guard
from ragmonitor.export.processes import SharedFolder

DEAD = 2**22 + 1  # beyond any process id


def write(folder: Path, pid: int, value: float) -> Path:
    """Leave a counter, as a process would."""
    path = folder / f"counter_{pid}.db"
    values = MmapedDict(str(path))
    values.write_value(mmap_key("answers", "answers_total", ["service"], ["shop"], "x"), value, 0.0)
    values.write_value(mmap_key("errors", "errors_total", ["service"], ["shop"], "x"), 1.0, 0.0)
    values.close()
    return path


def counted(folder: SharedFolder) -> dict[str, float]:
    found: list[Metric] = list(folder.counted())
    return {sample.name: sample.value for family in found for sample in family.samples}


def length(n: int) -> bytes:
    return n.to_bytes(4, "little", signed=True)


BROKEN = {
    "empty": b"",
    "short": b"\x08",
    "garbage": random.Random(1).randbytes(5000),
    "cut off": length(60_000) + bytes(4),
    "torn": length(4096) + bytes(4) + length(9000) + bytes(4084),
    "backwards": length(4096) + bytes(4) + length(-20) + bytes(4084),
    "no key": length(40) + bytes(4) + length(4) + b"]]]]" + b" " * 8 + bytes(16),
    "no text": length(40) + bytes(4) + length(4) + b"\xff\xff\xff\xff" + b" " * 8 + bytes(16),
}


@pytest.mark.parametrize("name", ["counter_{}.db", "gauge_livesum_{}.db", "histogram_{}.db"])
@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_left_out_and_said_once(
    tmp_path: Path, content: bytes, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The numbers of all others are there."""
    write(tmp_path, DEAD, 3.0)
    broken = tmp_path / name.format(os.getppid())
    folder = SharedFolder(tmp_path)
    broken.write_bytes(content)
    before = guard.errors["metrics"]
    for _ in range(4):
        assert counted(folder)["answers_total"] == 3
    assert guard.errors["metrics"] == before + 1
    (said,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert str(broken) in said


COUNTING = """
import os
from types import SimpleNamespace
os.statvfs = lambda path: SimpleNamespace(f_bavail=100, f_frsize=4096)
from prometheus_client import Counter
from ragmonitor.export import PrometheusExporter
from ragmonitor.records import AlarmState, Snapshot
Counter("theirs", "of the application").inc()
built = PrometheusExporter("shop", summarise=lambda _: None, serve=False)
built.dropped("queue_full", 3)
alarm = AlarmState(
    signal="s", judge="j", kind="quality", evidence_s=86_400 * 1.0, active=False, objective=0.1
)
built.refresh(snapshot=Snapshot(alarms=(alarm,)), queue_depth=2, open_runs=0, errors={})
service = {"service": "shop"}
value = built.registry.get_sample_value
print(value("ragmonitor_dropped_total", {**service, "reason": "queue_full"}))
print(value("ragmonitor_queue_depth", service))
"""


def test_a_folder_without_room_is_refused_and_each_process_counts_for_itself(
    tmp_path: Path,
) -> None:
    """It says what to do, writes no series there, and leaves the application's own alone."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTING],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["3.0", "2.0"]
    (said,) = done.stderr.splitlines()
    assert "has no room for this process" in said
    assert "8 MiB" in said
    written = [file for file in tmp_path.iterdir() if b"ragmonitor_" in file.read_bytes()]
    assert written == []
    (theirs,) = tmp_path.iterdir()
    assert b"theirs" in theirs.read_bytes()


def test_a_mean_before_the_rise_that_is_not_known_is_no_0(tmp_path: Path) -> None:
    """A file forgets no series, and nothing is above NaN: alerts say that it is not known."""
    program = """
import math
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector
from ragmonitor.export import PrometheusExporter
from ragmonitor.records import AlarmSpan, AlarmState, Snapshot

exporter = PrometheusExporter("shop", summarise=lambda _: None, serve=False)
span = AlarmSpan(since_s=960.0, scored=60, mean=0.5, bad=30, before=None)
state = AlarmState(
    signal="refusal", judge="judge", kind="quality", evidence_s=1.0, active=True, span=span,
    objective=0.05,
)
exporter.refresh(snapshot=Snapshot(alarms=(state,)), queue_depth=0, open_runs=0, errors={})
registry = CollectorRegistry()
MultiProcessCollector(registry)
(before,) = [
    sample.value
    for family in registry.collect()
    for sample in family.samples
    if sample.name == "ragmonitor_alarm_rise_mean_before"
]
assert math.isnan(before), before
"""
    subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        check=True,
        timeout=60,
    )


@pytest.mark.parametrize("unknown_first", [True, False])
def test_a_process_without_a_number_hides_none_of_another(
    tmp_path: Path, unknown_first: bool
) -> None:
    """Whichever file is read first: NaN is no number, and no maximum is above it."""
    numbers = [math.nan, 0.5] if unknown_first else [0.5, math.nan]
    first, second = sorted(f"gauge_livemax_{pid}.db" for pid in (os.getpid(), os.getppid()))
    folder = SharedFolder(tmp_path)
    for name, number in zip((first, second), numbers, strict=True):
        values = MmapedDict(str(tmp_path / name))
        values.write_value(mmap_key("mean", "mean", ["service"], ["shop"], "x"), number, 0.0)
        values.close()
    assert counted(folder) == {"mean": 0.5}
