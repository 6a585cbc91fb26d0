"""The chunks as a sentence sees them: which passage holds which of its terms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragmonitor.judges.lexical.words import Term, keys, terms
from ragmonitor.judges.sentences import spans


@dataclass(frozen=True, slots=True)
class Passage:
    """One sentence of a chunk."""

    chunk: int
    """Position of its chunk."""
    text: str


@dataclass(frozen=True, slots=True)
class Index:
    """All passages of all chunks, and where each key stands. Lives for one answer."""

    passages: Sequence[Passage]
    windows: Sequence[range]
    """For each passage, itself and its neighbours in the same chunk."""
    exact: Mapping[str, list[int]]
    """Key to the positions of the passages that hold it, ascending."""
    loose: Mapping[str, list[int]]
    """Prefix to the positions of passages that hold a stem beginning so, ascending."""
    values: Sequence[float]
    """The different numbers of the chunks."""
    plain: Sequence[str]
    """The chunks in lower case with single spaces."""
    _terms: dict[int, list[Term]] = field(default_factory=dict)

    def terms(self, passage: int) -> Sequence[Term]:
        """Return a passage's terms; read when first asked for, as few passages ever are."""
        found = self._terms.get(passage)
        if found is None:
            found = self._terms[passage] = terms(self.passages[passage].text)
        return found

    def holds(self, sentence: str) -> bool:
        """Return whether a chunk holds a sentence word for word, whatever its spaces and case."""
        wanted = _plain(sentence).strip(_MARGIN)
        return bool(wanted) and any(_has_words(text, wanted) for text in self.plain)


def index(chunks: Sequence[str]) -> Index:
    """Return the index of some chunks; linear in their length."""
    passages: list[Passage] = []
    windows: list[range] = []
    exact: defaultdict[str, list[int]] = defaultdict(list)
    loose: defaultdict[str, list[int]] = defaultdict(list)
    for position, chunk in enumerate(chunks):
        first = len(passages)
        passages += [Passage(position, chunk[start:end]) for start, end in spans(chunk)]
        for at in range(first, len(passages)):
            windows.append(range(max(first, at - 1), min(at + 2, len(passages))))
            held, prefixes = keys(passages[at].text)
            for key in held:
                exact[key].append(at)
            for prefix in prefixes:
                loose[prefix].append(at)
    values = [value for key in exact if (value := number(key)) is not None]
    return Index(passages, windows, exact, loose, values, [_plain(chunk) for chunk in chunks])


_MARGIN = " .!?。！？…*_\"'“”‘’"
"""What may differ at either end of a copy."""
_OCCURRENCES = 16
"""Places at which a copy is looked for in one chunk."""


def _has_words(text: str, wanted: str) -> bool:
    """Return whether `wanted` stands in a text and is not merely part of longer words."""
    at = -1
    for _ in range(_OCCURRENCES):
        at = text.find(wanted, at + 1)
        if at < 0:
            return False
        end = at + len(wanted)
        if not (_joins(text[at - 1 : at], wanted[0]) or _joins(wanted[-1], text[end : end + 1])):
            return True
    return False


def _joins(left: str, right: str) -> bool:
    """Return whether two neighbouring characters belong to one word; Chinese ones never tell."""
    return left.isalnum() and right.isalnum() and (left < _HAN_FROM or right < _HAN_FROM)


_HAN_FROM = "\u3000"


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


_LONGEST_VALUE = 20


def number(key: str) -> float | None:
    """Return the value behind a number's key; None for other keys and for identifiers."""
    return float(key[1:]) if key[0] == "#" and len(key) <= _LONGEST_VALUE else None
