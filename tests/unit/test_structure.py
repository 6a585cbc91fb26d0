"""The package stays readable: short functions, distinct module names."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.scripts import ROOT

SOURCES = sorted(
    path
    for folder in ("ragmonitor", *ROOT.glob("integrations/*/ragmonitor_*"))
    for path in (ROOT / folder).rglob("*.py")
)
MAX_LINES = 60
MAX_MEAN_LINES = 10
TABLES = {
    "ragmonitor/rules/alerts.py",  # each function is a list of alerts
    "ragmonitor/rules/fleet_alerts.py",  # likewise
    "ragmonitor/rules/recording.py",  # each function is a list of recorded series
}
"""Files whose long functions are tables of data, and not code with a course."""
SEAMS = {"__init__.py"}
"""File names that several folders share, because each is the same seam."""
UNTIL_THE_SWITCH = {
    *("beta.py", "budget.py", "comparison.py", "interval.py", "judge_change.py", "learning.py"),
    *("signals.py", "sums.py"),
}
"""Files of `stats` and `store` that will take the place of those of the same name."""


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef, source: list[str]) -> int:
    """Return the lines of a function's body without docstring, blank lines and comments."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    begin = (first.end_lineno if is_docstring else first.lineno - 1) or 0
    body = (line.strip() for line in source[begin : function.end_lineno])
    return sum(1 for line in body if line and not line.startswith("#"))


def _sizes() -> dict[str, int]:
    sizes = {}
    for path in SOURCES:
        text = path.read_text("utf-8")
        for function in _functions(ast.parse(text)):
            place = f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
            sizes[place] = _lines(function, text.splitlines())
    return sizes


def test_no_function_is_longer_than_a_screen_but_tables():
    """A function has at most 60 lines of code."""
    long = {
        place: lines
        for place, lines in _sizes().items()
        if lines > MAX_LINES and place.split(":")[0] not in TABLES
    }
    assert not long


def test_functions_are_short():
    """The mean function has at most 10 lines of code."""
    sizes = _sizes().values()
    assert sum(sizes) / len(sizes) <= MAX_MEAN_LINES


def test_no_two_modules_have_one_name():
    """A file's name says which one it is, wherever it is named."""
    names = Counter(
        path.name for path in SOURCES if Path("ragmonitor") in path.relative_to(ROOT).parents
    )
    assert not {
        name: n for name, n in names.items() if n > 1 and name not in SEAMS | UNTIL_THE_SWITCH
    }
