"""The chunks as a sentence sees them: which passage holds which of its terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    exact: Mapping[str, Sequence[int]]
    """Key to the positions of the passages that hold it, ascending."""
    loose: Mapping[str, Sequence[int]]
    """Prefix to the positions of passages that hold a stem beginning so, ascending."""
    values: Sequence[float]
    """The different numbers of the chunks."""
    plain: Sequence[str]
    """The chunks in lower case with single spaces."""
    _held: dict[int, Held] = field(default_factory=dict)
    _terms: dict[int, Sequence[Term]] = field(default_factory=dict)
    _of_note: dict[int, Sequence[Term]] = field(default_factory=dict)
    _chunks_of: dict[int, Sequence[int]] = field(default_factory=dict)

    def held(self, passage: int) -> Held:
        """Return what a passage holds; not kept from the making, as few are ever asked for."""
        found = self._held.get(passage)
        if found is None:
            found = self._held[passage] = keys(self.texts[passage])
        return found

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
    exact = _Places()
    loose = _Places()
    numbers: set[str] = set()
    for at, text in enumerate(texts):
        held = keys(text)
        exact.add(at, held.exact)
        if held.prefixes:
            loose.add(at, held.prefixes)
        if held.numbers:
            numbers.update(held.numbers)
    values = [value for key in numbers if (value := number(key)) is not None]
    plain = [_plain(chunk) for chunk in chunks]
    return Index(texts, chunk_of, windows, exact.of, loose.of, values, plain)


class _Places:
    """Where keys stand, ascending: added to passage by passage."""

    __slots__ = ("_several", "of")

    def __init__(self) -> None:
        self.of: dict[str, Sequence[int]] = {}
        self._several: dict[str, list[int]] = {}

    def add(self, at: int, held: Iterable[str]) -> None:
        """Add the next passage."""
        places, several = self.of, self._several
        here = (at,)  # one for all its keys, most of which stand nowhere else
        for key in held:
            if key not in places:
                places[key] = here
            elif key in several:
                several[key].append(at)
            else:
                places[key] = several[key] = [*places[key], at]


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
