"""Reads what the demo's application knows: this project's README, docs and settings."""

from __future__ import annotations

import inspect
from pathlib import Path

import ragmonitor
from ragmonitor.evaluators import table
from ragmonitor.settings import OPTIONS


def load_documents() -> dict[str, str]:
    """Return texts by name: of the clone that this runs from, else those that were installed.

    A reference of settings and evaluators is written from the code, so that it is never out of
    date and the demo always has something to say.
    """
    documents = {"reference/settings.md": _settings(), "reference/evaluators.md": _evaluators()}
    folder = _folder()
    for path in [folder / "README.md", *sorted((folder / "docs").rglob("*.md"))]:
        # The page of the settings says what the reference says.
        if path.is_file() and path.name != "settings.md":
            text = path.read_text(encoding="utf-8", errors="replace")
            if text.strip():
                documents[path.relative_to(folder).as_posix()] = text
    return documents


def _folder() -> Path:
    package = Path(ragmonitor.__file__).parent
    clone = package.parent
    # An installed package has no pyproject.toml beside it.
    return clone if (clone / "pyproject.toml").is_file() else package / "cli" / "documents"


def _settings() -> str:
    lines = ["# Settings", ""]
    for option in OPTIONS:
        default = option.field.default
        known = ""
        if default is not None and option.field.default_factory is None and default != ():
            known = f" (default {default})"
        lines += [f"The setting {option.name}{known}: {option.field.description}", ""]
    return "\n".join(lines)


def _evaluators() -> str:
    lines = ["# Evaluators", ""]
    for entry in table:
        told = (inspect.getdoc(entry.evaluator) or "").partition("\n")[0].removeprefix("Return ")
        lines += [f"The evaluator {entry.name} (version {entry.version}) gives {told}", ""]
    return "\n".join(lines)
