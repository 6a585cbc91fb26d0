"""Writes the files of `ragmonitor score`, and reads them back for `ragmonitor compare`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from ragmonitor.cli.options import OutputFormat
from ragmonitor.evaluators import Table
from ragmonitor.export.jsonl import encoded
from ragmonitor.offline.scoring import Outcome
from ragmonitor.offline.summary import Tally
from ragmonitor.records import Cause, Report
from ragmonitor.runtime.errors import InputError, SettingsError, file_errors
from ragmonitor.runtime.tables import MAX_CELL_BYTES, guarded, owners_alone

RAGCHECKER: Final = "ragchecker_"
"""Before RAGChecker's own name of a score."""
GROUPS: Final = {
    "overall_metrics": ("precision", "recall", "f1"),
    "retriever_metrics": ("claim_recall", "context_precision"),
    "generator_metrics": (
        "context_utilization",
        "noise_sensitivity_in_relevant",
        "noise_sensitivity_in_irrelevant",
        "hallucination",
        "self_knowledge",
        "faithfulness",
    ),
}
"""RAGChecker's, in its order."""
CSV_BEGINS: Final = b"id,line,error,"
LOOKED_AT_LINES: Final = 50
_OF_RAGCHECKER: Final = ("judge", "scoring_version", "evaluations", "diagnosis")


def opened(path: Path) -> BinaryIO:
    """Open a file that is written anew; one that is made is its owner's alone: it holds texts."""
    return open(path, "wb", opener=owners_alone)


def refuse_input(path: Path, file: str) -> None:
    """See that an output is not the file that is read.

    Raises:
        InputError: It is.
    """
    if file != "-" and path.exists() and path.samefile(file):
        raise InputError(f"{path} is the input; name another file with -o")


class ScoreFile:
    """Writes outcomes in order, as JSON lines."""

    def __init__(self, file: BinaryIO, scoring_version: str) -> None:
        self._file = file
        self._scoring_version = scoring_version

    def write(self, outcome: Outcome) -> None:
        """Write one line's outcome."""
        self._file.write(encoded(outcome.as_dict(self._scoring_version)))

    def finish(self, tally: Tally) -> None:
        """Write the end of the file, which JSON lines and CSV do not have."""


def check_fits(form: OutputFormat, entries: Table) -> None:
    """See that a format can hold something of what will be scored.

    Raises:
        SettingsError: It is RAGChecker's, and none of its scores is among the evaluators.
    """
    if form == "ragchecker" and not any(e.name.startswith(RAGCHECKER) for e in entries):
        raise SettingsError(
            f"RAGChecker's format holds its own scores alone; add --evaluators '{RAGCHECKER}*'"
        )


def output_for(
    form: OutputFormat, file: BinaryIO, entries: Table, scoring_version: str
) -> ScoreFile:
    """Return what writes this format to an open file."""
    if form == "csv":
        return CsvFile(file, entries, scoring_version)
    if form == "ragchecker":
        return RagCheckerFile(file, scoring_version)
    return ScoreFile(file, scoring_version)


class CsvFile(ScoreFile):
    """A row for each line: what scored, and why the rest did not."""

    def __init__(self, file: BinaryIO, entries: Table, scoring_version: str) -> None:
        super().__init__(file, scoring_version)
        names = [entry.name for entry in entries]
        self._columns = (
            "id",
            "line",
            "error",
            *names,
            *(f"{name}_unscored" for name in names),
            "diagnosis",
            "risk",
            "unsupported",
            "judge",
            "scoring_version",
        )
        self.copy({name: name for name in self._columns})

    def write(self, outcome: Outcome) -> None:
        """Write one row."""
        row = outcome.as_row(self._scoring_version) | {"line": outcome.line.number}
        row["unsupported"] = "\n".join(row.get("unsupported", ()))
        cells = ((name, row.get(name)) for name in self._columns)
        self.copy({name: guarded(c) if isinstance(c, str) else c for name, c in cells})

    def copy(self, record: Mapping[str, Any]) -> None:
        """Write a row as it is."""
        text = io.StringIO()
        # The module quotes only what has a sign of its line's end, and reads either sign as one.
        csv.DictWriter(text, self._columns, lineterminator="\r\n").writerow(record)
        row = text.getvalue().removesuffix("\r\n")
        self._file.write(row.encode("utf-8", "surrogateescape") + b"\n")


class RagCheckerFile(ScoreFile):
    """The file that RAGChecker's own command writes, one record a line.

    Shares of records are from 0 to 1, those of the whole in percent, as there. Where there is no
    score it is left out, of the record and of the mean; RAGChecker counts 0.
    """

    def __init__(self, file: BinaryIO, scoring_version: str) -> None:
        super().__init__(file, scoring_version)
        self._is_first = True
        self._file.write(b'{"results": [\n')

    def write(self, outcome: Outcome) -> None:
        """Write one record; a line that could not be read has no place in this format."""
        if outcome.report is None:
            return
        record = outcome.as_dict(self._scoring_version)
        scores = {
            name.removeprefix(RAGCHECKER): evaluation["score"]
            for name, evaluation in record["evaluations"].items()
            if name.startswith(RAGCHECKER) and "score" in evaluation
        }
        self.copy(_ragchecker_record(outcome.report, scores, record))

    def copy(self, record: Mapping[str, Any]) -> None:
        """Write a record behind the one before."""
        raw = encoded(dict(record)).rstrip(b"\n")
        self._file.write(raw if self._is_first else b",\n" + raw)
        self._is_first = False

    def finish(self, tally: Tally) -> None:
        """Write the means over all records and close the document."""
        metrics = json.dumps(ragchecker_metrics(tally))
        self._file.write(b'\n], "metrics": ' + metrics.encode() + b"}\n")


