"""What processes leave in the folder that they share, torn or whole."""

from __future__ import annotations

import json
import logging
import os
import random
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


SOUND = length(8) + bytes(4)
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


def test_a_file_that_becomes_whole_is_counted_and_nothing_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Between its making and its first series a file is empty: that is no fault."""
    folder = SharedFolder(tmp_path)
    path = tmp_path / f"counter_{DEAD}.db"
    path.write_bytes(b"")
    assert counted(folder) == {}
    path.unlink()
    write(tmp_path, DEAD, 2.0)
    assert counted(folder)["answers_total"] == 2
    assert caplog.records == []


@pytest.mark.parametrize("name", ["nonsense.db", "gauge.db", "gauge_.db"])
def test_a_file_of_a_strange_name_is_left_out(tmp_path: Path, name: str) -> None:
    """It may be anybody's; its name says nothing of what it holds."""
    write(tmp_path, DEAD, 3.0).rename(tmp_path / name)
    write(tmp_path, DEAD, 4.0)
    folder = SharedFolder(tmp_path)
    assert counted(folder)["answers_total"] == 4


@pytest.mark.parametrize(
    "entry",
    [
        {"series": {"a": "\ud800"}, "le": "1", "labels": {}, "value": 1, "time": 1},
        {"series": {}, "le": "1", "labels": {"trace_id": 5}, "value": 1, "time": 1},
        {"series": {}, "le": "1", "labels": {}, "value": "much", "time": 1},
        {"series": [], "le": "1", "labels": {}, "value": 1, "time": 1},
        5,
    ],
)
def test_a_broken_exemplar_is_left_out(tmp_path: Path, entry: object) -> None:
    """It costs no other process its own."""
    good = {"series": {"a": "b"}, "le": "1", "labels": {"trace_id": "1"}, "value": 1, "time": 1}
    (tmp_path / "ragmonitor_exemplars_1_0.json").write_text(json.dumps([entry]))
    (tmp_path / "ragmonitor_exemplars_2_0.json").write_text(json.dumps([good]))
    (tmp_path / "ragmonitor_exemplars_3_0.json").write_text("[{")
    folder = SharedFolder(tmp_path)
    assert [e.labels for e in folder.read_exemplars().values()] == [{"trace_id": "1"}]


def test_torn_remains_under_our_own_id_are_deleted(tmp_path: Path) -> None:
    """In a container the id is always the same; the library would fail at its first series."""
    torn = tmp_path / f"counter_{os.getpid()}.db"
    torn.write_bytes(BROKEN["torn"])
    sound = write(tmp_path, DEAD, 3.0)
    SharedFolder(tmp_path)
    assert not torn.exists()
    assert sound.exists()
