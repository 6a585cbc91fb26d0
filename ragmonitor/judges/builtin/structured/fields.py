"""Fields of structured chunks: the words that speak of them, their rows' names, their values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from ragmonitor.judges.builtin.stems import stem
from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured import hours
from ragmonitor.judges.builtin.structured.formats import Count, Records, Row, spaced
from ragmonitor.judges.builtin.structured.hours import Token, token_of
from ragmonitor.judges.builtin.terms import Term, in_ascii, placed, terms
from ragmonitor.runtime.patterns import lazy_pattern

MAX_SHARED: Final = 16
"""Fields or rows that share a word or a name; more of them are not told apart, and not read."""
MAX_COMPARED: Final = 256
MAX_PHRASE: Final = 6
"""Words of a name or value that are looked for as one."""
MAX_VALUE: Final = 60
"""Characters of a value that is compared; longer ones are prose."""
MAX_HAN: Final = 8
"""Chinese characters of a word that is looked for."""
HAN_RUN: Final = lazy_pattern("[\u3400-\u9fff]+")
_WORD: Final = lazy_pattern(r"[^\W\d_\u3400-\u9fff]+|\d[\d,]*(?:\.\d+)?")
_EMPTY_END: Final = lazy_pattern(rf"\A(?:{words.EMPTY_HAN})(?=..)|(?<=..)(?:{words.EMPTY_HAN})\Z")
_SCALE: Final = lazy_pattern(r"(?i:(?:\d\s{0,2}/|\bout of|满分)\s{0,2}\Z)")
_DATE: Final = lazy_pattern(r"\d{2,4}[-/.年]\d{1,2}[-/.月]\d|\d{3}-\d{4}")
"""Dates, and numbers of telephones: no quantities."""
_SHORT_MINUTE: Final = lazy_pattern(r"(?<=\d):(?=\d(?!\d))")
_SEGMENT: Final = lazy_pattern("[;；,，/]")
_NO_NAME: Final = lazy_pattern(r"\W?[\d.,:%/ -]+\W?|.*[.!?。！？]")
_What = TypeVar("_What")


@lru_cache(maxsize=8_192)
def _key_of(word: str) -> str:
    return stem(word[:40].lower()) if word[0] > "9" else word.replace(",", "")


_FIRST: Final = {name.partition("_")[0] for name in words.SAME if "_" in name}
"""Words that name something together with the next one."""


def tokens(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    """Return the words and figures of a text, those that name the same as one; none of Chinese."""
    found: list[Token] = []
    same = words.SAME.get
    before = ""
    for match in _WORD.finditer(text, start, len(text) if end is None else end):
        key = _key_of(match[0])
        joined = same(f"{before}_{key}") if before in _FIRST else None
        if joined and match.start() - found[-1].end <= 1:
            found[-1] = Token(joined, found[-1].start, match.end())
            before = joined
        else:
            found.append(Token(same(key, key), match.start(), match.end()))
            before = key
    return found


@lru_cache(maxsize=8_192)
def phrase(text: str) -> str:
    """Return what equal names and values have in common: the keys of their words."""
    if not text.isascii():
        if HAN_RUN.search(text):
            return "".join(text.lower().split())
        text = in_ascii(text)
    return "|".join([token.key for token in tokens(text)])


Index = dict[str, dict[str, list[_What]]]
"""Maps the first words of names or values, and those as a whole, to what has them."""


def among(said: Sequence[Token], known: Index[_What]) -> Iterator[tuple[Token, Sequence[_What]]]:
    """Yield the phrases of an index that stand in a text, and what has them."""
    for at, first in enumerate(said):
        whole, own = "", known.get(first.key, {})
        for last in said[at : at + MAX_PHRASE] if own else ():
            whole = f"{whole}|{last.key}" if whole else last.key
            if whole in own:
                yield Token(whole, first.start, last.end), own[whole]


def _index(pairs: Iterable[tuple[str, _What]]) -> Index[_What]:
    found: Index[_What] = {}
    for said, what in pairs:
        found.setdefault(said.partition("|")[0], {}).setdefault(said, []).append(what)
    return found


Group = frozenset[str]
"""The words by which some fields are spoken of."""


@lru_cache(maxsize=4_096)
def key_words(key: str) -> tuple[Group, Group, tuple[int, ...]]:
    """Return the words by which a key is spoken of, all its words, and the days that it names."""
    every = frozenset(token.key for token in tokens(spaced(key)))
    han = [_EMPTY_END.sub("", run) for run in HAN_RUN.findall(key)]
    said = (every - words.EMPTY_KEYS) | {words.SAME.get(word, word) for word in han}
    return said, every, hours.days_of(spaced(key))


def numbers_of(text: str, content: Sequence[Term]) -> list[Token]:
    """Return the numbers among the terms of a text, but for the 5 of `4/5` and `4 out of 5`."""
    found: list[Token] = []
    last = -1
    for term in content:
        if term.kind == "number" and term.weight:
            is_scale = _SCALE.search(text, max(0, term.at - 12), term.at)
            if not is_scale and not (term.at == last and "/" in term.surface):
                found.append(token_of(term))
        last = term.at
    return found


class Value(NamedTuple):
    """What the value of a cell reads as."""

    truth: bool | None = None
    """What a value that affirms or denies says."""
    is_null: bool = False
    """Whether it has no value."""
    numbers: Sequence[str] = ()
    """Their keys."""
    amounts: Sequence[float] = ()
    """The same as numbers; of identifiers their first digits'."""
    times: Sequence[Token] = ()
    phrase: str = ""
    """What equal values have in common; of one that affirms, denies or is long nothing."""


