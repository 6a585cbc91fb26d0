"""The chunks as an answer asks them: which hold a key, and which keys stand beside each other."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import fsum
from operator import itemgetter
from sys import getsizeof
from typing import Final

from ragmonitor.judges.builtin.names import ACTS, Acts, acts_of, chinese_names
from ragmonitor.judges.builtin.polarity import (
    SIGNS,
    Polarity,
    chinese_polarity,
    denied_in_chinese,
    denied_in_english,
    english_polarity,
)
from ragmonitor.judges.builtin.quantities import number_of
from ragmonitor.judges.builtin.stems import stem
from ragmonitor.judges.builtin.structured.fields import Fields, FieldTable
from ragmonitor.judges.builtin.structured.formats import records_of, rendered
from ragmonitor.judges.builtin.terms import (
    Key,
    Term,
    chunk_keys,
    pair_key,
    pair_keys,
    pair_of,
    simplified,
    terms,
)
from ragmonitor.judges.sentences import HAN
from ragmonitor.runtime.patterns import lazy_pattern

Tick = Callable[[], None]
"""Called now and then by what takes long; what it raises ends the work."""

MAX_KEPT_BYTES: Final = 96 * 2**20
"""Memory, about, of the readings of chunks that are kept. Of chunks of 500 characters it holds
10,000 in English, 2,000 in Chinese or of records."""
MAX_KEPT_CHUNK: Final = 6_000
"""Characters of a chunk whose reading is kept."""
_MAX_PASSAGE: Final = 60
"""Keys of a passage without a border."""
_MAX_PASSAGES: Final = 64
"""Passages of a chunk in which opposites are looked for: the first some 6,000 characters."""
_MAX_SIMILAR: Final = 3
MAX_CLOSE: Final = 2
"""Chunks that a sentence is compared with closely: those that hold most of it."""
_MAX_HELD: Final = 300
"""Chunks with one key that are told apart; more of them tell no place."""


def unlimited() -> None:
    """Do nothing: the `Tick` of work without a limit."""


class Passage:
    """A sentence of the prose of a chunk, by its keys or, if it is Chinese, by its text."""

    def __init__(self, order: Sequence[Key], text: str) -> None:
        """Keep it."""
        self.text = text
        self._order = order

    @cached_property
    def keys(self) -> set[Key]:
        """Its keys."""
        return pair_keys(self.text) if self.text else set(self._order)

    def share(self, wanted: Mapping[Key, float]) -> float:
        """Return the weight of some keys that it holds."""
        return fsum(map(wanted.__getitem__, wanted.keys() & self.keys))

    @cached_property
    def polarity(self) -> Polarity:
        """What it states and what it negates."""
        return chinese_polarity(self.text) if self.text else english_polarity(self._order)

    @cached_property
    def denied(self) -> set[Key]:
        """The keys that it may negate, of opposites the one that stands for both."""
        if self.text:
            return denied_in_chinese(self.text, self.keys)
        return denied_in_english(self._order)


_SPACED: Final = lazy_pattern(rf" (?:(?<=[{HAN}] )(?=[{HAN}\d])|(?<=\d )(?=[{HAN}]))")
"""Spaces between Chinese characters, as some PDFs have them, and around figures."""
_WEEKDAYS: Final = [f"~w{day}" for day in range(1, 6)]
_WEEKDAY: Final[tuple[Key, ...]] = (stem("weekday"), pair_key("工作"), pair_key("作日"))


class Chunk:
    """One chunk. Its keys are read at once; its passages when one is first compared closely."""

    def __init__(self, text: str) -> None:
        """Read a chunk, in time linear in its length."""
        self._as_written = text = simplified(text)
        self.text = text = text if text.isascii() else _SPACED.sub("", text)
        self.records = records_of(text)
        self.prose, self._rows = rendered(self.records, text) if self.records else (text, [])
        self._said = "\n".join([self.prose, *self._rows])
        self.keys, self.order, self.is_chinese = chunk_keys(self._said)
        if "~w1" in self.keys and "~w5" in self.keys:  # Monday to Friday are weekdays
            self.keys.update(_WEEKDAYS, _WEEKDAY)
        elif _WEEKDAY[0] in self.keys or _WEEKDAY[2] in self.keys:
            self.keys.update(_WEEKDAYS)

    @cached_property
    def fields(self) -> Fields | None:
        """Its fields, if it is structured."""
        return Fields(self.records) if self.records else None

    @cached_property
    def kinds(self) -> set[str]:
        """The first signs of its keys in order: `#` of numbers; and `name` where a name stands."""
        kinds = {str(key)[0] for key in self.order}
        return kinds | {"name"} if _INNER_CAPITAL.search(self.text) else kinds

    @cached_property
    def names(self) -> set[tuple[str, str]]:
        """Its Chinese names, by kind and text."""
        return {(each.kind, self.text[each.start : each.end]) for each in chinese_names(self.text)}

    @cached_property
    def acts(self) -> Acts:
        """Who does what to whom in it, if it is Chinese."""
        verbs = [pair_of(key) for key in ACTS & self.keys]
        said = [p.text for p in self.passages if any(verb in p.text for verb in verbs)]
        return acts_of("\n".join(said))

    @cached_property
    def units(self) -> dict[str, tuple[str, ...]]:
        """The keys of its numbers, in order, and those of the units behind each; empty: none."""
        found: dict[str, tuple[str, ...]] = {}
        order = [*map(str, self.order), "."]
        for at in [at for at, key in enumerate(order) if key[0] == "#"]:
            behind = order[at + 1]
            unit, known = behind if behind[0] == "°" else "", found.get(order[at], ())
            found[order[at]] = known if unit in known else (*known, unit)
        return found

    @cached_property
    def numbers(self) -> list[tuple[float, Key]]:
        """Its numbers, with their units."""
        values = [(number_of(key), units) for key, units in self.units.items()]
        return [(value, unit) for value, units in values if value is not None for unit in units]

    @cached_property
    def initials(self) -> str:
        """The first characters of its words, and again without small words."""
        said = self.text.lower().replace("-", " ").split()
        long = [each for each in said if each not in {"of", "the", "and", "for"}]
        return " ".join(["".join([each[0] for each in words]) for words in (said, long)])

    @cached_property
    def times(self) -> list[int]:
        """The minutes of its times of day, in order."""
        keys = [str(key) for key in self.order if str(key)[0] == "@"]
        return list(dict.fromkeys(int(key[1:].rstrip("?")) for key in keys))

    @cached_property
    def plain(self) -> str:
        """The text in lower case with single spaces."""
        return " ".join(self._as_written.lower().split())

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        """Where the first sentences of its prose begin and end, of English prose."""
        bounds: list[tuple[int, int]] = []
        at = 0
        for left in range(self._prose_order.count("."), -1, -1):
            end = self._prose_order.index(".", at) if left else len(self._prose_order)
            bounds += [
                (first, min(end, first + _MAX_PASSAGE)) for first in range(at, end, _MAX_PASSAGE)
            ]
            at = end + 1
        return bounds[:_MAX_PASSAGES]

    @cached_property
    def _prose_order(self) -> list[Key]:
        """The keys of its prose, in order; what a record denies, its fields know."""
        return chunk_keys(self.prose).order if self._rows else self.order

    @cached_property
    def passages(self) -> list[Passage]:
        """The first sentences of its prose."""
        if self.is_chinese:
            parts = [part for part in _CHINESE_END.split(self.prose) if part.strip()]
            return [Passage((), part) for part in parts[:_MAX_PASSAGES]]
        return [Passage(self._prose_order[start:end], "") for start, end in self._bounds]

    @cached_property
    def denying(self) -> list[Passage]:
        """Those that have a sign of negation; if Chinese, those that may negate something."""
        if self.is_chinese:
            return [passage for passage in self.passages if passage.denied]
        if SIGNS.isdisjoint(self.keys):
            return []
        said = [self._prose_order[start:end] for start, end in self._bounds]
        return [Passage(order, "") for order in said if not SIGNS.isdisjoint(order)]

    def similar(self, wanted: Mapping[Key, float], least: float) -> list[Passage]:
        """Return the passages that hold most of some weighted keys, best first, and so much."""
        shares = [passage.share(wanted) for passage in self.passages]
        best = sorted(zip(shares, self.passages, strict=True), key=itemgetter(0), reverse=True)
        return [passage for share, passage in best[:_MAX_SIMILAR] if share and share >= least]

    def size_bytes(self) -> int:
        """Return about how much memory it takes once sentences have been compared with it."""
        cells = sum(len(row.cells) for row in self.records.rows) if self.records else 0
        integers = 32 * len(self.keys) if self.is_chinese else 0
        kept = getsizeof(self.keys) + getsizeof(self.order) + len(self.text) * 4 + integers
        return 2 * kept + 1_000 * cells


_INNER_CAPITAL: Final = lazy_pattern("[a-z,] [A-Z]")
_CHINESE_END: Final = lazy_pattern("(?<=[。！？；])|\n+|(?<=[.!?;])\\s+")


class _ReadChunks:
    """The readings of the chunks that were used last: a corpus is asked for the same again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Chunk, int]] = OrderedDict()
        self._size_bytes = 0

    def read(self, text: str) -> Chunk:
        """Return the reading of a chunk, kept or new."""
        if text in self._kept:
            self._kept.move_to_end(text)
            return self._kept[text][0]
        chunk = Chunk(text)
        if len(text) <= MAX_KEPT_CHUNK:
            size = chunk.size_bytes()
            self._kept[text] = chunk, size
            self._size_bytes += size
            while self._size_bytes > MAX_KEPT_BYTES:
                self._size_bytes -= self._kept.popitem(last=False)[1][1]
        return chunk

    def clear(self) -> None:
        """Forget every chunk."""
        self._kept.clear()
        self._size_bytes = 0


