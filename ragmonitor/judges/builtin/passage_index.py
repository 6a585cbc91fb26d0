"""The chunks as a sentence sees them: which passage holds which of its terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from heapq import nlargest
from typing import Final, NamedTuple, TypeVar

from ragmonitor.judges.builtin.chinese_names import chinese_names
from ragmonitor.judges.builtin.polarity import REACH, Polarity, polarity
from ragmonitor.judges.builtin.quantities import is_year
from ragmonitor.judges.builtin.roles import Act, acts_of
from ragmonitor.judges.builtin.structured import Fields, Structured, passages_of, structured
from ragmonitor.judges.builtin.text_terms import (
    HOLDS_SIGN,
    NEGATION,
    Kind,
    Term,
    TermKeys,
    keys,
    terms,
)
from ragmonitor.judges.sentences import spans
from ragmonitor.patterns import lazy_pattern

Passages = tuple[int, ...]
"""Positions of passages, ascending. A passage is one sentence of one chunk."""

Tick = Callable[[], None]
"""Called now and then by what takes long; what it raises ends the work."""

MAX_SEARCHED: Final = 20_000_000
"""Characters of chunks that are searched for verbatim copies, over all sentences of one answer;
some 10 ms. Beyond, a copy is a sentence that stands in a chunk as a sentence of its own."""


def unlimited() -> None:
    """Do nothing: the `Tick` of work without a limit."""


MAX_KEPT_CHUNKS: Final = 128
"""Chunks whose reading is kept: a corpus is asked for the same few again and again."""
MAX_KEPT_BYTES: Final = 6_000
"""UTF-8 bytes of a chunk whose reading is kept: some 150 KB in memory, 230 KB if it is Chinese."""
MAX_KEPT_PASSAGES: Final = 1_024
"""Passages of which each of four readings is kept: what they negate, who acts, names, details."""
MAX_KEPT_CHARACTERS: Final = 1_000
"""Characters of a passage whose readings are kept."""


class Places(NamedTuple):
    """Where a key stands."""

    passages: Sequence[int]
    """Ascending."""
    windows: Sequence[int]
    """Those passages and their neighbours in the same chunk, in any order."""
    chunks: Sequence[int]
    """Positions of the chunks, ascending."""


NOWHERE: Final = Places((), (), ())


class ChunkReading(NamedTuple):
    """The reading of one chunk, shared by every answer: nothing in it is to be changed."""

    passages: Sequence[str]
    keys: Sequence[TermKeys]
    """For each passage."""
    exact: Mapping[str, Sequence[int]]
    """Maps a key to the positions, in the chunk, of the passages that hold it, ascending."""
    loose: Mapping[str, Sequence[int]]
    """Maps a prefix to the positions of passages that hold a stem beginning so."""
    plain: str
    """The chunk in lower case with single spaces."""
    structured: Structured | None
    """Its records; None: it is prose."""
    rows: int
    """The number of passages, the last ones, that are rows of records."""


def read_chunk(chunk: str, tick: Tick = unlimited) -> ChunkReading:
    """Return what the chunk says, in time linear in its length."""
    part = structured(chunk)
    rows: Sequence[str] = ()
    if part is None:
        passages = [chunk[start:end] for start, end in spans(chunk)]
    else:
        prose, rows = passages_of(part, chunk)
        passages = [*prose, *rows]
    read: list[TermKeys] = []
    for at, passage in enumerate(passages):
        if not at % _PASSAGES_PER_TICK:
            tick()
        read.append(keys(passage))
    exact, loose = _by_key(each.exact for each in read), _by_key(each.prefixes for each in read)
    return ChunkReading(passages, read, exact, loose, _plain(chunk), part, len(rows))


def _is_small(chunk: str) -> bool:
    # The first look spares the second for what is long: to encode it takes time, too.
    return len(chunk) <= MAX_KEPT_BYTES and len(chunk.encode("utf-8", "replace")) <= MAX_KEPT_BYTES


kept_reading = lru_cache(maxsize=MAX_KEPT_CHUNKS)(read_chunk)
"""Returns what `read_chunk` returns, or has returned."""


@dataclass(slots=True)
class Details:
    """The numbers, dates and names of one passage. Shared: nothing in it is to be changed."""

    by_class: Mapping[str, set[str]]
    """Maps a class of details (see `detail_class`) to the keys of that class."""
    units: Mapping[str, set[str]]
    """Maps a number's key to the units that it stands with."""


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Cache(dict[_Key, _Value]):
    """Values by key, each made when it is first asked for: few ever are."""

    def __init__(self, make: Callable[[_Key], _Value]) -> None:
        self._make = make

    def __missing__(self, key: _Key) -> _Value:
        value = self[key] = self._make(key)
        return value


