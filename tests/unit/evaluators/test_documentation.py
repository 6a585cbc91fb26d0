"""What docs/evaluations.md says of the evaluators is what they are."""

import re
from pathlib import Path

import pytest

from ragmonitor.evaluators import table
from ragmonitor.records import Cause, Diagnosis

PAGE = (Path(__file__).parents[3] / "docs" / "evaluations.md").read_text(encoding="utf-8")


def is_named(name: str) -> bool:
    if name.startswith("ragchecker_"):
        return f"`{name.removeprefix('ragchecker_')}`" in PAGE.partition("RAGChecker's eleven")[2]
    if name == "factual_correctness_recall":
        return "`factual_correctness_precision`, `_recall`" in PAGE
    return f"`{name}`" in PAGE


@pytest.mark.parametrize("name", [entry.name for entry in table])
def test_every_evaluator_is_described(name):
    """By its name."""
    assert is_named(name)


def test_no_cell_of_an_evaluation_is_empty():
    """Each has its definition, range, source and the cases in which there is no score."""
    tables = re.findall(r"^\| name \| definition \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(tables) == 3
    assert len(rows) >= 34
    for row in rows:
        assert all(cell.strip() for cell in row.strip("|").split("|")), row


@pytest.mark.parametrize("value", [*Cause, *Diagnosis])
def test_every_cause_and_diagnosis_is_described(value):
    """By its value."""
    assert f"`{value}`" in PAGE


def test_the_examples_run():
    """The evaluators that the page registers have valid names, scales and signatures."""
    examples = re.findall(
        r"```python\n(.*?)```", PAGE.partition("## An evaluator of")[2], re.DOTALL
    )
    known = table._entries.copy()
    try:
        for example in examples:
            exec(compile(example, "evaluations.md", "exec"), {})
        added = [entry.name for entry in table if entry.name not in known]
    finally:
        table._entries.clear()
        table._entries.update(known)
    assert added == ["brevity", "tone", "names_a_person"]
