"""The chunks as a sentence sees them: which passage holds which of its terms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ragmonitor.judges.lexical.words import NEGATION, TURN, Term, terms
from ragmonitor.judges.sentences import spans


@dataclass(frozen=True, slots=True)
class Passage:
    """One sentence of a chunk."""

    chunk: int
    """Position of its chunk."""
    text: str
    terms: Sequence[Term]
    """Their offsets count from the beginning of the chunk, not of the passage."""


@dataclass(frozen=True, slots=True)
class Index:
    """All passages of all chunks, and where each key stands."""

    chunks: Sequence[str]
    passages: Sequence[Passage]
    exact: dict[str, list[int]]
    """Key to the positions of the passages that hold it, ascending."""
    loose: dict[str, list[int]]
    """Prefix to the positions of passages that hold a stem beginning so, ascending."""
    values: Sequence[float]
    """The different numbers of the chunks."""
    plain: Sequence[str]
    """The chunks in lower case with single spaces."""

    def places(self, term: Term) -> tuple[list[int], bool]:
        """Return the passages that hold a term, and whether they hold it exactly."""
        found = self.exact.get(term.key)
        if found:
            return found, True
        return self.loose.get(term.prefix, _NOWHERE), False

    def holds(self, sentence: str) -> bool:
        """Return whether a chunk holds a sentence word for word, whatever its spaces and case."""
        wanted = _plain(sentence)
        return len(wanted) > 1 and any(wanted in text for text in self.plain)

    def window(self, passage: int) -> range:
        """Return a passage and its neighbours in the same chunk."""
        chunk = self.passages[passage].chunk
        start, stop = passage, passage + 1
        if passage and self.passages[passage - 1].chunk == chunk:
            start -= 1
        if stop < len(self.passages) and self.passages[stop].chunk == chunk:
            stop += 1
        return range(start, stop)


_NOWHERE: list[int] = []


def index(chunks: Sequence[str]) -> Index:
    """Return the index of some chunks; linear in their length."""
    passages: list[Passage] = []
    exact: defaultdict[str, list[int]] = defaultdict(list)
    loose: defaultdict[str, list[int]] = defaultdict(list)
    for position, chunk in enumerate(chunks):
        found = terms(chunk)
        first = 0
        for start, end in spans(chunk):
            last = first
            keys = set()
            prefixes = set()
            while last < len(found) and found[last].start < end:
                keys.add(found[last].key)
                prefixes.add(found[last].prefix)
                last += 1
            at = len(passages)
            for key in keys:
                exact[key].append(at)
            for prefix in prefixes:
                loose[prefix].append(at)
            passages.append(Passage(position, chunk[start:end], found[first:last]))
            first = last
    for sign in (NEGATION, TURN):
        exact.pop(sign, None)
    loose.pop("", None)
    values = [value for key in exact if (value := number(key)) is not None]
    return Index(chunks, passages, dict(exact), dict(loose), values, [_plain(chunk) for chunk in chunks])


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


_LONGEST_VALUE = 20


def number(key: str) -> float | None:
    """Return the value behind a number's key; None for other keys and for identifiers."""
    return float(key[1:]) if key[0] == "#" and len(key) <= _LONGEST_VALUE else None
