"""Fields of structured chunks: the words that speak of them, their rows' names, their values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.stems import stem
from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured import hours
from ragmonitor.judges.builtin.structured.formats import Records, Row, Scalar, spaced
from ragmonitor.judges.builtin.terms import Term, placed
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
_WORD: Final = lazy_pattern(
    r"(?P<word>(?!lot of\b)[^\W\d_\u3400-\u9fff]+)|(?P<figure>\d[\d,]*(?:\.\d+)?)"
)
_EMPTY_END: Final = lazy_pattern(rf"\A(?:{words.EMPTY_HAN})(?=..)|(?<=..)(?:{words.EMPTY_HAN})\Z")
_SCALE: Final = lazy_pattern(r"(?i:(?:\d\s{0,2}/|\bout of|满分)\s{0,2}\Z)")
_DATE: Final = lazy_pattern(r"\d{2,4}[-/.年]\d{1,2}[-/.月]\d|\d{3}-\d{4}")
"""Dates, and numbers of telephones: no quantities."""
_SHORT_MINUTE: Final = lazy_pattern(r"(?<=\d):(?=\d(?!\d))")
_SEGMENT: Final = lazy_pattern("[;；,，/]")
_NO_NAME: Final = lazy_pattern(r"\W?[\d.,:%/ -]+\W?|.*[.!?。！？]")
_MAX_DEPTH: Final = 4

Place = object
"""A row, known by itself: those of several chunks are told apart."""


class Token(NamedTuple):
    """A word or figure of a text."""

    key: str
    start: int
    end: int


@lru_cache(maxsize=8_192)
def _key_of(word: str) -> str:
    return stem(word[:40].lower())


def tokens(text: str) -> list[Token]:
    """Return the words and figures of a text, those that name the same as one; none of Chinese."""
    found: list[Token] = []
    before = ""
    for match in _WORD.finditer(text):
        word = match["word"]
        key = _key_of(word) if word else match["figure"].replace(",", "")
        joined = words.SAME.get(f"{before}_{key}")
        if joined and match.start() - found[-1].end <= 1:
            found[-1] = Token(joined, found[-1].start, match.end())
            before = joined
        else:
            found.append(Token(words.SAME.get(key, key), *match.span()))
            before = key
    return found


@lru_cache(maxsize=8_192)
def phrase(text: str) -> str:
    """Return what equal names and values have in common."""
    if HAN_RUN.search(text):
        return "".join(text.lower().split())
    return "|".join([token.key for token in tokens(text)])


class KeyWords(NamedTuple):
    """A key as words."""

    said: frozenset[str]
    """By which it is spoken of."""
    every: frozenset[str]
    days: tuple[int, ...]
    """The days that it names."""


@lru_cache(maxsize=4_096)
def key_words(key: str) -> KeyWords:
    """Return the words of a key."""
    every = frozenset(token.key for token in tokens(spaced(key)))
    han = [_EMPTY_END.sub("", run) for run in HAN_RUN.findall(key)]
    said = (every - words.EMPTY_KEYS) | {words.SAME.get(word, word) for word in han}
    return KeyWords(said, every, _days_of(spaced(key)))


def _days_of(text: str) -> tuple[int, ...]:
    return tuple(day for _, which in hours.days(text) for day in which)


def numbers_of(text: str, content: Sequence[Term]) -> list[Term]:
    """Return the numbers among the terms of a text, but for the 5 of `4/5` and `4 out of 5`."""
    return [
        term
        for before, term in pairwise([None, *content])
        if term
        and term.kind == "number"
        and term.weight
        and not (before and before.at == term.at and "/" in term.surface)
        and not _SCALE.search(text, max(0, term.at - 12), term.at)
    ]


def amount(key: object) -> float:
    """Return the value of a number by its key; of an identifier, its first digits'."""
    return float(str(key)[1:20])


class Value(NamedTuple):
    """The value of a cell, and what it reads as."""

    text: Scalar
    truth: bool | None = None
    """What a value that affirms or denies says."""
    is_null: bool = False
    """Whether it has no value."""
    numbers: Sequence[str] = ()
    """Their keys."""
    times: Sequence[Term] = ()
    phrase: str = ""
    """What equal values have in common; of one that affirms, denies or is long nothing."""


@lru_cache(maxsize=4_096)
def value_of(value: Scalar) -> Value:
    """Return what a value reads as: the same ones come again and again. A long one is prose."""
    if isinstance(value, str) and len(value) > MAX_VALUE:
        return Value(value)
    low = str(value).strip().lower()
    says = True if low in words.YES else False if low in words.NO else None
    if value is None or low in words.NULL:
        return Value(value, says, is_null=True)
    if not isinstance(value, str):
        return Value(value, value)
    content = placed(_SHORT_MINUTE.sub(":0", value))
    times = hours.times(content)
    is_quantity = not times and not _DATE.search(value)
    numbers = [str(term.key) for term in numbers_of(value, content)] if is_quantity else []
    return Value(value, says, False, numbers, times, phrase(value) if says is None else "")


class Fact(NamedTuple):
    """One cell, or the number of items of a list, and the words that speak of it."""

    rows: tuple[Place, ...]
    """Its row and those around it, from the inside."""
    path: str
    """The names of the row, the objects around it, and the key."""
    value: Value
    said: frozenset[str]
    column: tuple[str, ...] = ()
    """The keys that lead to it; without any it is the number of items of a list."""

    @property
    def label(self) -> str:
        """The field and its value, as a finding names them."""
        value = "null" if self.value.is_null else str(self.value.text)
        shown = value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 1]}…"
        return f"{self.path}: {shown}"


