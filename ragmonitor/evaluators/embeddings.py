"""From texts to vectors, and how near two of them are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from ragmonitor.runtime.patterns import lazy_pattern

Vector = Sequence[float]

Embedding = Callable[[Sequence[str]], Sequence[Vector]]
"""Returns one vector per text, in order; shape (n_texts, n_dimensions)."""


def remembering(embedding: Embedding) -> Embedding:
    """Return the embedding, which is asked once for texts that several evaluators compare."""
    remembered = lru_cache(maxsize=16)(embedding)
    return lambda texts: remembered(tuple(texts))


_TOKEN: Final = lazy_pattern("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+|[^\\W_]+")
_HAN: Final = lazy_pattern("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_GRAM: Final = 4
"""Letters of a piece of a word; of Chinese 1 and 2 characters."""
_MAX_CHARACTERS: Final = 20_000
"""The characters of a text, from its beginning, that are counted."""


def character_grams(texts: Sequence[str]) -> list[list[float]]:
    """Return counts of pieces of words, dampened; needs neither network nor model.

    Words count whole and by their pieces of four letters, Chinese by characters and pairs. It sees
    what is written alike, not what means the same.

    Returns:
        One vector per text, with a dimension for each different piece of any of them.
    """
    counts = [piece_counts(text) for text in texts]
    pieces = list(dict.fromkeys(piece for each in counts for piece in each))
    return [[1.0 + math.log(each[p]) if p in each else 0.0 for p in pieces] for each in counts]


def piece_counts(text: str) -> Counter[str]:
    """Return how often each word and each piece of one stands in a text's beginning."""
    tokens = _TOKEN.findall(text[:_MAX_CHARACTERS].casefold())
    return Counter(piece for token in tokens for piece in _pieces(token))


def _pieces(token: str) -> list[str]:
    if _HAN.match(token):
        return [*token, *(token[at : at + 2] for at in range(len(token) - 1))]
    word = f"^{token}$"
    return [word, *(word[at : at + _GRAM] for at in range(len(word) - _GRAM + 1))]


def nearness(left: Vector, right: Vector) -> float:
    """Return the cosine from 0 to 1; 0 where one has no length, or where they point away."""
    lengths = math.hypot(*left) * math.hypot(*right)
    product = math.fsum(a * b for a, b in zip(left, right, strict=True))
    return min(1.0, max(0.0, product / lengths)) if lengths else 0.0


grams: Final = remembering(character_grams)
"""The embedding where nobody gives one."""
