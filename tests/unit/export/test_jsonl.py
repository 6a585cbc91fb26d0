"""Reports as lines of a file."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragmonitor.export import JsonLines
from ragmonitor.records import Report
from ragmonitor.runtime.protocols import ExportContext
from tests.unit.export.examples import (
    CHUNKS,
    QUERY,
    assessment,
    interaction,
    late_report,
    report,
)


def configured(path, **context):
    """Return an exporter of a monitor with these settings."""
    exporter = JsonLines(path)
    exporter.configure(ExportContext(**context))
    return exporter


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_hashed_texts_are_equal_where_the_texts_were(tmp_path: Path) -> None:
    """A question has one hash in every line, in every process that has the key, and none reads."""
    path = tmp_path / "r.jsonl"
    cut = interaction(not_shown=CHUNKS[:1])
    for exported in (report(interaction=cut), late_report(interaction=cut)):
        configured(path, content="hashed", hash_key=b"k" * 16).export(exported)
    text = path.read_text(encoding="utf-8")
    assert [t for t in (QUERY, "退货", "99元", "Shipping", "坏的回复") if t in text] == []
    first, second = lines(path)
    assert first["question"] == second["question"]
    assert first["contexts"][0] == first["not_shown"][0]  # type: ignore[index]
    assert str(first["question"]).endswith(f":{len(QUERY)}")
    assert first["content"] == "hashed"


def test_half_a_character_is_written_as_an_escape(tmp_path: Path) -> None:
    """A lone surrogate, which UTF-8 lacks, comes back when the line is read."""
    path = tmp_path / "r.jsonl"
    JsonLines(path).export(report(interaction=interaction(answer="好\ud83d")))
    assert lines(path)[0]["answer"] == "好\ud83d"


def test_several_writers_share_a_file(tmp_path: Path) -> None:
    """Each line is one append, so that none is cut in two by another."""
    path = tmp_path / "r.jsonl"
    long = report(interaction=interaction(answer="很长" * 5_000))

    def write(_: int) -> None:
        exporter = JsonLines(path)
        for _ in range(25):
            exporter.export(long)
        exporter.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(lines(path)) == 100


def test_a_rotated_file_is_opened_anew(tmp_path: Path) -> None:
    """After the file was moved away, lines go to a new one under the old name."""
    path = tmp_path / "r.jsonl"
    exporter = JsonLines(path)
    exporter.export(report())
    path.rename(tmp_path / "r.jsonl.1")
    exporter.export(report())
    exporter.close()
    assert len(lines(path)) == len(lines(tmp_path / "r.jsonl.1")) == 1


def test_a_disk_that_recovers_loses_no_later_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The failed report is counted; the next is written, not glued to the torn one."""
    path = tmp_path / "r.jsonl"
    lost: list[tuple[str, int]] = []
    exporter = configured(path, lost=lambda *told: lost.append(told))
    exporter.export(report())
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:20]))
    exporter.export(report())
    assert lost == [("jsonl_failed", 1)]
    assert "only 20 of" in caplog.text
    monkeypatch.setattr(os, "write", write)
    exporter.export(report())
    exporter.close()
    whole = [line for line in path.read_bytes().splitlines() if line.endswith(b"}")]
    assert [json.loads(line)["id"] for line in whole] == ["i-1", "i-1"]


def test_a_file_that_cannot_be_written_is_one_clear_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is lost and what to do, once, without a traceback; written again as soon as it can."""
    blocker = tmp_path / "blocked"
    blocker.write_text("")
    lost: list[tuple[str, int]] = []
    exporter = configured(blocker / "r.jsonl", lost=lambda *told: lost.append(told))
    made: Report = report()
    for _ in range(2):
        exporter.export(made)
    assert lost == [("jsonl_failed", 1)] * 2
    (record,) = caplog.records
    told = record.getMessage()
    assert "blocked/r.jsonl cannot be written" in told
    assert "reports are lost until it can" in told
    assert (record.exc_info, "\n" in told) == (None, False)
    blocker.unlink()
    exporter.export(made)
    exporter.close()
    assert len(lines(blocker / "r.jsonl")) == 1


def test_a_score_that_is_no_number_is_null(tmp_path: Path) -> None:
    """JSON has no NaN, and a reader must not stumble over one."""
    path = tmp_path / "r.jsonl"
    JsonLines(path).export(report(assessment=assessment(risk=float("nan"))))
    assert lines(path)[0]["risk"] is None
    assert "NaN" not in path.read_text(encoding="utf-8")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_without_a_reader_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Opening it would wait for one, and all scoring with it; the report is counted as lost."""
    os.mkfifo(tmp_path / "r.jsonl")
    lost: list[tuple[str, int]] = []
    configured(tmp_path / "r.jsonl", lost=lambda *told: lost.append(told)).export(report())
    assert lost == [("jsonl_failed", 1)]
