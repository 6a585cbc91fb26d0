# ruff: noqa: INP001  # a script that make runs
"""Print how large the house is beside its ceilings; exit 1 where it is above one.

    python tools/size.py            the table
    python tools/size.py --lower    write today's numbers into tools/size.toml where they are lower

A code line holds code: no blank lines, comments or docstrings.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[1]
CEILINGS: Final = ROOT / "tools" / "size.toml"
_NO_CODE: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def python_lines(source: str) -> int:
    """Return the lines of Python source that hold code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(first := node.body[0], ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def code_lines(path: Path) -> int:
    """Return the code lines of a file of Python or of another language; blank ones do not count."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return python_lines(text)
    return sum(bool(line.strip()) for line in text.splitlines())


def tracked_files() -> list[str]:
    """Return the files of the project: those that git tracks and that are there."""
    listed = subprocess.run(
        ["git", "ls-files"],  # noqa: S607 - whichever git is on the path
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


def _brought(name: str, seen: set[str]) -> set[str]:
    """Return the distributions that installing one without extras brings, itself included."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in seen:
        seen.add(key)
        for line in distribution(name).requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                _brought(needed.name, seen)
    return seen


def _matches(names: list[str], file: str, line: str) -> Iterator[str]:
    for name in names:
        if re.match(file, name):
            yield from re.findall(line, (ROOT / name).read_text("utf-8"), re.MULTILINE)


def measured() -> dict[str, int]:
    """Return the size of the house today, one number a row of the table."""
    from ragmonitor import __all__ as public
    from ragmonitor.cli.app import app

    files = tracked_files()
    tests = [name for name in files if re.search(r"(^|/)tests/.*\.py$", name)]
    code = [
        name
        for name in files
        if re.match(r"(ragmonitor|integrations|tools|deploy)/", name)
        and not re.search(r"(^|/)tests/", name)
        and re.search(r"\.(py|js|css|html|lua|sql|tsx)$", name)
    ]
    pages = [name for name in files if re.match(r"docs/(?!zh/|decisions/|pictures/).*\.md$", name)]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = next(each["layers"] for each in contracts["contracts"] if each.get("exhaustive"))
    rules = r"deploy/prometheus/.*\.ya?ml$"
    recorded = set(_matches(files, rules, r"record: \S*?(\d+[smhdw])\S*$"))
    return {
        "code": sum(code_lines(ROOT / name) for name in code),
        "tests": sum(code_lines(ROOT / name) for name in tests),
        "layers": len(layers),
        "rooms": sum(len(re.split(r"[|:]", layer)) for layer in layers),
        "settings": len(set(_matches(files, r"docs/settings\.md$", r"^\| `[a-z_.]+` \| `(\w+)`"))),
        "series": len(
            set(_matches(files, r"docs/metrics\.md$", r"^\| `((?:ragmonitor|gen_ai)_\w+)` "))
        ),
        "alerts": len(set(_matches(files, rules, r"alert: (\w+)"))),
        "recorded_windows": len(recorded),
        "commands": len(app.registered_commands) + len(app.registered_groups),
        "public_names": len(public),
        "pages": len(pages),
        "words": sum(len((ROOT / name).read_text("utf-8").split()) for name in pages),
        "distributions": len(_brought("ragmonitor", set())),
    }


def table(sizes: dict[str, int], ceilings: dict[str, dict[str, int]]) -> str:
    """Return the sizes beside the ceiling that holds today and the one to reach, a line each."""
    rows = [f"{'':18}{'measured':>10}{'ceiling':>10}{'to reach':>10}"]
    for name, size in sizes.items():
        ceiling = ceilings[name]["ceiling"]
        mark = "  above the ceiling" if size > ceiling else ""
        rows.append(f"{name:18}{size:>10,}{ceiling:>10,}{ceilings[name]['to_reach']:>10,}{mark}")
    return "\n".join(rows)


def lowered(sizes: dict[str, int], ceilings: dict[str, dict[str, int]]) -> str:
    """Return the text of the ceilings' file with each ceiling at most as high as today's size."""
    head = CEILINGS.read_text("utf-8").split("\n\n", 1)[0]
    rows = [
        f"{name} = {{ ceiling = {min(sizes[name], row['ceiling'])}, to_reach = {row['to_reach']} }}"
        for name, row in ceilings.items()
    ]
    return "\n".join([head, "", *rows, ""])


def main() -> int:
    """Print the table; return 1 where the house is above a ceiling."""
    ceilings = tomllib.loads(CEILINGS.read_text("utf-8"))
    sizes = measured()
    if "--lower" in sys.argv:
        CEILINGS.write_text(lowered(sizes, ceilings), "utf-8")
    sys.stdout.write(table(sizes, ceilings) + "\n")
    return int(any(size > ceilings[name]["ceiling"] for name, size in sizes.items()))


if __name__ == "__main__":
    sys.exit(main())
