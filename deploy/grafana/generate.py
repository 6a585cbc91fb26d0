# ruff: noqa: INP001 - a script, run by its path
"""Writes the dashboards' JSON, in both languages, from `boards/`.

    python deploy/grafana/generate.py [FOLDER]

Needs nothing but Python. The folder is `deploy/grafana/dashboards` unless another is named.
"""

from __future__ import annotations

import sys
from pathlib import Path

from boards.contents import BOARDS
from boards.drawing import drawn, uid
from boards.panels import LANGUAGES


def main() -> None:
    """Write one file for each dashboard and language."""
    here = Path(__file__).parent / "dashboards"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    folder.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        for language in LANGUAGES:
            path = folder / f"{uid(board, language)}.json"
            path.write_text(drawn(board, language), encoding="utf-8")


if __name__ == "__main__":
    main()
