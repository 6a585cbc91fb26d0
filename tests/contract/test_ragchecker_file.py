"""RAGChecker's file: read as it is, written with its eleven metrics, and read again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.kit_judges import DATA

GIVEN = DATA / "ragchecker" / "input.json"
WANTED = json.loads((DATA / "ragchecker" / "metrics.json").read_text(encoding="utf-8"))
GROUPS = {
    "overall_metrics": {"precision", "recall", "f1"},
    "retriever_metrics": {"claim_recall", "context_precision"},
    "generator_metrics": {
        "context_utilization",
        "noise_sensitivity_in_relevant",
        "noise_sensitivity_in_irrelevant",
        "hallucination",
        "self_knowledge",
        "faithfulness",
    },
}


def score(*arguments: Path | str) -> subprocess.CompletedProcess[str]:
    """Return what `ragmonitor score` did."""
    command = [sys.executable, "-m", "ragmonitor.cli.app", "score", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write RAGChecker's result file from its input file."""
    path = tmp_path_factory.mktemp("ragchecker") / "out.json"
    score(GIVEN, "-o", path, "-q")
    return path


def test_its_file_comes_back_with_its_metrics(written: Path) -> None:
    """Records stay as they were; each has shares, 0 to 1, and all have percent in three groups."""
    told: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
    given = json.loads(GIVEN.read_text(encoding="utf-8"))
    for result, record in zip(told["results"], given["results"], strict=True):
        assert record.items() <= result.items()
    assert {group: {*metrics} for group, metrics in told["metrics"].items()} == GROUPS
    assert {result["query_id"]: result["metrics"] for result in told["results"]} == {
        name: pytest.approx(metrics, abs=1e-4) for name, metrics in WANTED["records"].items()
    }
    assert told["metrics"] == {
        group: pytest.approx(metrics) for group, metrics in WANTED["percent"].items()
    }


def test_what_was_written_can_be_scored_again(written: Path) -> None:
    """A result file is an input file still."""
    lines = [json.loads(line) for line in score(written, "-q").stdout.splitlines()]
    assert [line["id"] for line in lines] == [*WANTED["records"]]


def test_ragas_columns_are_read_as_well(tmp_path: Path) -> None:
    """RAGAS' names since 0.2, its names before, and ours give the same scores."""
    chunk = "The Nile is 6650 km long."
    texts = "How long is the Nile?", [chunk], chunk, "The Nile is 6650 km long."
    columns = {
        "ours": ("question", "contexts", "answer", "reference"),
        "ragas": ("user_input", "retrieved_contexts", "response", "reference"),
        "before": ("question", "contexts", "answer", "ground_truth"),
    }
    told = []
    for name, names in columns.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps(dict(zip(names, texts, strict=True))) + "\n", encoding="utf-8")
        (line,) = score(path, "-q").stdout.splitlines()
        told.append(json.loads(line)["evaluations"])
    assert told[0] == told[1] == told[2]
    assert told[0]["context_recall"] == {"score": 1.0}
    assert told[0]["faithfulness"] == {"score": 1.0}
