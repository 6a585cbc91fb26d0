"""Fields of structured chunks: the words that speak of them, their rows' names, their values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from ragmonitor.judges.builtin.stems import stem
from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured import hours
from ragmonitor.judges.builtin.structured.formats import Count, Records, Row, Scalar, spaced
from ragmonitor.judges.builtin.structured.hours import Token, token_of
from ragmonitor.judges.builtin.terms import Term, in_ascii, placed
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


def tokens(text: str) -> list[Token]:
    """Return the words and figures of a text, those that name the same as one; none of Chinese."""
    found: list[Token] = []
    same = words.SAME.get
    before = ""
    for match in _WORD.finditer(text):
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
    if HAN_RUN.search(text):
        return "".join(text.lower().split())
    return "|".join([token.key for token in tokens(in_ascii(text))])


class Phrases(dict[str, list[_What]]):
    """Names or values, and what has them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._first: set[str] = set()

    def add(self, said: str, what: Iterable[_What]) -> None:
        """Add what has a phrase; an empty one says nothing."""
        if said:
            self.setdefault(said, []).extend(what)
            self._first.add(said.partition("|")[0])

    def among(self, said: Sequence[Token]) -> Iterator[Token]:
        """Yield the phrases that stand in a text."""
        for at, first in enumerate(said):
            joined = ""
            for last in said[at : at + MAX_PHRASE] if first.key in self._first else ():
                joined = f"{joined}|{last.key}" if joined else last.key
                if joined in self:
                    yield Token(joined, first.start, last.end)


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


def amount(key: str) -> float:
    """Return the value of a number by its key; of an identifier, its first digits'."""
    return float(key[1:20])


class Value(NamedTuple):
    """What the value of a cell reads as."""

    truth: bool | None = None
    """What a value that affirms or denies says."""
    is_null: bool = False
    """Whether it has no value."""
    numbers: Sequence[str] = ()
    """Their keys."""
    times: Sequence[Token] = ()
    phrase: str = ""
    """What equal values have in common; of one that affirms, denies or is long nothing."""


@lru_cache(maxsize=8_192, typed=True)
def value_of(value: Scalar) -> Value:
    """Return what a value reads as: the same ones come again and again. A long one is prose."""
    if isinstance(value, Count):
        return Value(numbers=(f"#{value}",))
    if isinstance(value, str) and len(value) > MAX_VALUE:
        return Value()
    low = str(value).strip().lower()
    says = True if low in words.YES else False if low in words.NO else None
    if value is None or low in words.NULL:
        return Value(says, is_null=True)
    if not isinstance(value, str):
        return Value(value)
    content = placed(_SHORT_MINUTE.sub(":0", value))
    times = hours.times(content)
    is_quantity = not times and not _DATE.search(value)
    numbers = [number.key for number in numbers_of(value, content)] if is_quantity else []
    return Value(says, False, numbers, times, phrase(value) if says is None else "")


class Fact(NamedTuple):
    """One cell, or the number of items of a list, and the words that speak of it."""

    rows: tuple[Row, ...]
    """Its row and those around it, from the inside."""
    column: tuple[str, ...]
    """The keys that lead to it."""
    cell: Scalar
    said: frozenset[str]
    is_count: bool
    """Whether it is the number of items of a list."""

    @property
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
        value = "null" if self.value.is_null else str(self.cell) + " items" * self.is_count
        shown = value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 1]}…"
        return f"{self.path}: {shown}"


