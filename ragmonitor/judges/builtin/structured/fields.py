"""Fields of structured chunks: the words that speak of them, their rows' names, their values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
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
_PARTS: Final = lazy_pattern(r"[,，;；/、]\s{0,4}")
_SEGMENT: Final = lazy_pattern("[;；,，/]")
_NO_NAME: Final = lazy_pattern(r"\W?[\d.,:%/ -]+\W?|.*[.!?。！？]")
_MAX_DEPTH: Final = 4


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
    for match in _WORD.finditer(text):
        word = match["word"]
        key = _key_of(word) if word else match["figure"].replace(",", "")
        joined = f"{found[-1].key}_{key}" if found else ""
        if joined in words.SAME and match.start() - found[-1].end <= 1:
            found[-1] = Token(words.SAME[joined], found[-1].start, match.end())
        else:
            found.append(Token(key, *match.span()))
    return [Token(words.SAME.get(each.key, each.key), each.start, each.end) for each in found]


@lru_cache(maxsize=8_192)
def phrase(text: str) -> str:
    """Return what equal names and values have in common."""
    if HAN_RUN.search(text):
        return "".join(text.lower().split())
    return "|".join([token.key for token in tokens(text)])


class KeyWords(NamedTuple):
    """A key as words."""

    said: tuple[str, ...]
    """By which it is spoken of."""
    every: tuple[str, ...]
    days: tuple[int, ...]
    """The days that it names."""


@lru_cache(maxsize=4_096)
def key_words(key: str) -> KeyWords:
    """Return the words of a key."""
    every = tuple(token.key for token in tokens(spaced(key)))
    said = [each for each in every if each not in words.EMPTY_KEYS]
    for run in HAN_RUN.findall(key):
        word = _EMPTY_END.sub("", run)
        said.append(words.SAME.get(word, word))
    days = tuple(day for each in hours.days(spaced(key)) for day in each.days)
    return KeyWords(tuple(said), every, days)


class Number(NamedTuple):
    """A number in a text, with its unit."""

    key: str
    unit: str
    start: int
    end: int

    @property
    def value(self) -> float:
        """Its value; of an identifier, its first digits'."""
        return float(self.key[1:20])


def numbers_of(text: str, found: Sequence[Term]) -> list[Number]:
    """Return the numbers among the terms of a text, but for the 5 of `4 out of 5`."""
    numbers: list[Number] = []
    for at, term in enumerate(found):
        if term.kind == "number" and term.weight:
            behind = found[at + 1] if at + 1 < len(found) else None
            unit = str(behind.key) if behind and behind.kind == "unit" else ""
            is_scale = at and found[at - 1].at == term.at and "/" in term.surface  # the 5 of 4/5
            if not (is_scale or _SCALE.search(text, max(0, term.at - 12), term.at)):
                numbers.append(Number(str(term.key), unit, term.at, term.at + len(term.surface)))
    return numbers


class Value(NamedTuple):
    """What the value of a cell reads as."""

    truth: bool | None = None
    """What a value that affirms or denies says."""
    is_null: bool = False
    """Whether it has no value."""
    numbers: Sequence[Number] = ()
    times: Sequence[hours.Time] = ()
    phrases: Sequence[str] = ()
    """The value, and the parts of it."""


@lru_cache(maxsize=4_096)
def value_of(value: Scalar) -> Value:
    """Return what a value reads as: the same ones come again and again. A long one is prose."""
    if isinstance(value, str) and len(value) > MAX_VALUE:
        return Value()
    says = truth(value)
    if value is None or str(value).strip().lower() in words.NULL:
        return Value(says, is_null=True)
    if not isinstance(value, str):
        return Value(says)
    times = hours.times(value)
    is_quantity = not times and not _DATE.search(value)
    numbers = numbers_of(value, placed(value)) if is_quantity else []
    parts = (value, *_PARTS.split(value)[:MAX_PHRASE]) if says is None else ()
    phrases = [each for each in dict.fromkeys(map(phrase, parts)) if each]
    return Value(says, False, numbers, times, phrases)


class Fact:
    """One cell, the words that speak of it, and what its value reads as, see `Value`."""

    def __init__(
        self,
        row: Place | None,
        path: str,
        value: Scalar,
        said: Iterable[str],
        column: tuple[str, ...] = (),
    ) -> None:
        """Read a cell of a row.

        Args:
            row: The row; None: it is of none.
            path: The names of the row, the objects around it, and the key.
            value: What stands in it.
            said: The words by which it is spoken of.
            column: The keys that lead to it; without any it is the number of items of a list.
        """
        self.row, self.path, self.value, self.column = row, path, value, column
        self.said = frozenset(said)
        self.is_count = not column
        self.truth, self.is_null, self.numbers, self.times, self.phrases = value_of(value)

    @property
    def label(self) -> str:
        """The field and its value, as a finding names them."""
        value = "null" if self.is_null else str(self.value)
        shown = value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 1]}…"
        return f"{self.path}: {shown}"


def truth(value: Scalar) -> bool | None:
    """Return whether a value affirms or denies; None: neither."""
    if isinstance(value, bool) or value is None:
        return value
    low = value.strip().lower()
    return True if low in words.YES else False if low in words.NO else None


