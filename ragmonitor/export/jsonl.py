"""Reports as lines of JSON, appended to a file."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragmonitor.export.texts import Content, compact_json, sentence_entry
from ragmonitor.records import Evaluation, Report, Scored, evaluator_name


def report_line(report: Report, *, content: Content = "all", service: str = "") -> dict[str, Any]:
    """Return a report as an object for JSON, one per interaction and judge.

    Args:
        report: What is known.
        content: `none`: no question, chunk or answer, and no words of them.
        service: Named in the line if not empty.
    """
    interaction, assessment = report.interaction, report.assessment
    line: dict[str, Any] = {
        "time": _iso(interaction.ended_ns),
        "id": interaction.id,
        "framework": interaction.framework,
        "status": interaction.status,
        "judge": str(report.judge),
        "chance": report.chance.probability,
        "late": report.late,
    }
    if service:
        line["service"] = service
    if content == "all":
        line |= {
            "question": interaction.query,
            "contexts": [chunk.text for chunk in interaction.chunks],
            "answer": interaction.answer,
        }
    line["evaluations"] = {
        evaluator_name(evaluation.evaluator): _outcome(evaluation, content)
        for evaluation in report.evaluations
    }
    line["risk"] = None if assessment is None else assessment.risk
    sentences = () if assessment is None else assessment.sentences or ()
    line["sentences"] = [sentence_entry(sentence, content) for sentence in sentences]
    if report.target is not None:
        line |= {"trace_id": report.target.trace_id, "span_id": report.target.span_id}
    return line


def _outcome(evaluation: Evaluation, content: Content) -> dict[str, Any]:
    if isinstance(evaluation, Scored):
        return {"score": evaluation.score}
    outcome = {"unscored": evaluation.cause.value}
    if evaluation.detail and content == "all":
        outcome["detail"] = evaluation.detail
    return outcome


def _iso(time_ns: int) -> str:
    moment = datetime.fromtimestamp(time_ns / 1e9, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encoded(line: dict[str, Any]) -> bytes:
    """Return the line's bytes, Chinese as it is, with its line feed."""
    text = compact_json(line)
    # What UTF-8 cannot hold, a lone surrogate, is written as JSON's own escape for it.
    return text.encode("utf-8", "backslashreplace") + b"\n"


class JsonLinesExporter:
    """Appends every report to a file, each with one write; several processes may share the file.

    The file is opened at the first report, and again after it was moved away or a write failed.
    """

    def __init__(self, path: Path | str, *, content: Content = "all", service: str = "") -> None:
        self._path = Path(path)
        self._content: Content = content
        self._service = service
        self._file: int | None = None
        self._opened: tuple[int, int] | None = None
        self._torn = False
        """The last line was cut short by a full disk; the next must not be glued to it."""

    def export(self, report: Report) -> None:
        """Append one line.

        Raises:
            OSError: The disk is full, the folder is gone, ... The next report is tried afresh.
        """
        data = encoded(report_line(report, content=self._content, service=self._service))
        if self._torn:
            data = b"\n" + data
        file = self._open()
        try:
            written = os.write(file, data)
        except OSError:
            self.close()
            raise
        self._torn = 0 < written < len(data)
        if written < len(data):
            self.close()
            raise OSError(f"{self._path}: only {written} of {len(data)} bytes were written")

    def flush(self, timeout_s: float) -> bool:  # noqa: ARG002 - of the protocol
        """Have nothing buffered."""
        return True

    def close(self) -> None:
        """Close the file."""
        file, self._file, self._opened = self._file, None, None
        if file is not None:
            os.close(file)

    def _open(self) -> int:
        if self._file is not None and self._opened == self._identity():
            return self._file
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        self._opened = self._identity()
        return self._file

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino
