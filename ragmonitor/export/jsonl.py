"""Reports as lines of JSON, appended to a file."""

from __future__ import annotations

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
from ragmonitor.records import Evaluation, Report, Scored, evaluator_name
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
    interaction, assessment, target = report.interaction, report.assessment, report.target
    context = context or ExportContext()
    shown = _policy(context)
    calls, usage = interaction.generations, interaction.usage
    sentences = () if assessment is None else assessment.sentences or ()
    known: dict[str, Any] = {
        "service": context.service,
        "service_version": context.service_version,
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
        "content": "" if context.content == "all" else context.content,
        "predicted": report.predicted,
        "trace_id": target and target.trace_id,
        "span_id": target and target.span_id,
    }
    texts: dict[str, Any] = {}
    if shown.shows:
        texts = {
            "question": shown.text(interaction.query),
            "contexts": [shown.text(chunk.text) for chunk in interaction.chunks],
            "answer": shown.text(interaction.answer),
        }
        known |= {
            "reference": shown.text(interaction.reference),
            "reference_contexts": [shown.text(c.text) for c in interaction.reference_chunks],
            "not_shown": [shown.text(chunk.text) for chunk in interaction.not_shown],
        }
    return {
        "time": iso_time(interaction.ended_ns),
        "id": interaction.id,
        "framework": interaction.framework,
        "status": interaction.status,
        "judge": str(report.judge),
        "chance": report.decision.inclusion_probability,
        "late": report.late,
        **{name: value for name, value in known.items() if value not in ("", None, [], {})},
        **texts,
        "evaluations": {
            evaluator_name(evaluation.evaluator): _outcome(evaluation, shown)
            for evaluation in report.evaluations
        },
        "diagnosis": None if report.diagnosis is None else report.diagnosis.value,
        "risk": None if assessment is None else assessment.risk,
        "sentences": [shown.sentence(sentence) for sentence in sentences],
    }


def _policy(context: ExportContext) -> ContentPolicy:
    return ContentPolicy(content=context.content, key=context.hash_key or PROCESS_KEY)


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
        self.path = Path(path).absolute()  # the application may go to another folder
        self.arguments = {"path": str(self.path)}
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
        shown = _policy(context)
        told = {"kind": feedback.kind, "score": feedback.score, "label": feedback.label}
        if feedback.comment and shown.shows:
            told["comment"] = shown.text(feedback.comment)
        line = {"time": iso_time(int(feedback.at_s * 1e9)), "id": feedback.interaction_id}
        service = {"service": context.service} if context.service else {}
        self._append(line | service | {"feedback": told})

    def _append(self, line: dict[str, Any]) -> None:
        try:
            self._write(encoded(line))
        except OSError as error:
            if self._context.lost is not None:
                self._context.lost("jsonl_failed", 1)
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
