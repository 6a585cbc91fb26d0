"""Light stems of words."""

from __future__ import annotations

from typing import Final

from ragmonitor.judges.builtin.word_lists import IRREGULAR
from ragmonitor.runtime.patterns import lazy_pattern

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
_BRITISH: Final = lazy_pattern("(?<=[a-z]{3})our(?=s|ed|ing|it|abl|$)")
"""`colour` is `color`."""
_MIN_STEM: Final = 3
_VOWELS: Final = frozenset("aeiouy")


def stem(word: str) -> str:
    """Return the stem that `word`, in lower case, shares with its inflected forms.

    It takes one suffix off and makes a doubled consonant single: `stopping`, `stopped` and `stops`
    are `stop`.
    """
    word = IRREGULAR.get(word, word)
    if "our" in word:
        word = _BRITISH.sub("or", word)
    if len(word) <= _MIN_STEM or not word.isascii():
        return word
    for suffix, instead in _BY_LAST_LETTER.get(word[-1], ()):
        base = word[: -len(suffix)]
        if not word.endswith(suffix) or len(base) < _MIN_STEM or _VOWELS.isdisjoint(base):
            continue
        if suffix == "s" and word.endswith(("ss", "us", "is")):
            break
        if len(base) > _MIN_STEM:
            is_doubled = base[-1] == base[-2] and base[-1] not in "lsz"
            base = base[:-1] if is_doubled else base.removesuffix("e")
        return base + instead
    return word


def stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a text in lower case."""
    return frozenset(map(stem, text.split()))
