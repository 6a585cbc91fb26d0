"""The chunks as a sentence sees them: which passage holds which of its terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from ragmonitor.judges.lexical.polarity import REACH, Polarity, polarity
from ragmonitor.judges.lexical.quantities import is_year
from ragmonitor.judges.lexical.words import NEGATION, Held, Kind, Term, keys, terms
from ragmonitor.judges.sentences import spans

Passages = tuple[int, ...]
"""Positions of passages, ascending. A passage is one sentence of one chunk."""

Tick = Callable[[], None]
"""Called now and then by what takes long; what it raises ends the work."""

SEARCHED: Final = 20_000_000
"""Characters of chunks that are searched for verbatim copies, over all sentences of one answer;
some 10 ms. Beyond, a copy is a sentence that stands in a chunk as a sentence of its own."""


def unhindered() -> None:
    """Do nothing: the `Tick` of work without a limit."""


@dataclass(slots=True)
class Notes:
    """The numbers, dates and names of one passage."""

    sorts: Mapping[str, set[str]]
    """Maps a sort (see `sort_of`) to the keys of that sort."""
    units: Mapping[str, set[str]]
    """Maps a number's key to the units that it stands with."""


@dataclass(slots=True)
class Index:
    """All passages of all chunks, and where each key stands. Lives for one answer.

    Nothing that is asked of it for one sentence takes longer for a longer passage, but for the
    first time.
    """

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
    numbers: Collection[str]
    """The keys of the chunks' different numbers."""
    plain: Sequence[str]
    """The chunks in lower case with single spaces."""
    _held: dict[int, Held] = field(default_factory=dict)
    _terms: dict[int, Sequence[Term]] = field(default_factory=dict)
    _notes: dict[int, Notes] = field(default_factory=dict)
    _polarities: dict[int, Polarity] = field(default_factory=dict)
    _chunks_of: dict[int, Sequence[int]] = field(default_factory=dict)
    _rounded: dict[int, set[float]] = field(default_factory=dict)
    _initials: dict[int, set[str]] = field(default_factory=dict)
    _ranks: Sequence[int] | None = None
    _chunk_ranks: Sequence[int] | None = None
    _whole: str | None = None
    _copies: set[str] | None = None
    _unsearched: int = SEARCHED

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

    def notes(self, passage: int) -> Notes:
        """Return a passage's numbers, dates and names."""
        found = self._notes.get(passage)
        if found is None:
            found = self._notes[passage] = _notes(terms(self.texts[passage], with_pairs=False))
        return found

    def polarity(self, passage: int) -> Polarity:
        """Return what a passage states and what it negates."""
        found = self._polarities.get(passage)
        if found is None:
            found = self._polarities[passage] = polarity(self.texts[passage], self.terms(passage))
        return found

    def chunks_of(self, places: Sequence[int], most: int) -> Sequence[int]:
        """Return the chunks of a key's or a prefix's many passages; of more than `most`, some."""
        # By identity: the lists live as long as the index, and to hash one is to read it again.
        found = self._chunks_of.get(id(places))
        if found is None:
            chunks = list(dict.fromkeys([self.chunk_of[place] for place in places]))
            if len(chunks) > most:
                chunks = sorted(nlargest(most, chunks, key=self.chunk_ranks().__getitem__))
            found = self._chunks_of[id(places)] = chunks
        return found

    def ranks(self) -> Sequence[int]:
        """Return each passage's rank by its text and its neighbours', whatever the chunks' order.

        Equal ones have different ranks: which of them is named makes no difference.
        """
        if self._ranks is None:
            texts, windows = self.texts, self.windows
            order = sorted(
                range(len(texts)), key=lambda at: (texts[at], [texts[i] for i in windows[at]])
            )
            ranks = [0] * len(order)
            for rank, at in enumerate(order):
                ranks[at] = rank
            self._ranks = ranks
        return self._ranks

    def chunk_ranks(self) -> Sequence[int]:
        """Return each chunk's rank by its text; equal texts have equal ranks."""
        if self._chunk_ranks is None:
            by_text = {text: rank for rank, text in enumerate(sorted(set(self.plain)))}
            self._chunk_ranks = [by_text[text] for text in self.plain]
        return self._chunk_ranks

    def rounded(self, digits: int) -> set[float]:
        """Return what the chunks' numbers are, rounded to significant digits, if that changes them.

        Source:
            Half to even on the decimal digits, as `format(value, ".3g")` does it.
        """
        found = self._rounded.get(digits)
        if found is None:
            values = [value for key in self.numbers if (value := number(key)) is not None]
            pairs = [(value, float(f"{value:.{digits}g}")) for value in values]
            found = self._rounded[digits] = {near for value, near in pairs if near != value}
        return found

    def spells_out(self, acronym: str) -> bool:
        """Return whether words with an acronym's letters, in order, stand in a chunk."""
        letters = len(acronym)
        found = self._initials.get(letters)
        if found is None:
            found = set()
            for text in self.plain:
                found |= initials(text, letters)
            self._initials[letters] = found
        return acronym in found

    def holds(self, sentence: str) -> bool:
        """Return whether a chunk holds a sentence word for word, whatever its spaces and case."""
        wanted = _plain(sentence).strip(_MARGIN)
        if not wanted:
            return False
        if self._whole is None:
            self._whole = "\n".join(self.plain)  # which hold no line break themselves
        if len(self._whole) <= self._unsearched:
            self._unsearched -= len(self._whole)
            stands = False
            for at in _places_of(wanted, self._whole):
                stands = True
                if not _is_turned(self._whole, at):
                    return True
            if not stands:
                return False
        # `Pets are allowed` in `No pets are allowed` is no copy; a sentence of its own is.
        if self._copies is None:
            self._copies = {_plain(passage).strip(_MARGIN) for passage in self.texts}
        return wanted in self._copies


