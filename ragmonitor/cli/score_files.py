"""Writes the files of `ragmonitor score`: JSON lines, CSV, and RAGChecker's result file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

from ragmonitor.export.jsonl import encoded
from ragmonitor.offline.scoring import Outcome, Scorer
from ragmonitor.offline.summary import EvaluatorSummary
from ragmonitor.runtime.tables import CsvWriter

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
        evaluations = outcome.as_dict()["evaluations"]
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
                for name, evaluation in evaluations.items()
                if name.startswith(RAGCHECKER) and "score" in evaluation
            },
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


def file_class(output: Path | None) -> type[ScoreFile]:
    """Return what writes an output, by its suffix."""
    by_suffix = {".csv": CsvFile, ".json": RagCheckerFile}
    return ScoreFile if output is None else by_suffix.get(output.suffix.lower(), ScoreFile)