@lru_cache(maxsize=8_192)
def value_of(value: str | bool | None) -> Value:
    """Return what a value reads as: the same ones come again and again. A long one is prose."""
    if isinstance(value, str) and len(value) > MAX_VALUE:
        return Value()
    low = str(value).strip().lower()
    says = True if low in words.YES else False if low in words.NO else None
    if value is None or low in words.NULL:
        return Value(says, is_null=True)
    if not isinstance(value, str):
        return Value(value)
    numbers: Sequence[str] = ()
    times: Sequence[Token] = ()
    if any(term.kind in {"number", "time"} or term.key in hours.NAMED for term in terms(value)):
        content = placed(_SHORT_MINUTE.sub(":0", value))
        times = hours.times(content)
        if not times and not _DATE.search(value):
            numbers = [number.key for number in numbers_of(value, content)]
    amounts = [float(key[1:20]) for key in numbers]
    return Value(says, False, numbers, amounts, times, phrase(value) if says is None else "")


@dataclass(eq=False)
class Fact:
    """One cell, or the number of items of a list, and the words that speak of it."""

    rows: tuple[Row, ...]
    """Its row and those around it, from the inside."""
    column: tuple[str, ...]
    """The keys that lead to it."""
    cell: str | bool | None
    said: Group
    is_count: bool
    """Whether it is the number of items of a list."""

    @cached_property
    def value(self) -> Value:
        """What it reads as."""
        return value_of(self.cell)

    @property
    def path(self) -> str:
        """The names of the row and the objects around it, and the key."""
        name = name_of(self.rows[0]) if self.rows[0].is_listed else ""
        return ".".join(filter(None, (name, *self.column)))

    @property
    def label(self) -> str:
        """The field and its value, as a finding names them."""
        value = "null" if self.value.is_null else str(self.cell)
        shown = value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 1]}…"
        return f"{self.path}: {shown}"


class Fields:
    """The fields of a chunk, the names of its rows, and their opening hours by days."""

    def __init__(self, records: Records) -> None:
        """Read the rows of a chunk, in time linear in their number."""
        self.facts: list[Fact] = []
        self.names: list[tuple[str, Row]] = []
        self.hours: list[tuple[Row, int, Fact]] = []
        for row in records.rows:
            rows = row, *row.around
            named = key_words(row.keys[-1])[0] if row.keys else frozenset[str]()
            own = "" if row.is_listed else spaced("".join(row.keys[-1:]))
            self.names += [(name, row) for name in {phrase(name_of(row)), phrase(own)}]
            for key, cell in row.cells:
                said, every, days = key_words(key)
                is_count = isinstance(cell, Count)
                value = f"{cell} items" if isinstance(cell, Count) else cell
                fact = Fact(rows, (*row.keys, key), value, said or named or every, is_count)
                self.facts.append(fact)
                if days or "hour" in said or "hour" in every:
                    self.hours += _hours(fact, days)

    @cached_property
    def values(self) -> list[tuple[str, Fact]]:
        """The values and numbers of the fields."""
        facts = [f for f in self.facts if isinstance(f.cell, str) and not f.is_count]
        return [(each, f) for f in facts for each in (f.value.phrase, *f.value.numbers)]

    @cached_property
    def table(self) -> FieldTable:
        """The fields of an answer with this chunk alone."""
        return FieldTable([self])


