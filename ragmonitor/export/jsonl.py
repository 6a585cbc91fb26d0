"""Reports as lines of JSON, appended to a file."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

from ragmonitor.export.content import (
    PROCESS_KEY,
    ContentPolicy,
    compact_json,
    finite_score,
    iso_time,
)
from ragmonitor.records import (
    Evaluation,
    Interaction,
    Report,
    Scored,
    evaluator_name,
)
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.guard import reason, record_problem
from ragmonitor.runtime.protocols import ExportContext, Exporter

FILE_MODE = 0o600
FOLDER_MODE = 0o700
"""The mode of folders that we make: the lines hold the application's texts. Others keep theirs."""


_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
"""A pipe in the file's place would keep all scoring waiting for its reader."""


def report_line(report: Report, context: ExportContext | None = None) -> dict[str, Any]:
    """Return a report as an object for JSON, one per interaction and judge.

    Args:
        report: What is known.
        context: The service, named in the line if it has a name, and the texts that may leave:
            `hashed` texts are keyed hashes, and the line says so. None: all may.
    """
    interaction, assessment = report.interaction, report.assessment
    context = context or ExportContext()
    shown = ContentPolicy(content=context.content, key=context.hash_key or PROCESS_KEY)
    line: dict[str, Any] = {
        "time": iso_time(interaction.ended_ns),
        "id": interaction.id,
        "framework": interaction.framework,
        "status": interaction.status,
        "judge": str(report.judge),
        "chance": report.decision.inclusion_probability,
        "late": report.late,
    }
    if context.service:
        line["service"] = context.service
    if context.service_version:
        line["service_version"] = context.service_version
    line |= _context(interaction, shown)
    if context.content != "all":
        line["content"] = context.content
    if shown.shows:
        line |= {
            "question": shown.text(interaction.query),
            "contexts": [shown.text(chunk.text) for chunk in interaction.chunks],
            "answer": shown.text(interaction.answer),
        }
        if interaction.reference:
            line["reference"] = shown.text(interaction.reference)
        if interaction.reference_chunks:
            line["reference_contexts"] = [shown.text(c.text) for c in interaction.reference_chunks]
        if interaction.not_shown:
            line["not_shown"] = [shown.text(chunk.text) for chunk in interaction.not_shown]
    line["evaluations"] = {
        evaluator_name(evaluation.evaluator): _outcome(evaluation, shown)
        for evaluation in report.evaluations
    }
    line["diagnosis"] = None if report.diagnosis is None else report.diagnosis.value
    line["risk"] = None if assessment is None else assessment.risk
    if report.predicted is not None:
        line["predicted"] = report.predicted
    sentences = () if assessment is None else assessment.sentences or ()
    line["sentences"] = [shown.sentence(sentence) for sentence in sentences]
    if report.target is not None:
        line |= {"trace_id": report.target.trace_id, "span_id": report.target.span_id}
    return line


def _context(interaction: Interaction, shown: ContentPolicy) -> dict[str, Any]:
    """Return what one asks of an incident: whose answer it was, how it came about, what failed."""
    calls, usage = interaction.generations, interaction.usage
    context: dict[str, Any] = {
        "name": interaction.name,
        "session_id": interaction.session_id,
        "tags": list(interaction.tags),
        "attributes": {name: str(value) for name, value in interaction.attributes.items()},
        "error": shown.error(interaction.error),
        "latency_s": round(interaction.latency_s, 3),
        "model": next((call.model for call in reversed(calls) if call.model), ""),
        "finish_reason": calls[-1].finish_reason if calls else "",
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "chunks": [
            {"id": each.id, "source": shown.text(each.source), "score": finite_score(each)}
            for each in interaction.chunks
        ],
    }
    return {name: value for name, value in context.items() if value not in ("", None, [], {})}


def _outcome(evaluation: Evaluation, shown: ContentPolicy) -> dict[str, Any]:
    if isinstance(evaluation, Scored):
        return {"score": evaluation.score}
    outcome = {"unscored": evaluation.cause.value}
    if evaluation.detail and shown.shows:
        outcome["detail"] = shown.text(evaluation.detail)
    return outcome


def is_feedback(line: object) -> bool:
    """Return whether a line of such a file says what a person said, and is no report."""
    return isinstance(line, dict) and "feedback" in line and "evaluations" not in line


def encoded(line: dict[str, Any]) -> bytes:
    """Return the line's bytes, Chinese as it is, with its line feed."""
    text = compact_json(line)
    # What UTF-8 cannot hold, a lone surrogate, is written as JSON's own escape for it.
    return text.encode("utf-8", "backslashreplace") + b"\n"


class JsonLines(Exporter):
    """Appends every report to a file, each with one write; several processes may share the file.

    The file is made for its owner alone, as is its folder where that is missing.
    """

    def __init__(self, path: Path | str) -> None:
        """Open nothing yet.

        Args:
            path: A leading `~` is the home folder; what is relative is so to the current folder,
                wherever the application goes later.
        """
        path = os.path.expanduser(path)  # noqa: PTH111 - a user's who is unknown stays
        with contextlib.suppress(OSError):  # the current folder has been removed
            path = os.path.abspath(path)  # noqa: PTH100 - as above
        self.path = Path(path).absolute()  # the application may go to another folder
        self.arguments = {"path": path}
        """With these a worker makes another like it."""
        self._context = ExportContext()
        self._torn = False
        """The last line was cut short by a full disk; the next must not be glued to it."""

    def configure(self, context: ExportContext) -> None:
        """Heed the monitor's settings."""
        self._context = context

    def export(self, report: Report) -> None:
        """Append one line; one that cannot be written is counted, and the next is tried afresh."""
        self._append(report_line(report, self._context))

    def feedback(self, joined: JoinedFeedback) -> None:
        """Append what a person said, under the answer's id."""
        context, feedback = self._context, joined.feedback
        shown = ContentPolicy(content=context.content, key=context.hash_key or PROCESS_KEY)
        shown_feedback = {"kind": feedback.kind, "score": feedback.score, "label": feedback.label}
        if feedback.comment and shown.shows:
            shown_feedback["comment"] = shown.text(feedback.comment)
        line: dict[str, Any] = {
            "time": iso_time(int(feedback.at_s * 1e9)),
            "id": feedback.interaction_id,
        }
        if context.service:
            line["service"] = context.service
        self._append(line | {"feedback": shown_feedback})

    def _append(self, line: dict[str, Any]) -> None:
        context = self._context
        try:
            self._write(encoded(line))
        except OSError as error:
            if context.lost is not None:
                context.lost("jsonl_failed", 1)
            record_problem(
                "export",
                f"jsonl {self.path} cannot be written ({reason(error)}): reports are lost until "
                "it can, counted as jsonl_failed; give this process's user write access, or free "
                "space on the disk",
            )

    def _write(self, data: bytes) -> None:
        self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _AT_ONCE
        file = os.open(self.path, flags, FILE_MODE)  # anew: it may have been moved away
        try:
            data = b"\n" + data if self._torn else data
            written = os.write(file, data)
        finally:
            os.close(file)
        self._torn = 0 < written < len(data)
        if written < len(data):
            raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes were written")
