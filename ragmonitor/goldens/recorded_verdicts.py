"""Verdicts of a judge in a file, so that tests need neither its key nor its money."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ragmonitor.errors import InputError, file_errors
from ragmonitor.records import Assessment


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    """Of the judge with its prompts, and of what it read."""
    question: str
    """For people who read a change of the file."""
    assessment: Assessment


class RecordedVerdicts:
    """Assessments by a key of what was read; one JSON object a line.

    A line is appended with one write, so that parallel tests may record into one file.
    """

    def __init__(self, path: Path) -> None:
        """Read what there is.

        Raises:
            InputError: The file cannot be read, or a line of it is none of ours.
        """
        self.path = path
        self._known: dict[str, Assessment] = {}
        with file_errors(path):
            lines = path.read_bytes().splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    kept = msgspec.json.decode(line, type=_Line)
                except msgspec.MsgspecError as error:
                    raise InputError(f"{path}, line {number}: {error}; record it anew") from error
                self._known[kept.key] = kept.assessment

    def get(self, key: str) -> Assessment | None:
        """Return the recorded assessment; None: there is none."""
        return self._known.get(key)

    def keep(self, key: str, question: str, assessment: Assessment) -> None:
        """Append an assessment. Raises `OSError`."""
        self._known[key] = assessment
        line = _Line(key=key, question=question, assessment=assessment)
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, msgspec.json.encode(line) + b"\n")
        finally:
            os.close(file)
