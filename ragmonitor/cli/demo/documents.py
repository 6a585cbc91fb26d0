"""Reads the documents of the demo: this project's README, docs and settings."""

from __future__ import annotations

from pathlib import Path

import ragmonitor
from ragmonitor.settings import OPTIONS

SETTINGS = "docs/settings.md"


def load_documents() -> dict[str, str]:
    """Return texts by name, from the clone that this code runs from or from the installed package.

    The settings are described from the code, so that there is always something to ask.
    """
    lines = ["# Settings", ""]
    for option in OPTIONS:
        lines += [f"The setting {option.name}: {option.description}", ""]
    documents = {SETTINGS: "\n".join(lines)}
    package = Path(ragmonitor.__file__).parent
    # An installed package has no pyproject.toml beside it.
    is_clone = (package.parent / "pyproject.toml").is_file()
    folder = package.parent if is_clone else package / "cli" / "documents"
    for path in [folder / "README.md", *sorted((folder / "docs").rglob("*.md"))]:
        # The page of the settings says the same, in tables.
        if path.is_file() and path.name != "settings.md":
            text = path.read_text(encoding="utf-8", errors="replace")
            documents[path.relative_to(folder).as_posix()] = text
    return documents