class FieldTable:
    """The fields of a chunk, or of all chunks of an answer."""

    def __init__(
        self,
        facts: Sequence[Fact],
        names: Sequence[tuple[str, Place]],
        schedules: dict[Place, hours.Schedule],
    ) -> None:
        """Read the fields, the names of rows, and the opening hours of rows."""
        self.facts, self.names, self.schedules = facts, names, schedules
        self.groups: dict[frozenset[str], list[Fact]] = defaultdict(list)
        """The fields that are spoken of by the same words."""
        for fact in facts:
            self.groups[fact.said].append(fact)
        self.by_name: dict[str, list[Place]] = defaultdict(list)
        """Maps a name to the rows that it names."""
        for name, row in names:
            self.by_name[name].append(row)

    @cached_property
    def by_value(self) -> dict[str, list[Fact]]:
        """Maps a phrase or a number to the fields that have it as a value."""
        found: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            for each in (fact.value.phrase, *fact.value.numbers):
                found[each].append(fact)
        found.pop("", None)
        return found

    @cached_property
    def by_word(self) -> dict[str, list[frozenset[str]]]:
        """Maps a word to the groups that are spoken of by it, among others."""
        found: dict[str, list[frozenset[str]]] = defaultdict(list)
        for name in self.groups:
            for word in name:
                found[word].append(name)
        return found

    @cached_property
    def han(self) -> set[str]:
        """The Chinese words by which anything is spoken of."""
        every = (*self.by_word, *self.by_value, *self.by_name)
        return {each for each in every if len(each) <= MAX_HAN and not each.isascii()}

    @classmethod
    def read(cls, records: Records) -> FieldTable:
        """Return the fields of a chunk, in time linear in their number."""
        facts: list[Fact] = []
        names: list[tuple[str, Place]] = []
        schedules: dict[Place, hours.Schedule] = defaultdict(hours.Schedule)
        places: list[tuple[Place, ...]] = []
        for row in records.rows:
            around = places[row.parent][:_MAX_DEPTH] if row.parent >= 0 else ()
            places.append((object(), *around))
            name = _name(row)
            called = {phrase(name), phrase(spaced("" if row.is_listed else "".join(row.keys[-1:])))}
            names += [(each, places[-1][0]) for each in called - {""}]
            for fact in _facts(row, name, places[-1]):
                facts.append(fact)
                _add_hours(schedules, fact, is_listed=row.is_listed)
        for (holder, keys), count in records.counts.items():
            said = key_words(keys[-1]).said if keys else frozenset()
            value = value_of(f"{count} items")
            facts.append(Fact(places[holder], ".".join(keys), value, said))
        return cls([fact for fact in facts if fact.said], names, schedules)

    @classmethod
    def joined(cls, tables: Sequence[FieldTable]) -> FieldTable:
        """Return the fields of several chunks together."""
        if len(tables) == 1:
            return tables[0]
        return cls(
            [fact for table in tables for fact in table.facts],
            [name for table in tables for name in table.names],
            {row: hours_of for table in tables for row, hours_of in table.schedules.items()},
        )

    def schedules_of(self, named: frozenset[Place]) -> list[hours.Schedule]:
        """Return the opening hours of the rows that are named; all if none of theirs is."""
        own = [hours_of for row, hours_of in self.schedules.items() if row in named]
        return own or list(self.schedules.values())

    def of(self, facts: Sequence[Fact], named: frozenset[Place]) -> Sequence[Fact]:
        """Return the facts of the rows that are named, and counts; all if none of theirs is.

        Of rows within rows, those count that have the fewest.
        """
        if len(facts) > MAX_COMPARED:
            return ()
        sizes = Counter(row for fact in facts for row in fact.rows if row in named)
        few = min(sizes.values(), default=0)
        rows = {row for row, size in sizes.items() if size == few}
        return [f for f in facts if not f.column or rows.intersection(f.rows)] if rows else facts


def _facts(row: Row, name: str, places: tuple[Place, ...]) -> Iterator[Fact]:
    path = ".".join([name, *row.keys] if row.is_listed and name else row.keys)
    for key, value in row.cells:
        said, every, _ = key_words(key)
        said = said or (key_words(row.keys[-1]).said if row.keys else said) or every
        whole = f"{path}.{key}" if path and key else path or key
        yield Fact(places, whole, value_of(value), said, (*row.keys, key))


def _add_hours(schedules: dict[Place, hours.Schedule], fact: Fact, *, is_listed: bool) -> None:
    """Add the opening hours that a field gives: `Monday: 9-17`, or `hours: Mon-Fri 9-17`."""
    text = fact.value.text if isinstance(fact.value.text, str) else ""
    _, every, days = key_words(fact.column[-1])
    if len(text) > 4 * MAX_VALUE or not (days or "hour" in fact.said | every):
        return
    # The days of a week are fields of the row that has the hours.
    owner = fact.rows[1] if days and not is_listed and len(fact.rows) > 1 else fact.rows[0]
    if days and fact.value.is_null:
        schedules[owner].add(days, None, (), fact.path)
    for part in map(str.strip, _SEGMENT.split(text)):
        days, times = _days_of(part) or days, value_of(part).times
        if len(times) > 1 or hours.CLOSED.search(part):
            schedules[owner].add(days or tuple(range(1, 8)), part, times, fact.path)


def _name(row: Row) -> str:
    """Return what a row is called: its name, or the first text of one of several."""
    texts = [(k.lower(), v) for k, v in row.cells if isinstance(v, str) and len(v) <= MAX_VALUE]
    for key, value in texts:
        if key in words.NAMES:
            return value
    if not row.is_listed:
        return ""
    names = [value for _, value in texts if value and value_of(value).truth is None]
    return next((name for name in names if not _NO_NAME.fullmatch(name)), "")
