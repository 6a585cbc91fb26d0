"""Turns a question into hashed features: the same in every process, without network or model."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Final

from ragmonitor.patterns import lazy_pattern

Features = tuple[int, ...]
"""The features of one text: ascending, each once, below `BUCKETS`. Empty: the text has no word."""

BUCKETS: Final = 1 << 18
"""Few enough that a bucket stands for many possible words, so that a stored one is nobody's text;
enough that the thousands of features of a reference seldom meet in one."""

_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_IS_HAN: Final = lazy_pattern(f"[{_HAN}]")
_TOKEN: Final = lazy_pattern(f"[{_HAN}]+|[^\\W_{_HAN}]+")
_GRAM: Final = 4
_MAX_CHARACTERS: Final = 2_000
"""The characters of a question that are looked at."""
_MAX_KNOWN: Final = 24
"""Characters of a token whose hashes are remembered."""


def features(text: str) -> Features:
    """Return the hashes of a text's words and their four-letter pieces; of Chinese, of its pairs.

    Inflected words share pieces. How often a feature occurs in the text does not count, since
    questions are short.
    """
    tokens = _TOKEN.findall(text[:_MAX_CHARACTERS].casefold())
    found = [_known_buckets(each) if len(each) <= _MAX_KNOWN else _buckets(each) for each in tokens]
    return tuple(sorted(set().union(*found)))


def _buckets(token: str) -> tuple[int, ...]:
    """Return the hashes of one token's pieces."""
    return tuple({zlib.crc32(each.encode("utf-8", "replace")) % BUCKETS for each in _pieces(token)})


# Most words of a question were in earlier ones; to look one up takes a tenth of hashing it.
_known_buckets = lru_cache(maxsize=4_096)(_buckets)


def _pieces(token: str) -> list[str]:
    if _IS_HAN.match(token):
        return [*token, *(token[at : at + 2] for at in range(len(token) - 1))]
    word = f"^{token}$"
    return [word, *(word[at : at + _GRAM] for at in range(len(word) - _GRAM + 1))]