def ragchecker_metrics(tally: Tally) -> dict[str, dict[str, float]]:
    """Return the means as RAGChecker groups them, in percent, to one decimal place."""
    means = {
        row.evaluator.removeprefix(RAGCHECKER): round(100 * row.estimate.mean, 1)
        for row in tally.rows
        if row.evaluator.startswith(RAGCHECKER) and row.estimate is not None
    }
    return {
        group: {name: means[name] for name in names if name in means}
        for group, names in GROUPS.items()
    }


def _ragchecker_record(
    report: Report, scores: Mapping[str, float], record: Mapping[str, Any]
) -> dict[str, Any]:
    interaction = report.interaction
    return {
        "query_id": interaction.id,
        "query": interaction.query,
        "gt_answer": interaction.reference,
        "response": interaction.answer,
        "retrieved_context": [
            {"doc_id": chunk.id or None, "text": chunk.text} for chunk in interaction.chunks
        ],
        "metrics": dict(scores),
        # Read by `ragmonitor compare` alone.
        "ragmonitor": {name: record[name] for name in _OF_RAGCHECKER},
    }


# --- reading back -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One record that an earlier run wrote."""

    id: str
    judge: str
    scoring_version: str
    scores: Mapping[str, float | Cause]
    """The score of each evaluator, or why there is none."""


def written_form(path: Path) -> OutputFormat | None:
    """Return in which format a file holds scores of ours, by its first lines; None: it holds none.

    Raises:
        InputError: It cannot be read.
    """
    with file_errors(path), path.open("rb") as file:
        head = [line.rstrip(b"\n") for line in islice(file, LOOKED_AT_LINES)]
    if head and head[0].startswith(CSV_BEGINS):
        return "csv"
    if any(_of_line(line) is not None for line in head):
        return "jsonl"
    return "ragchecker" if any(_of_ragchecker(line) is not None for line in head) else None


def read_back(path: Path, form: OutputFormat) -> Generator[Written]:
    """Yield the records of an output; what is torn, or of a line that was bad, is left out.

    Raises:
        InputError: The file cannot be read.
    """
    with file_errors(path):
        if form == "csv":
            yield from _rows_written(path)
            return
        read = _of_line if form == "jsonl" else _of_ragchecker
        with path.open("rb") as file:
            for raw in file:
                written = read(raw.rstrip(b"\n"))
                if written is not None:
                    yield written


def _of_line(raw: bytes) -> Written | None:
    record = _object(raw)
    return _written(record)


def _of_ragchecker(raw: bytes) -> Written | None:
    record = _object(raw.removesuffix(b","))
    ours = record.get("ragmonitor")
    if not isinstance(ours, dict):
        return None
    return _written({"id": record.get("query_id")} | ours)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _written(record: Mapping[str, Any]) -> Written | None:
    identity, evaluations = record.get("id"), record.get("evaluations")
    if not isinstance(identity, str) or not isinstance(evaluations, dict):
        return None
    scores: dict[str, float | Cause] = {}
    for name, evaluation in evaluations.items():
        score = evaluation.get("score") if isinstance(evaluation, dict) else None
        if isinstance(score, int | float) and not isinstance(score, bool):
            scores[name] = float(score)
            continue
        cause = evaluation.get("unscored") if isinstance(evaluation, dict) else None
        if cause not in _CAUSES:
            return None
        scores[name] = Cause(cause)
    return Written(
        id=identity,
        judge=str(record.get("judge", "")),
        scoring_version=str(record.get("scoring_version", "")),
        scores=scores,
    )


def _rows_written(path: Path) -> Iterator[Written]:
    # The default, 128 kB, is less than the sentences of a long answer. It is the process's own.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_BYTES))
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as text:
        try:
            for row in csv.DictReader(line for line in text if line.endswith(("\n", "\r"))):
                if None in row or None in row.values():
                    continue  # torn: every row of ours has all its cells
                written = None if row["error"] else _of_row(row)
                if written is not None:
                    yield written
        except (csv.Error, KeyError) as error:
            raise InputError(f"{path}: no output of `ragmonitor score`: {error}") from error


def _of_row(row: Mapping[str, str]) -> Written | None:
    evaluations = {
        name: {"score": _number(row[name]), "unscored": row[f"{name}_unscored"]}
        for name in row
        if f"{name}_unscored" in row
        # Neither: an evaluator that passed over this record.
        and (row[name] or row[f"{name}_unscored"])
    }
    record = {name: row[name] for name in ("id", "judge", "scoring_version")}
    return _written(record | {"evaluations": evaluations})


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_CAUSES: Final = frozenset(cause.value for cause in Cause)
