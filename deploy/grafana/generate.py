# ruff: noqa: INP001 - a script, run by its path
"""Writes the dashboards' JSON, in both languages, from `boards/`.

    python deploy/grafana/generate.py [FOLDER]

Needs `ragmonitor`. The folder is `deploy/grafana/dashboards` unless another is named.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from boards.contents import BOARDS
from boards.panels import in_language


def main() -> None:
    """Write one file for each dashboard and language."""
    here = Path(__file__).parent / "dashboards"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else here
    folder.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        for language in ("en", "zh"):
            made = in_language(board, language)
            # Sorted, so that one change of the source is one change of the file.
            text = json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False)
            (folder / f"{made['uid']}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
