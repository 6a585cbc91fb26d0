"""Texts as vectors, without a model: hashed bags of weighted terms."""

from __future__ import annotations

import math
import zlib
from collections import Counter

from ragmonitor.cli.demo.terms import Weights, terms

DIMENSIONS = 512


class TermVectors:
    """Maps a text to a unit vector; the same in every process."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def __call__(self, text: str) -> list[float]:
        """Return the vector, of `DIMENSIONS` numbers.

        Source:
            Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (2009),
            arXiv:0902.2206: signed, so that collisions cancel out on average.
        """
        vector = [0.0] * DIMENSIONS
        for term, n in Counter(terms(text)).items():
            code = zlib.crc32(term.encode())
            sign = 1.0 if code & 0x80000000 else -1.0
            vector[code % DIMENSIONS] += sign * (1 + math.log(n)) * self._weights[term]
        length = math.sqrt(sum(value * value for value in vector))
        if length == 0:
            vector[0] = length = 1.0  # a text without terms still needs a direction
        return [value / length for value in vector]
