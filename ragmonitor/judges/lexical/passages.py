"""The chunks as a sentence sees them: which passage holds which of its terms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragmonitor.judges.lexical.words import Held, Kind, Term, keys, terms
from ragmonitor.judges.sentences import spans

Passages = tuple[int, ...]
"""Positions of passages, ascending. A passage is one sentence of one chunk."""


@dataclass(slots=True)
class Index:
    """All passages of all chunks, and where each key stands. Lives for one answer."""

    texts: Sequence[str]
    """Of each passage."""
    chunk_of: Sequence[int]
    """For each passage, the position of its chunk."""
    windows: Sequence[Passages]
    """For each passage, itself and its neighbours in the same chunk."""
    held: Sequence[Held]
    """For each passage, what stands in it."""
    exact: Mapping[str, Sequence[int]]
    """Key to the positions of the passages that hold it, ascending."""
    loose: Mapping[str, Sequence[int]]
    """Prefix to the positions of passages that hold a stem beginning so, ascending."""
    values: Sequence[float]
    """The different numbers of the chunks."""
    plain: Sequence[str]
    """The chunks in lower case with single spaces."""
    _terms: dict[int, Sequence[Term]] = field(default_factory=dict)
    _of_note: dict[int, Sequence[Term]] = field(default_factory=dict)
    _chunks_of: dict[int, Sequence[int]] = field(default_factory=dict)

    def terms(self, passage: int) -> Sequence[Term]:
        """Return a passage's terms; read when first asked for, as few passages ever are."""
        found = self._terms.get(passage)
        if found is None:
            found = self._terms[passage] = terms(self.texts[passage])
        return found

    def of_note(self, passage: int) -> Sequence[Term]:
        """Return those of a passage's terms that are numbers, dates and names."""
        found = self._of_note.get(passage)
        if found is None:
            read = terms(self.texts[passage], with_pairs=False)
            found = self._of_note[passage] = [term for term in read if term.kind in OF_NOTE]
        return found

    def chunks_of(self, places: Sequence[int]) -> Sequence[int]:
        """Return the chunks of a key's or a prefix's many passages, ascending."""
        # By identity: the lists live as long as the index, and to hash one is to read it again.
        found = self._chunks_of.get(id(places))
        if found is None:
            chunks = dict.fromkeys([self.chunk_of[place] for place in places])
            found = self._chunks_of[id(places)] = tuple(chunks)
        return found

    def holds(self, sentence: str) -> bool:
        """Return whether a chunk holds a sentence word for word, whatever its spaces and case."""
        wanted = _plain(sentence).strip(_MARGIN)
        return bool(wanted) and any(_has_words(text, wanted) for text in self.plain)


OF_NOTE: frozenset[Kind] = frozenset({"number", "date", "name"})


def index(chunks: Sequence[str]) -> Index:
    """Return the index of some chunks; linear in their length."""
    texts: list[str] = []
    chunk_of: list[int] = []
    windows: list[Passages] = []
    for position, chunk in enumerate(chunks):
        found = [chunk[start:end] for start, end in spans(chunk)]
        windows += _windows(len(texts), len(texts) + len(found))
        texts += found
        chunk_of += [position] * len(found)
    held = [keys(text) for text in texts]
    exact: defaultdict[str, list[int]] = defaultdict(list)
    loose: defaultdict[str, list[int]] = defaultdict(list)
    numbers: set[str] = set()
    for at, one in enumerate(held):
        for key in one.exact:
            exact[key].append(at)
        for prefix in one.prefixes:
            loose[prefix].append(at)
        numbers.update(one.numbers)
    values = [value for key in numbers if (value := number(key)) is not None]
    plain = [_plain(chunk) for chunk in chunks]
    return Index(texts, chunk_of, windows, held, exact, loose, values, plain)


def _windows(first: int, last: int) -> list[Passages]:
    """Return each passage of a chunk with its neighbours; the chunk ends before `last`."""
    found: list[Passages] = [(at - 1, at, at + 1) for at in range(first, last)]
    if found:
        found[0] = found[0][1:]
        found[-1] = found[-1][:-1]
    return found


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
