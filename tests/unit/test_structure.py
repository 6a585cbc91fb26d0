"""The package stays readable and small: functions fit on a screen, and no ceiling is passed."""

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.scripts import ROOT
from tools.size import python_lines

SOURCES = sorted(
    path
    for folder in ("ragmonitor", *ROOT.glob("integrations/*/ragmonitor_*"))
    for path in (ROOT / folder).rglob("*.py")
)
MAX_LINES = 60
TABLES = {
    "ragmonitor/rules/alerts.py",  # each function is a list of alerts
}
"""Files whose long functions are tables of data, and not code with a course."""


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


def test_the_house_is_no_larger_than_its_ceilings():
    """Each number of tools/size.py is at most its ceiling in tools/size.toml."""
    shown = subprocess.run(
        [sys.executable, ROOT / "tools" / "size.py"], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('"""Words."""\n\nx = 1  # why\n', 1),
        ('def f():\n    """Words\n    in two lines."""\n    return (1 +\n            2)\n', 3),
        ('x = """a\nb"""\n# why\n', 2),
    ],
)
def test_only_lines_of_code_are_counted(source, lines):
    """Blank lines, comments and docstrings do not count; each line of an expression does."""
    assert python_lines(source) == lines