class PassageIndex:
    """All passages of all chunks, and where each key stands. Lives for one answer.

    Nothing that is asked of it for one sentence takes longer for a longer passage, but for the
    first time.
    """

    def __init__(self, chunks: Sequence[str], tick: Tick = unlimited) -> None:
        """Index some chunks, in time linear in their length."""
        readings: list[ChunkReading] = []
        for chunk in chunks:
            tick()
            readings.append(kept_reading(chunk) if _is_small(chunk) else read_chunk(chunk, tick))
        texts = [text for reading in readings for text in reading.passages]
        chunk_of = [at for at, reading in enumerate(readings) for _ in reading.passages]
        plain = [reading.plain for reading in readings]
        windows: list[Passages] = []
        begins: list[int] = []
        rendered: set[int] = set()
        for reading in readings:
            first, last = len(windows), len(windows) + len(reading.passages)
            windows += _windows(first, last)
            begins.append(first)
            rendered.update(range(last - reading.rows, last))
        held = [read for reading in readings for read in reading.keys]
        self.fields = Fields([each.structured for each in readings if each.structured])
        """The fields of structured chunks."""
        self.rendered: AbstractSet[int] = rendered
        """The passages that are rows of structured chunks: what they negate, `fields` knows."""
        self.texts: Sequence[str] = texts
        """Text of each passage; of a row of a structured chunk, its keys and values."""
        self.chunk_of: Sequence[int] = chunk_of
        """For each passage, the position of its chunk."""
        self.windows: Sequence[Passages] = windows
        """For each passage, itself and its neighbours in the same chunk."""
        places = [_new(Places, ((at,), windows[at], (chunk,))) for at, chunk in enumerate(chunk_of)]
        self.exact = Postings(begins, [reading.exact for reading in readings], windows, places)
        """The places that hold a key."""
        self.loose = Postings(begins, [reading.loose for reading in readings], windows, places)
        """The places that hold a stem beginning with a prefix."""
        self.plain: Sequence[str] = plain
        """The chunks in lower case with single spaces."""
        self.keys: Sequence[TermKeys] = held
        """The keys of each passage."""
        # None of these functions holds the index: a cycle would outlive the answer.
        self.polarity: Mapping[int, Polarity] = _Cache(lambda at: _polarity(texts[at]))
        """Maps a passage to its polarity, the next to its details."""
        self.acts: Mapping[int, Sequence[Act]] = _Cache(lambda at: _acts(texts[at]))
        """Maps a passage to who does what to whom in it."""
        self.names: Mapping[int, Sequence[tuple[str, str]]] = _Cache(
            lambda at: _names_of(texts[at])
        )
        """Maps a passage to its Chinese names, by kind and text."""
        self.details: Mapping[int, Details] = _Cache(lambda at: _details_of(texts[at], held[at]))
        self.rounded: Mapping[int, set[float]] = _Cache(lambda digits: _rounded(held, digits))
        """Maps a count of significant digits to the chunks' numbers that rounding to it changes,
        rounded: half to even on the decimal digits, as `format(value, ".3g")` does it."""
        self._initials: Mapping[int, set[str]] = _Cache(
            lambda letters: {each for text in plain for each in initials(text, letters)}
        )
        self._quoted = [chunks[at] for at in sorted({chunk_of[row] for row in rendered})]
        self._some_chunks: dict[int, Sequence[int]] = {}
        self._unsearched = MAX_SEARCHED

    def find(self, terms: Sequence[Term]) -> None:
        """Find where terms stand that will be asked for: quicker than sentence by sentence."""
        found = self.exact.of({term.key for term in terms})
        self.loose.of({term.prefix for term in terms if term.key not in found})

    def some_chunks(self, places: Places, max_chunks: int) -> Sequence[int]:
        """Return the chunks of some places, ascending; of more than `max_chunks`, some."""
        if len(places.chunks) <= max_chunks:
            return places.chunks
        # By identity: the places live as long as the index, and to hash them is to read them again.
        chunks = self._some_chunks.get(id(places))
        if chunks is None:
            largest = nlargest(max_chunks, places.chunks, key=self.chunk_ranks.__getitem__)
            chunks = self._some_chunks[id(places)] = sorted(largest)
        return chunks

    def first_by_text(self, passages: Iterable[int]) -> int:
        """Return the first of some passages by its text and its neighbours', whatever their order.

        Which of those that are equal in all that is returned makes no difference.
        """
        ranks, windows = self._ranks, self.windows
        return min(passages, key=lambda at: (ranks[at], [ranks[i] for i in windows[at]], at))

    @cached_property
    def _ranks(self) -> Sequence[int]:
        """Each passage's rank by its text; equal texts have equal ranks."""
        return _ranks_of(self.texts)

    @cached_property
    def chunk_ranks(self) -> Sequence[int]:
        """Each chunk's rank by its text; equal texts have equal ranks."""
        return _ranks_of(self.plain)

    def spells_out(self, acronym: str) -> bool:
        """Return whether words with an acronym's letters, in order, stand in a chunk."""
        return acronym in self._initials[len(acronym)]

    def holds(self, sentence: str) -> bool:
        """Return whether a chunk holds a sentence word for word, whatever its spaces and case."""
        wanted = _plain(sentence).strip(_MARGIN)
        if not wanted:
            return False
        if len(self._whole) <= self._unsearched:
            self._unsearched -= len(self._whole)
            is_part = False
            for at in _places_of(wanted, self._whole):
                is_part = True
                if not _is_negated(self._whole, at):
                    return True
            if not is_part:
                return False
        # `Pets are allowed` in `No pets are allowed` is no copy; a sentence of its own is.
        return wanted in self._copies

    @cached_property
    def _whole(self) -> str:
        return "\n".join(self.plain)  # which hold no line break themselves

    @cached_property
    def _copies(self) -> set[str]:
        quotable = list(self.texts)
        if self.rendered:
            quotable += [line for chunk in self._quoted for line in chunk.splitlines()]
        return {_plain(passage).strip(_MARGIN) for passage in quotable}


