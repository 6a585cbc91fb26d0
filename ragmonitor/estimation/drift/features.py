"""From a question to a few hashed features: the same in every process, without network or model."""

from __future__ import annotations

import re
import zlib
from typing import Final

FEATURES: Final = "grams@1"
"""Name and version: changed features make a new reference, not a drift."""

Features = tuple[int, ...]
"""Of one text: ascending, each once, below `BUCKETS`. Empty: the text has no word."""

BUCKETS: Final = 1 << 18
"""Few enough that a bucket stands for many possible words, so that a stored one is nobody's text;
enough that the thousands of features of a reference seldom meet in one."""

_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_IS_HAN: Final = re.compile(f"[{_HAN}]")
_TOKEN: Final = re.compile(f"[{_HAN}]+|[^\\W_{_HAN}]+")
_GRAM: Final = 4
_LONGEST: Final = 2_000
"""Characters of a question that are looked at."""


def features(text: str) -> Features:
    """Return what a text is made of: its words, their pieces of four letters, Chinese by pairs.

    Pieces let inflected words meet; how often a feature stands in the text does not count, since
    questions are short.
    """
    found: set[bytes] = set()
    for token in _TOKEN.findall(text[:_LONGEST].casefold()):
        if token.isascii():
            raw = b"^%b$" % token.encode()
            found.add(raw)
            found.update([raw[at : at + _GRAM] for at in range(len(raw) - _GRAM + 1)])
        else:
            found.update([piece.encode("utf-8", "replace") for piece in _pieces(token)])
    return tuple(sorted({zlib.crc32(piece) % BUCKETS for piece in found}))


def _pieces(token: str) -> list[str]:
    if _IS_HAN.match(token):
        return [*token, *(token[at : at + 2] for at in range(len(token) - 1))]
    word = f"^{token}$"
    return [word, *(word[at : at + _GRAM] for at in range(len(word) - _GRAM + 1))]


def words(text: str) -> dict[int, str]:
    """Return a text's words, of Chinese its pairs of characters, by their feature."""
    found: dict[int, str] = {}
    for token in _TOKEN.findall(text[:_LONGEST].casefold()):
        if _IS_HAN.match(token):
            named = {pair: pair for pair in (token[at : at + 2] for at in range(len(token) - 1))}
        elif len(token) > 2 and token.isalpha():
            named = {f"^{token}$": token}
        else:
            continue
        for piece, word in named.items():
            found[zlib.crc32(piece.encode("utf-8", "replace")) % BUCKETS] = word
    return found
