"""The terms of a text, English or Chinese, and how much each of them tells."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator

from ragmonitor.judges.sentences import HAN

_TOKEN = re.compile(rf"[A-Za-z][A-Za-z0-9_]*|\d+(?:[.,]\d+)*|[{HAN}]+")
_STOP = frozenset(
    "a an and any are as at be been but by can could did do does for from had has have how i if in "  # noqa: SIM905 - readable
    "into is it its me much many my no not of on one or our please should so tell than that the "
    "their them then there these they this those to us was we were what when where which who why "
    "will with would you your mean means".split()
)
_STOP_CHINESE = frozenset(
    (
        "什么",
        "怎么",
        "哪些",
        "多少",
        "如何",
        "为什",
        "么样",
        "是什",
        "有哪",
        "请问",
        "可以",
        "吗",
        "呢",
        "的",
    )
)
_ENDINGS = ("ations", "ation", "ingly", "ings", "ing", "ies", "ied", "ers", "es", "ed", "er", "s")


def terms(text: str) -> Iterator[str]:
    """Yield the terms of a text: stems of words, parts of `snake_case`, pairs of characters."""
    for token in _TOKEN.findall(text):
        if token[0].isdigit():
            yield token.replace(",", "")
        elif token.isascii():
            word = token.lower()
            if "_" in word:
                yield word
            for part in word.split("_"):
                if part and part not in _STOP:
                    yield _stem(part)
        else:
            for at in range(max(1, len(token) - 1)):
                pair = token[at : at + 2]
                if pair not in _STOP_CHINESE:
                    yield pair


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending).removesuffix("e")
    return word.removesuffix("e") if len(word) > 4 else word


class Weights:
    """The weights of terms: the rarer among the texts, the more a term tells."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = 0
        self._holding: Counter[str] = Counter()
        for text in texts:
            self._texts += 1
            self._holding.update(set(terms(text)))

    def __getitem__(self, term: str) -> float:
        """Return the term's inverse document frequency, above 0."""
        return math.log(1 + (self._texts + 1) / (1 + self._holding[term]))


DIMENSIONS = 512


class TermVectors:
    """Maps a text to a unit vector of `DIMENSIONS` numbers; the same in every process.

    Source:
        Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (2009),
        arXiv:0902.2206: signed, so that collisions cancel out on average.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def __call__(self, text: str) -> list[float]:
        """Return the vector of a text."""
        vector = [0.0] * DIMENSIONS
        for term, n in Counter(terms(text)).items():
            code = zlib.crc32(term.encode())
            sign = 1.0 if code & 0x80000000 else -1.0
            vector[code % DIMENSIONS] += sign * (1 + math.log(n)) * self._weights[term]
        length = math.sqrt(sum(value * value for value in vector))
        if length == 0:
            vector[0] = length = 1.0  # a text without terms still needs a direction
        return [value / length for value in vector]
