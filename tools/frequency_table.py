# ruff: noqa: INP001  # a script that people run by hand
"""Rebuild the built-in judge's table of common English words from SCOWL's word lists.

    python tools/frequency_table.py [FOLDER]

FOLDER holds the lists, `english-words.10` and so on; Debian's package `scowl` puts them into
/usr/share/dict/scowl. A size class holds the words that smaller classes lack, so that it is a
band of frequency. Words are reduced to the judge's own stems, a stem keeps its commonest band.
Run it again whenever `stem` changes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.judges.builtin.stems import stem  # noqa: E402  # runs from a checkout

TARGET = ROOT / "ragmonitor" / "judges" / "builtin" / "frequencies.txt"
SIZES = (10, 20)
KINDS = ("english", "american", "british")
WORD = re.compile(r"[a-z]{2,20}")

NOTICE = """\
# Stems of common English words, one line per band of frequency, the commonest first.
# Made by tools/frequency_table.py from the size classes 10 and 20 of SCOWL (Spell Checker
# Oriented Word Lists), Copyright 2000-2011 by Kevin Atkinson:
#   Permission to use, copy, modify, distribute and sell these word lists, the associated scripts,
#   the output created from the scripts, and its documentation for any purpose is hereby granted
#   without fee, provided that the above copyright notice appears in all copies and that both that
#   copyright notice and this permission notice appear in supporting documentation. Kevin Atkinson
#   makes no representations about the suitability of this array for any purpose. It is provided
#   "as is" without express or implied warranty.
"""


def main(folder: Path) -> None:
    """Write the table and say how large it is."""
    seen: set[str] = set()
    lines = []
    for size in SIZES:
        stems = {stem(word) for word in words(folder, size)} - seen
        seen |= stems
        lines.append(" ".join(sorted(stems)))
        print(f"size class {size}: {len(stems)} stems")
    TARGET.write_text(NOTICE + "\n".join(lines) + "\n", "utf-8")
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


def words(folder: Path, size: int) -> set[str]:
    """Return the plain lower-case words of one size class; `'s` forms are left out."""
    found: set[str] = set()
    for kind in KINDS:
        path = folder / f"{kind}-words.{size}"
        if path.exists():
            found |= {word for word in path.read_text("utf-8").split() if WORD.fullmatch(word)}
    if not found:
        raise SystemExit(f"no word list of size {size} in {folder}; install Debian's scowl")
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/usr/share/dict/scowl"))
