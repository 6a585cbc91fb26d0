"""Writes the files of `ragmonitor score`, and reads them back for `ragmonitor compare`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from ragmonitor.cli.options import OutputFormat
from ragmonitor.evaluators import Table as Entries
from ragmonitor.export.jsonl import encoded
from ragmonitor.offline.scoring import Outcome, Scorer
from ragmonitor.offline.summary import EvaluatorSummary
from ragmonitor.records import Cause
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.tables import CsvWriter, Table

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
LOOKED_AT_ROWS: Final = 50
_OF_RAGCHECKER: Final = ("judge", "scoring_version", "evaluations", "diagnosis")
_CAUSES: Final = frozenset(cause.value for cause in Cause)


class ScoreFile:
    """Writes outcomes in order, as JSON lines."""

    def __init__(self, file: BinaryIO, scorer: Scorer) -> None:
        self._file = file
        self._scoring_version = scorer.scoring_version

    def write(self, outcome: Outcome) -> None:
        """Write one line's outcome."""
        self._file.write(encoded(outcome.as_dict(self._scoring_version)))

    def finish(self, rows: Iterable[EvaluatorSummary]) -> None:
        """Write the end of the file, which JSON lines and CSV do not have."""


def check_fits(form: OutputFormat, entries: Entries) -> None:
    """See that a format can hold something of what will be scored.

    Raises:
        SettingsError: It is RAGChecker's, and none of its scores is among the evaluators.
    """
    if form == "ragchecker" and not any(e.name.startswith(RAGCHECKER) for e in entries):
        raise SettingsError(
            f"RAGChecker's format holds its own scores alone; add --evaluators '{RAGCHECKER}*'"
        )


class CsvFile(ScoreFile):
    """A row for each line: what scored, and why the rest did not."""

    def __init__(self, file: BinaryIO, scorer: Scorer) -> None:
        super().__init__(file, scorer)
        names = [entry.name for entry in scorer.entries]
        columns = ["id", "line", "error", *names, *(f"{name}_unscored" for name in names)]
        columns += ["diagnosis", "risk", "unsupported", "judge", "scoring_version"]
        self._table = CsvWriter(file, columns)

    def write(self, outcome: Outcome) -> None:
        """Write one row."""
        row = outcome.as_row(self._scoring_version) | {"line": outcome.line.number}
        self._table.write(row | {"unsupported": "\n".join(row.get("unsupported", ()))})


class RagCheckerFile(ScoreFile):
    """The file that RAGChecker's own command writes, one record a line.

    Shares of records are from 0 to 1, those of the whole in percent, as there. Where there is no
    score it is left out, of the record and of the mean; RAGChecker counts 0.
    """

    def __init__(self, file: BinaryIO, scorer: Scorer) -> None:
        super().__init__(file, scorer)
        self._before = b'{"results": [\n'

    def write(self, outcome: Outcome) -> None:
        """Write one record; a line that could not be read has no place in this format."""
        if outcome.report is None:
            return
        interaction = outcome.report.interaction
        scored = outcome.as_dict(self._scoring_version)
        record = {
            "query_id": interaction.id,
            "query": interaction.query,
            "gt_answer": interaction.reference,
            "response": interaction.answer,
            "retrieved_context": [
                {"doc_id": chunk.id or None, "text": chunk.text} for chunk in interaction.chunks
            ],
            "metrics": {
                name.removeprefix(RAGCHECKER): evaluation["score"]
                for name, evaluation in scored["evaluations"].items()
                if name.startswith(RAGCHECKER) and "score" in evaluation
            },
            # Read by `ragmonitor compare` alone.
            "ragmonitor": {name: scored[name] for name in _OF_RAGCHECKER},
        }
        self._file.write(self._before + encoded(record).rstrip(b"\n"))
        self._before = b",\n"

    def finish(self, rows: Iterable[EvaluatorSummary]) -> None:
        """Write the means over all records, as RAGChecker groups them, and close the document."""
        start = b"" if self._before == b",\n" else self._before
        means = {
            row.evaluator.removeprefix(RAGCHECKER): round(100 * row.estimate.mean, 1)
            for row in rows
            if row.evaluator.startswith(RAGCHECKER) and row.estimate is not None
        }
        groups = {
            group: {name: means[name] for name in names if name in means}
            for group, names in GROUPS.items()
        }
        self._file.write(start + b'\n], "metrics": ' + json.dumps(groups).encode() + b"}\n")


FILES: Final[Mapping[str, type[ScoreFile]]] = {
    "jsonl": ScoreFile,
    "csv": CsvFile,
    "ragchecker": RagCheckerFile,
}
"""What writes each format."""


# --- reading back -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One record that an earlier run wrote."""

    id: str
    judge: str
    scoring_version: str
    scores: Mapping[str, float | Cause]
    """The score of each evaluator, or why there is none."""


def read_back(path: Path) -> Iterator[Written] | None:
    """Return the records of an output, without those of bad lines; None: it holds no scores.

    Raises:
        InputError: The file cannot be read; also once the records are gone through.
    """
    rows = (_written(row.value) for row in Table(path))
    head = [*islice(rows, LOOKED_AT_ROWS)]
    if not any(head):
        return None
    return (each for each in chain(head, rows) if each is not None)


def _written(record: Any) -> Written | None:
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("ragmonitor"), dict):
        record = {"id": record.get("query_id")} | record["ragmonitor"]
    evaluations = record.get("evaluations") or _of_cells(record)
    identity = record.get("id")
    if not isinstance(identity, str) or not isinstance(evaluations, dict):
        return None
    scores: dict[str, float | Cause] = {}
    for name, evaluation in evaluations.items():
        outcome = evaluation if isinstance(evaluation, dict) else {}
        score, cause = outcome.get("score"), outcome.get("unscored")
        if isinstance(score, int | float) and not isinstance(score, bool):
            scores[name] = float(score)
        elif cause in _CAUSES:
            scores[name] = Cause(cause)
        else:
            return None
    return Written(
        id=identity,
        judge=str(record.get("judge", "")),
        scoring_version=str(record.get("scoring_version", "")),
        scores=scores,
    )


def _of_cells(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the evaluations in a row of a CSV; None: it has none."""
    evaluations: dict[str, Any] = {}
    for name, cell in row.items():
        cause = row.get(f"{name}_unscored")
        if cause:
            evaluations[name] = {"unscored": cause}
        elif cause is not None and cell:  # neither: an evaluator that passed over this record
            try:
                evaluations[name] = {"score": float(cell)}
            except ValueError:
                return None
    return evaluations or None