def _hours(fact: Fact, days: tuple[int, ...]) -> Iterator[tuple[Row, int, Fact]]:
    """Yield the opening hours that a field gives: `Monday: 9-17`, or `hours: Mon-Fri 9-17`."""
    text = fact.cell if isinstance(fact.cell, str) else ""
    # The days of a week are fields of the row that has the hours.
    is_of_week = days and not fact.rows[0].is_listed and len(fact.rows) > 1
    for part in _SEGMENT.split(text) if len(text) <= 4 * MAX_VALUE else ():
        own = replace(fact, cell=part.strip() or None)
        days = hours.days_of(part) or days
        if len(own.value.times) > 1 or own.value.is_null or hours.CLOSED.search(part):
            for day in days or (range(1, 8) if text else ()):
                yield fact.rows[1 if is_of_week else 0], day, own


class FieldTable:
    """The fields of all chunks of an answer."""

    def __init__(self, chunks: Sequence[Fields]) -> None:
        """Find what is spoken of by the same words, and by which names."""
        self._chunks = chunks
        self.groups: dict[Group, list[Fact]] = defaultdict(list)
        self.by_word: dict[str, list[Group]] = defaultdict(list)
        """Maps a word to the groups that are spoken of by it, among others."""
        self.names = _index(name for chunk in chunks for name in chunk.names)
        self.weeks: dict[Row, dict[int, list[Fact]]] = defaultdict(lambda: defaultdict(list))
        """The opening hours of rows, by days."""
        for chunk in chunks:
            for fact in chunk.facts:
                self.groups[fact.said].append(fact)
            for row, day, fact in chunk.hours:
                self.weeks[row][day].append(fact)
        for group in self.groups:
            for word in group:
                self.by_word[word].append(group)

    @cached_property
    def values(self) -> Index[Fact]:
        """The fields by their values and numbers; none if no two have the same words."""
        several = any(len(facts) > 1 for facts in self.groups.values())
        return _index(each for chunk in self._chunks if several for each in chunk.values)

    @cached_property
    def han(self) -> set[str]:
        """The Chinese words by which anything is spoken of, and their first characters."""
        values = [fact.value.phrase for facts in self.groups.values() for fact in facts]
        every = (*self.by_word, *chain(*self.names.values()), *values, *words.SAME, *words.DERIVED)
        said = [each for each in every if len(each) <= MAX_HAN and not each.isascii()]
        return {*said, *(each[0] for each in said)}

    def weeks_of(self, named: Iterable[Row]) -> list[dict[int, list[Fact]]]:
        """Return the opening hours of the rows that are named; all if none of theirs is."""
        own = [self.weeks[row] for row in named if row in self.weeks]
        return own or list(self.weeks.values())

    def of(self, group: Group, named: Iterable[Row]) -> Sequence[Fact]:
        """Return the facts of the rows that are named, and counts; all if none of theirs is.

        Of rows within rows, those count that have the fewest.
        """
        facts = self.groups[group]
        if len(facts) > MAX_COMPARED:
            return ()
        own = [found for row in named if (found := [f for f in facts if row in f.rows])]
        few = min(map(len, own), default=0)
        chosen = [*chain.from_iterable(each for each in own if len(each) == few)]
        return [*chosen, *(fact for fact in facts if fact.is_count)] if chosen else facts


def name_of(row: Row) -> str:
    """Return what a row is called: its name, or the first text of one of several."""
    texts = [(k.lower(), v) for k, v in row.cells if isinstance(v, str) and len(v) <= MAX_VALUE]
    for key, value in texts:
        if key in words.NAMES:
            return value
    for _, value in texts if row.is_listed else ():
        says_little = value_of(value).truth is not None or _NO_NAME.fullmatch(value)
        if value and not says_little:
            return value
    return ""
