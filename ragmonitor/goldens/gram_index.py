"""Finds texts that are written alike, by their pieces of words; needs neither model nor network."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ragmonitor.evaluators.embeddings import piece_counts


class GramIndex:
    """An inverted index over the texts' pieces of words, for the nearest texts to another.

    Words count whole and by their pieces of four letters, Chinese by characters and pairs.
    """

    def __init__(self, texts: Iterable[str] = (), *, by_rarity: bool = False) -> None:
        """Add the texts.

        Args:
            texts: In order.
            by_rarity: Weigh each piece by its inverse document frequency, log(1 + n / df), so that
                words that stand everywhere say little. For finding what a text speaks of.
        """
        self._by_rarity = by_rarity
        self._postings: dict[str, list[tuple[int, float]]] = {}
        self._size = 0
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a text; it is the last."""
        for at, weight in _sparse(text):
            self._postings.setdefault(at, []).append((self._size, weight))
        self._size += 1

    def nearest(self, text: str, count: int = 1) -> list[tuple[int, float]]:
        """Return the places and similarities of the nearest texts, the nearest first.

        A similarity is the cosine of two vectors, 0 to 1; with `by_rarity` it orders the texts and
        is no cosine. A text that shares nothing is not among them.
        """
        sums: dict[int, float] = {}
        for at, weight in _sparse(text):
            postings = self._postings.get(at, ())
            rarity = (
                math.log(1 + self._size / len(postings)) if self._by_rarity and postings else 1.0
            )
            for position, other in postings:
                sums[position] = sums.get(position, 0.0) + weight * other * rarity
        return sorted(sums.items(), key=lambda each: (-each[1], each[0]))[:count]


def _sparse(text: str) -> list[tuple[str, float]]:
    weights = {piece: 1.0 + math.log(count) for piece, count in piece_counts(text).items()}
    length = math.hypot(*weights.values())
    return [(piece, weight / length) for piece, weight in weights.items()]