class Place:
    """A row, known by itself: those of several chunks are told apart."""

    __slots__ = ("owners",)

    def __init__(self, parent: Place | None) -> None:
        """Put it within another row."""
        self.owners: tuple[Place, ...] = (self, *(parent.owners if parent else ())[:_MAX_DEPTH])
        """It and the rows around it, from the inside."""

    @property
    def parent(self) -> Place | None:
        """The row that it is within."""
        return self.owners[1] if len(self.owners) > 1 else None


class FieldTable:
    """The fields of a chunk, or of all chunks of an answer."""

    def __init__(self) -> None:
        """Begin with no field."""
        self.groups: dict[frozenset[str], list[Fact]] = defaultdict(list)
        """The fields that are spoken of by the same words."""
        self.by_name: dict[str, list[Place]] = defaultdict(list)
        """Maps a name to the rows that it names."""
        self.by_value: dict[str, list[Fact]] = defaultdict(list)
        self.schedules: dict[Place | None, hours.Schedule] = defaultdict(hours.Schedule)
        """Maps a row to its opening hours."""

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
        table = cls()
        places: list[Place] = []
        for row in records.rows:
            places.append(Place(places[row.parent] if row.parent >= 0 else None))
        for place, row in zip(places, records.rows, strict=True):
            table._add_row(place, row)
        for (holder, keys), count in records.counts.items():
            above = places[holder] if holder >= 0 else None
            said = key_words(keys[-1]).said if keys else ()
            fact = Fact(above, ".".join(keys) or "items", f"{count} items", said)
            table._add(fact)
        return table

    @classmethod
    def joined(cls, tables: Sequence[FieldTable]) -> FieldTable:
        """Return the fields of several chunks together."""
        if len(tables) == 1:
            return tables[0]
        joined = cls()
        for table in tables:
            for name, facts in table.groups.items():
                joined.groups[name] += facts
            for known, places in table.by_name.items():
                joined.by_name[known] += places
            for value, facts in table.by_value.items():
                joined.by_value[value] += facts
            joined.schedules.update(table.schedules)
        return joined

    def _add_row(self, at: Place, row: Row) -> None:
        name = _name(row)
        container = row.keys[-1] if row.keys else ""
        for known in {phrase(name), phrase(spaced("" if row.is_listed else container))} - {""}:
            self.by_name[known].append(at)
        place = ".".join([name, *row.keys] if row.is_listed and name else row.keys)
        for key, value in row.cells:
            said, every, days = key_words(key)
            said = said or (key_words(container).said if container else ()) or every
            path = f"{place}.{key}" if place and key else place or key
            fact = Fact(at, path, value, said, (*row.keys, key))
            self._add(fact)
            self._add_hours(fact, days, at.parent or at)

    def _add(self, fact: Fact) -> None:
        if not fact.said:
            return
        self.groups[fact.said].append(fact)
        for each in (*fact.phrases, *[number.key for number in fact.numbers]):
            self.by_value[each].append(fact)

    def _add_hours(self, fact: Fact, days: tuple[int, ...], owner: Place) -> None:
        """Add the opening hours that a field gives: `Monday: 9-17`, or `hours: Mon-Fri 9-17`."""
        value = fact.value if isinstance(fact.value, str) else ""
        if len(value) > 4 * MAX_VALUE or (not value and not fact.is_null):
            return
        if days and len(hours.times(value)) != 1:
            if not value or _is_of_hours(value):
                self.schedules[owner].add(days, value or None, fact.path)
        elif value and "hour" in (*fact.said, *key_words(fact.column[-1]).every):
            named: tuple[int, ...] = ()
            for part in _SEGMENT.split(value):
                named = tuple(day for each in hours.days(part) for day in each.days) or named
                if _is_of_hours(part):
                    days = named or tuple(range(1, 8))
                    self.schedules[fact.row].add(days, part.strip(), fact.path)

    def is_of(self, fact: Fact, rows: frozenset[Place]) -> bool:
        """Return whether a fact is of one of some rows, or of a row within one."""
        return fact.row is not None and not rows.isdisjoint(fact.row.owners)

    def of(self, facts: Sequence[Fact], named: frozenset[Place]) -> Sequence[Fact]:
        """Return the facts of the rows that are named, and counts; all if none of theirs is.

        Of rows within rows, those count that have the fewest.
        """
        if len(facts) > MAX_COMPARED:
            return ()
        owners = [fact.row.owners if fact.row else () for fact in facts]
        by_owner = {
            row: [fact for fact, of in zip(facts, owners, strict=True) if row in of]
            for row in named
        }
        few = min((len(own) for own in by_owner.values() if own), default=0)
        chosen = [fact for own in by_owner.values() if len(own) == few for fact in own]
        counts = [fact for fact in facts if fact.is_count and fact not in chosen]
        return [*chosen, *counts] if chosen else facts


def _is_of_hours(text: str) -> bool:
    return bool(hours.times(text)) or hours.CLOSED.search(text) is not None


def _name(row: Row) -> str:
    """Return what a row is called: its name, or the first text of one of several."""
    texts = [(k.lower(), v) for k, v in row.cells if isinstance(v, str) and len(v) <= MAX_VALUE]
    for key, value in texts:
        if key in words.NAMES:
            return value
    if not row.is_listed:
        return ""
    names = [value for _, value in texts if value and truth(value) is None]
    names = [name for name in names if not _NO_NAME.fullmatch(name)]
    return next((name for name in names if not hours.days(name)), names[0] if names else "")