def _ranks_of(texts: Sequence[str]) -> Sequence[int]:
    by_text = {text: rank for rank, text in enumerate(sorted(set(texts)))}
    return [by_text[text] for text in texts]


def _kept(read: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """Keep what is read of short passages: as with chunks, the same few are asked for again."""
    kept = lru_cache(maxsize=MAX_KEPT_PASSAGES)(read)

    @wraps(read)
    def kept_or_read(text: str) -> _Value:
        return kept(text) if len(text) <= MAX_KEPT_CHARACTERS else read(text)

    return kept_or_read


@_kept
def _polarity(text: str) -> Polarity:
    return polarity(text, terms(text))


@_kept
def _acts(text: str) -> Sequence[Act]:
    return acts_of(text, terms(text, with_pairs=False))


@_kept
def _names_of(text: str) -> Sequence[tuple[str, str]]:
    return [(name.kind, text[name.start : name.end]) for name in chinese_names(text)]


def _rounded(held: Iterable[TermKeys], digits: int) -> set[float]:
    # What has no more characters has no more digits, and stays as it is.
    numbers = {key for each in held for key in each.numbers if len(key) - 1 > digits}
    values = [value for key in numbers if (value := number(key)) is not None]
    pairs = [(value, float(f"{value:.{digits}g}")) for value in values]
    return {near for value, near in pairs if near != value}


DETAIL_KINDS: frozenset[Kind] = frozenset({"number", "date", "name"})


def detail_class(term: Term) -> str:
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


def _details_of(text: str, read: TermKeys) -> Details:
    """Return the details of a passage, out of what was read of it if that is all."""
    return _details(text) if read.figures is None else _details_among(read.figures)


@_kept
def _details(text: str) -> Details:
    return _details_among(terms(text, with_pairs=False))


def _details_among(found: Iterable[Term]) -> Details:
    by_class: dict[str, set[str]] = {}
    units: dict[str, set[str]] = {}
    for term in found:
        if term.kind in DETAIL_KINDS:
            by_class.setdefault(detail_class(term), set()).add(term.key)
            if term.kind == "number":
                units.setdefault(term.key, set()).add(term.unit)
    return Details(by_class, units)


_WORD: Final = lazy_pattern(r"\w+")
_CONNECTORS: Final = frozenset({"of", "the", "and", "for"})
_MAX_SPELLED: Final = 25
"""Letters of a word that an acronym stands for one of."""


def initials(text: str, letters: int) -> set[str]:
    """Return the initials of each run of so many words that spaces or hyphens join.

    One of `of`, `the`, `and`, `for` may stand between two words and be left out. Linear in the
    text's length.
    """
    words = [word.span() for word in _WORD.finditer(text)]
    count = len(words)
    following: list[Sequence[int]] = []
    for at, (start, end) in enumerate(words):
        near = at + 1
        if (
            near == count
            or words[near][0] != end + 1
            or text[end] not in " -"
            or not 2 <= end - start <= _MAX_SPELLED
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
    return {each for several in begun for each in several}


_PASSAGES_PER_TICK: Final = 32


class Postings:
    """Where the keys of all chunks stand, put together for those that are asked for: few ever are.

    A key has one object for its places; keys of one and the same passage share theirs.
    """

    def __init__(
        self,
        begins: Sequence[int],
        chunks: Sequence[Mapping[str, Sequence[int]]],
        windows: Sequence[Passages],
        alone: Sequence[Places],
    ) -> None:
        """Take each chunk's own posting lists, and the position of its first passage.

        `alone` has for each passage the places of what stands nowhere else.
        """
        self._windows = windows
        self._chunks = list(zip(begins, chunks, strict=True))
        self._alone = alone
        self._asked: set[str] = set()
        self._found: dict[str, Places] = {}

    def of(self, keys: AbstractSet[str]) -> Mapping[str, Places]:
        """Return the places of these keys, and perhaps others; what stands nowhere has none."""
        new = keys - self._asked
        if new:
            self._asked |= new
            self._find(dict.fromkeys(new).keys())
        return self._found

    def _find(self, keys: KeysView[str]) -> None:
        found, alone = self._found, self._alone
        several: dict[str, list[Places]] = {}
        for first, lists in self._chunks:
            for key in lists.keys() & keys:  # two views: in time linear in the fewer
                here = lists[key]
                places = alone[first + here[0]]
                if len(here) > 1:
                    places = self._several(tuple(map(first.__add__, here)))
                if key in found:
                    several.setdefault(key, [found[key]]).append(places)
                else:
                    found[key] = places
        found.update({key: _joined(parts) for key, parts in several.items()})

    def _several(self, passages: Passages) -> Places:
        """Return the places of what stands in several passages of one chunk."""
        windows = set[int]().union(*map(self._windows.__getitem__, passages))
        return _new(Places, (passages, tuple(windows), self._alone[passages[0]].chunks))


_new = tuple.__new__
"""Builds a named tuple faster than its constructor, which is written in Python."""


def _joined(parts: Sequence[Places]) -> Places:
    """Return the places in several chunks, given chunk by chunk."""
    passages: list[int] = []
    windows: list[int] = []
    chunks: list[int] = []
    for part in parts:
        passages += part.passages
        windows += part.windows
        chunks += part.chunks
    return _new(Places, (passages, windows, chunks))


def _by_key(held: Iterable[Iterable[str]]) -> Mapping[str, Sequence[int]]:
    """Return the posting lists of the passages of one chunk, whose keys are given."""
    lists: dict[str, Sequence[int]] = {}
    several: dict[str, list[int]] = {}
    for at, keys_here in enumerate(held):
        here = (at,)  # one for all its keys, most of which stand nowhere else
        for key in keys_here:
            if key not in lists:
                lists[key] = here
            elif key in several:
                several[key].append(at)
            else:
                lists[key] = several[key] = [*lists[key], at]
    return lists


def _windows(first: int, last: int) -> list[Passages]:
    """Return each passage of a chunk with its neighbours; the chunk ends before `last`."""
    windows: list[Passages] = [(at - 1, at, at + 1) for at in range(first, last)]
    if windows:
        windows[0] = windows[0][1:]
        windows[-1] = windows[-1][:-1]
    return windows


_MARGIN = " .!?。！？…*_\"'“”‘’"
"""The number of words that may differ at either end of a copy."""
_MAX_OCCURRENCES = 32
"""Places at which a copy is looked for."""


def _places_of(wanted: str, text: str) -> Iterator[int]:
    """Yield where `wanted` stands in a text and is not merely part of longer words."""
    at = -1
    for _ in range(_MAX_OCCURRENCES):
        at = text.find(wanted, at + 1)
        if at < 0:
            return
        end = at + len(wanted)
        if not (_joins(text[at - 1 : at], wanted[0]) or _joins(wanted[-1], text[end : end + 1])):
            yield at


def _is_negated(text: str, at: int) -> bool:
    """Return whether a sign of negation before a place in a text negates what stands there."""
    start = max(0, at - REACH)
    near = text[start : at + REACH]
    if not HOLDS_SIGN.search(near):
        return False
    before = [term for term in terms(near, with_pairs=False) if term.start < at - start]
    if not before or before[-1].key != NEGATION:
        return False
    return not (_CLAUSE_ENDS.search(near, before[-1].end, at - start))


_CLAUSE_ENDS: Final = lazy_pattern(r"[.!?。！？…:：;；,，|\n]")


def _joins(left: str, right: str) -> bool:
    """Return whether two neighbouring characters belong to one word; Chinese ones never tell."""
    return left.isalnum() and right.isalnum() and (left < _HAN_FROM or right < _HAN_FROM)


_HAN_FROM = "\u3000"


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


_MAX_VALUE = 20


def number(key: str) -> float | None:
    """Return the value behind a number's key; None for other keys and for identifiers."""
    return float(key[1:]) if key[0] == "#" and len(key) <= _MAX_VALUE else None
