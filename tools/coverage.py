# ruff: noqa: E501, INP001  # a script that people run by hand, and a page's long lines
"""Writes docs/coverage.md from the tables that the integrations' tests run.

    python tools/coverage.py [--check]

`--check` writes nothing and fails if the page is not what the tables say.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"

HEAD = """\
# What is covered

Written by `python tools/coverage.py` from the tables that the tests run; a test fails when they differ. A mark is a cell in
which a real application of that shape, called in that way, was captured whole: one interaction per question, with its query, the
chunks that the model saw in order, the answer, the tokens counted once, the status, the caller's span, and nothing left open or
logged. A number is a cell that the framework itself refuses, with its reason below. "Since" is the oldest version that it was run
on; `.ci/versions oldest` and `.ci/versions newest` run the ends of the declared range.
"""

FRAMEWORKS = {
    "LangChain and LangGraph": "integrations.langchain.tests",
    "LlamaIndex": "integrations.llama_index.tests",
}


class Shape(Protocol):
    """One row: a shape of application."""

    name: str
    since: str
    how: str


class Ending(Protocol):
    """One row of the second table: how an interaction may end."""

    name: str
    status: str
    answer: str


def page() -> str:
    """Return the page as the tables say it."""
    parts = [HEAD]
    for title, tests in FRAMEWORKS.items():
        sys.path.insert(0, str(ROOT / tests.replace(".", "/")))  # they import each other by name
        tables: Any = import_module(f"{tests}.matrix")
        endings: Any = import_module(f"{tests}.test_endings")
        parts.append(f"## {title}\n\n" + _matrix(tables.SHAPES, tables.MODES, tables.IMPOSSIBLE))
        parts.append(_origins(tables.SHAPES))
        parts.append("How a question may end:\n\n" + _endings(endings.ENDINGS))
    return "\n".join(parts)


def _matrix(
    shapes: Sequence[Shape], modes: Sequence[str], impossible: Mapping[tuple[str, str], str]
) -> str:
    reasons = list(dict.fromkeys(impossible.values()))
    rows = []
    for shape in shapes:
        cells = (
            str(1 + reasons.index(impossible[shape.name, mode]))
            if (shape.name, mode) in impossible
            else "✓"
            for mode in modes
        )
        rows.append((shape.name, *cells))
    notes = "".join(f"{n}. {reason}\n" for n, reason in enumerate(reasons, 1))
    return _table(("", *modes), rows) + (f"\n{notes}" if notes else "")


def _origins(shapes: Sequence[Shape]) -> str:
    rows = [(shape.name, shape.how, shape.since) for shape in shapes]
    return _table(("shape", "where question, chunks and answer come from", "since"), rows)


def _endings(endings: Sequence[Ending]) -> str:
    rows = [
        (ending.name, ending.status, " ".join(ending.answer.split()) or "nothing")
        for ending in endings
    ]
    return _table(("ending", "status", "what is known of the answer"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page, or compare it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--check", action="store_true")
    chosen = options.parse_args()
    sys.path.insert(0, str(ROOT))
    text = page()
    if not chosen.check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit("docs/coverage.md is not what the tables say: run python tools/coverage.py")


if __name__ == "__main__":
    main()
