"""Every page's links lead somewhere, its commands exist, and its Python compiles."""

from __future__ import annotations

import ast
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
import typer.main

from ragmonitor.cli.app import app
from tests.support.scripts import ROOT

PAGES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
]
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_TYPED = re.compile(r"^ragmonitor ([a-z]+)", re.MULTILINE)
_QUOTED = re.compile(r"`ragmonitor ([a-z]+)")
COMMANDS = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def _anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as repositories' pages and MkDocs make them."""
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    plain = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each).lower() for each in _HEADING.findall(text)
    )
    headings = {re.sub(r"[^\w\- ]", "", each).strip().replace(" ", "-") for each in plain}
    return headings | set(re.findall(r'<a id="([\w-]+)"></a>', text))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading that it has."""
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in _anchors(path)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=_name)
def test_code_is_code(page: Path) -> None:
    """Python compiles, and each command of ours exists."""
    text = page.read_text(encoding="utf-8")
    for _, language, code in _FENCE.findall(text):
        if language == "python":
            compile(textwrap.dedent(code), page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif language != "text":
            assert set(_TYPED.findall(code)) <= COMMANDS
    assert set(_QUOTED.findall(_FENCE.sub("", text))) <= COMMANDS


def test_variables_of_the_pages_exist():
    """A variable of a group has two underscores; with one nobody would read it."""
    variable = re.compile(r"RAGMONITOR_[A-Z0-9_]+[A-Z0-9]")
    settings = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    groups = {name.partition("__")[0] for name in variable.findall(settings) if "__" in name}
    wrong = {
        name
        for page in PAGES
        for name in variable.findall(page.read_text(encoding="utf-8"))
        if "__" not in name and any(name.startswith(f"{group}_") for group in groups)
    }
    assert wrong - set(variable.findall(settings)) == set()
