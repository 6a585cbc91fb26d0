"""The programs of docs/offline.md, run as they stand there: `make batch-recipes`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")
parquet = pytest.importorskip("pyarrow.parquet")

PAGE = Path(__file__).resolve().parents[2] / "docs/offline.md"
EVALUATORS = ("faithfulness", "answer_relevancy")
ROWS = 300
NEEDS = {"arrow": "pyarrow", "spark": "pyspark", "ray": "ray"}


def answers():
    """Return true, invented and unreadable answers in two languages."""
    kinds = [
        {
            "question": "How tall is the tower?",
            "contexts": ["The tower is 330 metres tall.", "It was opened in 1889."],
            "answer": "It is 330 metres tall. Napoleon paid 12 million dollars for it.",
        },
        {
            "question": "退货期限是多久?",
            "contexts": ["退货期限为30天。"],
            "answer": "退货期限为60天。",
        },
        {"question": "Where?", "contexts": [], "answer": "In Paris."},
        {"question": "Who?", "contexts": ["Anna."], "answer": None},
    ]
    return [{"id": f"r{n}", **kinds[n % len(kinds)]} for n in range(ROWS)]


def run(program, folder, arguments=()):
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    }
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def commands_own(folder):
    """Return what `ragmonitor score` says of the same rows, by id."""
    done = run(
        ("-m", "ragmonitor.cli.app", "score"),
        folder,
        ("answers.parquet", "-o", "own.jsonl", "--evaluators", ",".join(EVALUATORS), "-q"),
    )
    assert done.returncode == 1, done.stderr  # some rows cannot be read
    lines = [json.loads(line) for line in (folder / "own.jsonl").read_text().splitlines()]
    return {f"r{n}": line for n, line in enumerate(lines)}


@pytest.mark.parametrize("name", NEEDS)
def test_the_program_on_the_page_scores_as_the_command_does(name, tmp_path):
    """Every row, score, cause, sentence at fault and error; columns that were there stay."""
    if find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed: make batch-recipes")
    parquet.write_table(pa.Table.from_pylist(answers()), tmp_path / "answers.parquet")
    page = PAGE.read_text(encoding="utf-8")
    (program,) = re.findall(rf"<!-- recipe: {name} -->\n```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "recipe.py").write_text(program, encoding="utf-8")
    done = run(("recipe.py",), tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]

    files = tmp_path / "scored.parquet"
    table = dataset.dataset(
        files, format="parquet", exclude_invalid_files=files.is_dir()
    ).to_table()
    rows = {row["id"]: row for row in table.to_pylist()}
    own = commands_own(tmp_path)
    assert len(table) == len(rows) == len(own) == ROWS
    for given in answers():
        row, line = rows[given["id"]], own[given["id"]]
        assert {name: row[name] for name in given} == given
        assert row["error"] == line.get("error")
        for evaluator in EVALUATORS:
            evaluation = line.get("evaluations", {}).get(evaluator, {})
            assert row[evaluator] == evaluation.get("score")
            assert row[f"{evaluator}_unscored"] == evaluation.get("unscored")
        assert row["risk"] == line.get("risk")
        assert row["diagnosis"] == line.get("diagnosis")
        at_fault = [
            each["text"]
            for each in line.get("sentences", ())
            if each["verdict"] in ("absent", "contradicted")
        ]
        assert row["unsupported"] == (None if "error" in line else at_fault)
    print(f"{name}: {len(rows)} rows, {table.num_columns} columns, the same as ragmonitor score")