OF_NOTE: frozenset[Kind] = frozenset({"number", "date", "name"})


def sort_of(term: Term) -> str:
    """Return what a number, date or name can be mistaken for another of.

    `name`; `month` or `weekday`; `a year`; and of other numbers, `in` with their unit.
    """
    if term.kind == "name":
        return "name"
    if term.kind == "date":
        return term.key.partition("#")[0]
    if term.unit in {"", "year"} and is_year(term.key[1:]):
        return "a year"
    return f"in {term.unit}"


def _notes(read: Iterable[Term]) -> Notes:
    sorts: dict[str, set[str]] = {}
    units: dict[str, set[str]] = {}
    for term in read:
        if term.kind in OF_NOTE:
            sorts.setdefault(sort_of(term), set()).add(term.key)
            if term.kind == "number":
                units.setdefault(term.key, set()).add(term.unit)
    return Notes(sorts, units)


_WORD: Final = re.compile(r"\w+")
_CONNECTORS: Final = frozenset({"of", "the", "and", "for"})
_LONGEST_SPELLED: Final = 25
"""Letters of a word that an acronym stands for one of."""


def initials(text: str, letters: int) -> set[str]:
    """Return the initials of so many words in a row, joined by spaces or hyphens, as texts.

    One of `of`, `the`, `and`, `for` may stand between two words and be left out. Linear in the
    text's length.
    """
    words = [(found.start(), found.end()) for found in _WORD.finditer(text)]
    count = len(words)
    following: list[Sequence[int]] = []
    for at, (start, end) in enumerate(words):
        near = at + 1
        if (
            near == count
            or words[near][0] != end + 1
            or text[end] not in " -"
            or not 2 <= end - start <= _LONGEST_SPELLED
        ):
            following.append(())
            continue
        far = near + 1
        skips = (
            far < count
            and text[words[near][0] : words[near][1]] in _CONNECTORS
            and text[words[near][1] : words[far][0]] == " "
        )
        following.append((near, far) if skips else (near,))
    # What begins at each word, of one letter more in each round.
    begun: list[Sequence[str]] = [(text[start],) if end - start > 1 else () for start, end in words]
    for _ in range(letters - 1):
        begun = [
            [text[words[at][0]] + rest for other in following[at] for rest in begun[other]]
            for at in range(count)
        ]
    return {found for several in begun for found in several}


def index(chunks: Sequence[str], tick: Tick = unhindered) -> Index:
    """Return the index of some chunks; linear in their length."""
    texts: list[str] = []
    chunk_of: list[int] = []
    windows: list[Passages] = []
    for position, chunk in enumerate(chunks):
        tick()
        found = [chunk[start:end] for start, end in spans(chunk)]
        windows += _windows(len(texts), len(texts) + len(found))
        texts += found
        chunk_of += [position] * len(found)
    exact = _Places()
    loose = _Places()
    numbers: set[str] = set()
    for at, text in enumerate(texts):
        if not at % _PASSAGES_A_TICK:
            tick()
        held = keys(text)
        exact.add(at, held.exact)
        if held.prefixes:
            loose.add(at, held.prefixes)
        if held.numbers:
            numbers.update(held.numbers)
    plain = [_plain(chunk) for chunk in chunks]
    return Index(texts, chunk_of, windows, exact.of, loose.of, numbers, plain)


_PASSAGES_A_TICK: Final = 32


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
_OCCURRENCES = 32
"""Places at which a copy is looked for."""


def _places_of(wanted: str, text: str) -> Iterator[int]:
    """Yield where `wanted` stands in a text and is not merely part of longer words."""
    at = -1
    for _ in range(_OCCURRENCES):
        at = text.find(wanted, at + 1)
        if at < 0:
            return
        end = at + len(wanted)
        if not (_joins(text[at - 1 : at], wanted[0]) or _joins(wanted[-1], text[end : end + 1])):
            yield at


def _is_turned(text: str, at: int) -> bool:
    """Return whether a negation before a place in a text turns what stands there."""
    start = max(0, at - REACH)
    near = text[start : at + REACH]
    before = [term for term in terms(near, with_pairs=False) if term.start < at - start]
    if not before or before[-1].key != NEGATION:
        return False
    return not (_CLAUSE_ENDS.search(near, before[-1].end, at - start))


_CLAUSE_ENDS: Final = re.compile(r"[.!?。！？…:：;；,，|\n]")


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