class FieldTable:
    """The fields of a chunk, or of all chunks of an answer."""

    def __init__(self) -> None:
        """Begin with none."""
        self.groups: dict[Group, list[Fact]] = defaultdict(list)
        """The fields that are spoken of by the same words."""
        self.names: Phrases[Row] = Phrases()
        """The rows by their names."""
        self.schedules: dict[Row, hours.Schedule] = defaultdict(hours.Schedule)
        """The opening hours of rows."""
        self._parts: Sequence[FieldTable] = [self]

    @classmethod
    def read(cls, records: Records) -> FieldTable:
        """Return the fields of a chunk, in time linear in their number."""
        table = cls()
        for row in records.rows:
            rows = row, *row.around
            named = key_words(row.keys[-1])[0] if row.keys else frozenset[str]()
            own = "" if row.is_listed else spaced("".join(row.keys[-1:]))
            for name in {phrase(name_of(row)), phrase(own)}:
                table.names.add(name, [row])
            for key, cell in row.cells:
                said, every, days = key_words(key)
                speaking = said or named or every
                fact = Fact(rows, (*row.keys, key), cell, speaking, isinstance(cell, Count))
                if fact.said:
                    table.groups[fact.said].append(fact)
                if days or "hour" in said or "hour" in every:
                    table._add_hours(fact, days)
        return table

    def _add_hours(self, fact: Fact, days: tuple[int, ...]) -> None:
        """Add the opening hours that a field gives: `Monday: 9-17`, or `hours: Mon-Fri 9-17`."""
        text = fact.cell if isinstance(fact.cell, str) else ""
        # The days of a week are fields of the row that has the hours.
        is_of_week = days and not fact.rows[0].is_listed and len(fact.rows) > 1
        owner = fact.rows[1 if is_of_week else 0]
        if days and fact.value.is_null:
            self.schedules[owner].add(days, "", (), fact.path)
        for part in map(str.strip, _SEGMENT.split(text) if len(text) <= 4 * MAX_VALUE else ()):
            days, times = hours.days_of(part) or days, value_of(part).times
            if len(times) > 1 or hours.CLOSED.search(part):
                self.schedules[owner].add(days or tuple(range(1, 8)), part, times, fact.path)

    @classmethod
    def joined(cls, tables: Sequence[FieldTable]) -> FieldTable:
        """Return the fields of several chunks together."""
        if len(tables) == 1:
            return tables[0]
        whole = cls()
        whole._parts = tables
        for table in tables:
            for said, facts in table.groups.items():
                whole.groups[said] += facts
            for name, rows in table.names.items():
                whole.names.add(name, rows)
            whole.schedules |= table.schedules
        return whole

    @cached_property
    def by_word(self) -> dict[str, list[Group]]:
        """Maps a word to the groups that are spoken of by it, among others."""
        found: dict[str, list[Group]] = defaultdict(list)
        for name in self.groups:
            for word in name:
                found[word].append(name)
        return found

    @cached_property
    def values(self) -> Phrases[Fact]:
        """The fields by their values and numbers; none if no two have the same words."""
        found: Phrases[Fact] = Phrases()
        if any(len(facts) > 1 for facts in self.groups.values()):
            for part in self._parts:
                for value, facts in part.own_values.items():
                    found.add(value, facts)
        return found

    @cached_property
    def own_values(self) -> dict[str, list[Fact]]:
        """The same of a chunk."""
        found: dict[str, list[Fact]] = defaultdict(list)
        for fact in chain.from_iterable(self.groups.values()):
            for each in (fact.value.phrase, *fact.value.numbers) if not fact.is_count else ():
                found[each].append(fact)
        return found

    @cached_property
    def han(self) -> set[str]:
        """The Chinese words by which anything is spoken of, and their first characters."""
        values = [fact.value.phrase for facts in self.groups.values() for fact in facts]
        every = (*self.by_word, *self.names, *values, *words.SAME, *words.DERIVED)
        said = [each for each in every if len(each) <= MAX_HAN and not each.isascii()]
        return {*said, *(each[0] for each in said)}

    def schedules_of(self, named: Iterable[Row]) -> list[hours.Schedule]:
        """Return the opening hours of the rows that are named; all if none of theirs is."""
        own = [self.schedules[row] for row in named if row in self.schedules]
        return own or list(self.schedules.values())

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
