"""Turns a question into hashed features: the same in every process, without network or model."""

from __future__ import annotations

import zlib
from typing import Final

from ragmonitor.patterns import lazy_pattern

FEATURES: Final = "grams@1"
"""Name and version: changed features make a new reference, not a drift."""

Features = tuple[int, ...]
"""Of one text: ascending, each once, below `BUCKETS`. Empty: the text has no word."""

BUCKETS: Final = 1 << 18
"""Few enough that a bucket stands for many possible words, so that a stored one is nobody's text;
enough that the thousands of features of a reference seldom meet in one."""

_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_IS_HAN: Final = lazy_pattern(f"[{_HAN}]")
_TOKEN: Final = lazy_pattern(f"[{_HAN}]+|[^\\W_{_HAN}]+")
_GRAM: Final = 4
_MAX_CHARACTERS: Final = 2_000
"""Of a question that are looked at."""


def features(text: str) -> Features:
    """Return the hashes of a text's words and their four-letter pieces; of Chinese, of its pairs.

    Inflected words share pieces. How often a feature occurs in the text does not count, since
    questions are short.
    """
    pieces: set[bytes] = set()
    for token in _TOKEN.findall(text[:_MAX_CHARACTERS].casefold()):
        if token.isascii():
            word = b"^%b$" % token.encode()
            pieces.add(word)
            pieces.update([word[at : at + _GRAM] for at in range(len(word) - _GRAM + 1)])
        else:
            pieces.update([piece.encode("utf-8", "replace") for piece in _pieces(token)])
    return tuple(sorted({zlib.crc32(piece) % BUCKETS for piece in pieces}))


def _pieces(token: str) -> list[str]:
    if _IS_HAN.match(token):
        return [*token, *(token[at : at + 2] for at in range(len(token) - 1))]
    word = f"^{token}$"
    return [word, *(word[at : at + _GRAM] for at in range(len(word) - _GRAM + 1))]