kept_chunks: Final = _ReadChunks()


class Evidence:
    """The chunks of one answer, and where its keys stand in them."""

    def __init__(
        self, chunks: Sequence[str], sentences: Iterable[Sequence[Key]], tick: Tick = unlimited
    ) -> None:
        """Find the keys of some sentences, and the pairs of neighbours among them."""
        self.chunks: list[Chunk] = []
        for text in chunks:
            tick()
            self.chunks.append(kept_chunks.read(text))
        asked: set[Key] = set()
        pairs: set[tuple[Key, Key]] = set()
        for keys in sentences:
            asked.update(keys)
            pairs.update(pairwise(keys))
        self.where: dict[Key, list[int]] = {}
        """Maps a key to the chunks that hold it."""
        self.beside: set[tuple[Key, Key]] = set()
        """The pairs of keys that are neighbours in a chunk, too."""
        # By their texts, so that the order of the chunks makes no difference to what is looked at.
        for at in sorted(range(len(chunks)), key=chunks.__getitem__):
            chunk = self.chunks[at]
            for key in asked & chunk.keys:
                self.where.setdefault(key, []).append(at)
            neighbours = pairwise(chunk.order)
            self.beside.update(filter(pairs.__contains__, neighbours))
        fields = [chunk.fields for chunk in self.chunks if chunk.fields]
        self.table = FieldTable(fields) if len(fields) > 1 else None
        if len(fields) == 1:
            self.table = fields[0].table
        """The fields of structured chunks; None: all are prose."""

    def held(self, content: Iterable[Term]) -> dict[int, float]:
        """Return the weight of some terms that each chunk holds, where it holds any."""
        held: dict[int, float] = {}
        for term in content:
            if term.weight:
                for chunk in self.where.get(term.key, ())[:_MAX_HELD]:
                    held[chunk] = held.get(chunk, 0.0) + term.weight
        return held

    def closest(self, held: Mapping[int, float]) -> list[Chunk]:
        """Return the chunks that hold most of a sentence; texts break ties."""
        places: Sequence[int] = list(held)
        if len(places) > 1:
            places = sorted(held, key=lambda at: (held[at], self.chunks[at].text), reverse=True)
        return [self.chunks[at] for at in places[:MAX_CLOSE]]

    @cached_property
    def numbers(self) -> dict[tuple[float, Key], None]:
        """The different numbers of all chunks, with their units."""
        return dict.fromkeys([each for chunk in self.chunks for each in chunk.numbers])

    @cached_property
    def _values(self) -> list[float]:
        return sorted([value for value, _ in self.numbers])

    def has_rounded(self, value: float, digits: int) -> bool:
        """Return whether a number of the chunks is `value`, rounded to so many significant digits.

        If any is, so is one of the two that are nearest.
        """
        at = bisect_left(self._values, value)
        nearest = self._values[max(0, at - 1) : at + 1]
        return any(float(f"{each:.{digits}g}") == value for each in nearest)

    @cached_property
    def initials(self) -> str:
        """The first characters of the words of all chunks."""
        return "\n".join([chunk.initials for chunk in self.chunks])

    @cached_property
    def _plain(self) -> str:
        return "\n".join([chunk.plain for chunk in self.chunks])

    def holds(self, sentence: str) -> bool:
        """Return whether a chunk holds a sentence word for word and does not deny it."""
        wanted = " ".join(sentence.lower().split()).strip(" .!?。！？\"'“”")
        at = self._plain.find(wanted) if wanted else -1
        if at < 0:
            return False
        before = re.split("[.,;。，；\n]", self._plain[max(0, at - 24) : at])[-1]
        return not any(term.kind == "negation" for term in terms(before))
