"""Light stems of words, and weights by how rare the words are."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import resources
from typing import Final

from ragmonitor.judges.builtin.word_lists import IRREGULAR

TABLE: Final = "frequencies.txt"
BAND_WEIGHTS: Final = (0.35, 0.6, 1.0)
"""The weights by band: some 4,000 commonest English words, the next 8,000, rarer or unknown.

They are about in the ratios of the inverse document frequencies of such words in running text.
"""

_SUFFIXES = (
    ("ization", "iz"), ("isation", "iz"), ("ational", "at"), ("ement", ""), ("ically", "ic"),
    ("ments", ""), ("ment", ""), ("ness", ""), ("ings", ""), ("ing", ""), ("edly", ""),
    ("ied", "y"), ("ies", "y"), ("ily", "y"), ("ed", ""), ("ly", ""), ("es", ""), ("s", ""),
    ("e", ""),
)  # fmt: skip
_BY_LAST_LETTER = {
    last: tuple((suffix, instead) for suffix, instead in _SUFFIXES if suffix[-1] == last)
    for last in {suffix[-1] for suffix, _ in _SUFFIXES}
}
_KEPT_ENDINGS = ("ss", "us", "is")
_MIN_STEM = 3
_VOWELS = frozenset("aeiouy")


def stem(word: str) -> str:
    """Return the stem that `word`, in lower case, shares with its inflected forms.

    It takes one suffix off and makes a doubled consonant single: `stopping`, `stopped` and `stops`
    are `stop`.
    """
    word = IRREGULAR.get(word, word)
    if len(word) <= _MIN_STEM or not word.isascii():
        return word
    for suffix, instead in _BY_LAST_LETTER.get(word[-1], ()):
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            if len(base) < _MIN_STEM or _VOWELS.isdisjoint(base):
                continue
            if suffix == "s" and word.endswith(_KEPT_ENDINGS):
                break
            return _undoubled(base) + instead
    return word


def _undoubled(base: str) -> str:
    if len(base) > _MIN_STEM and base[-1] == base[-2] and base[-1] not in "lsz":
        return base[:-1]
    return base.removesuffix("e") if len(base) > _MIN_STEM else base


@lru_cache(maxsize=16_384)
def stem_and_weight(word: str) -> tuple[str, float]:
    """Return a word's stem and its weight, 0.35 (in every other text) to 1 (rare or unknown).

    The cache holds words of bounded length only; the caller cuts longer ones.
    """
    base = stem(word)
    return base, BAND_WEIGHTS[_bands().get(base, len(BAND_WEIGHTS) - 1)]


@cache
def _bands() -> dict[str, int]:
    """Return each known stem's band, 0 the commonest; read once from the shipped table."""
    text = resources.files(__package__).joinpath(TABLE).read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    bands: dict[str, int] = {}
    for band, line in enumerate(lines):
        bands.update(dict.fromkeys(line.split(), band))
    return bands
