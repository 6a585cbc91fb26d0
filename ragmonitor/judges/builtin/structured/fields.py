"""The fields of structured chunks: what each says, found by its words, its row's name or its value.

Every posting list is bounded: a word that more fields share than `MAX_SHARED` tells none of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from ragmonitor.judges.builtin.stems import stem_and_weight
from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured.clock import (
    CLOSED,
    Schedule,
    Time,
    days,
    segments,
    times,
)
from ragmonitor.judges.builtin.structured.formats import Records, Row, Scalar
from ragmonitor.judges.builtin.text_terms import terms
from ragmonitor.patterns import lazy_pattern

MAX_SHARED: Final = 16
"""Fields, or rows, that one word may speak of."""
MAX_COMPARED: Final = 256
"""Fields of one name that are compared with a sentence."""
MAX_PHRASE: Final = 6
"""Words of a name or a value that are looked for in sentences."""
MAX_VALUE: Final = 60
"""Characters of a value that are compared; longer ones are prose."""
MAX_HAN: Final = 8
"""Characters of a Chinese name or value that is looked for."""
_MIN_HAN: Final = 2


class Token(NamedTuple):
    """A word of a sentence or a key."""

    key: str
    start: int
    end: int


_WORD: Final = lazy_pattern(r"(?P<word>[^\W\d_\u3400-\u9fff]+)|(?P<figure>\d[\d,]*(?:\.\d+)?)")
_CAMEL: Final = lazy_pattern(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_|-")
HAN_RUN: Final = lazy_pattern("[\u3400-\u9fff]+")
_MAX_WORD: Final = 40


def tokens(text: str) -> list[Token]:
    """Return the words and figures of a text, those that name the same as one; none of Chinese."""
    found: list[Token] = []
    for match in _WORD.finditer(text):
        word = match["word"]
        key = (
            stem_and_weight(word[:_MAX_WORD].lower())[0]
            if word
            else match["figure"].replace(",", "")
        )
        joined = f"{found[-1].key}_{key}" if found else ""
        if joined in words.SAME and match.start() - found[-1].end <= 1:
            found[-1] = Token(words.SAME[joined], found[-1].start, match.end())
        else:
            found.append(Token(key, *match.span()))
    return [Token(words.SAME.get(each.key, each.key), each.start, each.end) for each in found]


def phrase(text: str) -> str:
    """Return what equal names and values have in common: their words joined, or their Chinese."""
    if HAN_RUN.search(text):
        return "".join(text.lower().split())
    return "|".join(token.key for token in tokens(text))


def spaced(key: str) -> str:
    """Return a key as words: `OutdoorSeating` and `outdoor_seating` are `Outdoor Seating`."""
    return _CAMEL.sub(" ", key)


class KeyWords(NamedTuple):
    """The words of a key."""

    said: tuple[str, ...]
    """Those by which its field is spoken of; what says nothing is left out."""
    every: tuple[str, ...]
    days: tuple[int, ...]
    """The days of the week that it names."""


@lru_cache(maxsize=4_096)
def key_words(key: str) -> KeyWords:
    """Return the words of a key, which is cut to `MAX_KEY` characters."""
    text = spaced(key)
    found = tuple(token.key for token in tokens(text))
    said = [each for each in found if each not in words.EMPTY_KEYS]
    for run in HAN_RUN.findall(key):
        han = run
        for empty in words.EMPTY_HAN:
            if len(han) - len(empty) >= _MIN_HAN:
                han = han.removeprefix(empty).removesuffix(empty)
        said.append(words.SAME.get(han, han))
    return KeyWords(tuple(said), found, tuple(day for each in days(text) for day in each.days))


@dataclass(slots=True)
class Fact:
    """One cell."""

    row: int
    key: str
    path: str
    """Its keys, the outermost first, behind the name of its row if that is one of several."""
    value: Scalar
    said: tuple[str, ...]
    """The words that speak of it."""
    around: frozenset[str] = frozenset()
    """The words of the object around it, of which one must be said too: a `lot` is for parking."""
    is_whole: bool = True
    """Whether they are all of its key: `date` is left out of `review_date`."""
    column: tuple[str, ...] = ()
    """Its keys without a row's name: equal for what can be averaged and summed up."""
    is_count: bool = False
    """Whether it is the number of a list's items."""
    truth: bool | None = None
    is_null: bool = False
    numbers: tuple[tuple[str, str], ...] = ()
    """Its numbers: keys of terms, and units."""
    times: tuple[Time, ...] = ()
    phrases: tuple[str, ...] = ()
    """The names that it may have in a sentence, by `phrase`."""

    @property
    def label(self) -> str:
        """The field and its value, as evidence."""
        value = "null" if self.is_null else str(self.value)
        return f"{self.path}: {value if len(value) <= MAX_VALUE else value[: MAX_VALUE - 1] + '…'}"


@dataclass(slots=True)
class Group:
    """The fields with one name."""

    said: frozenset[str]
    facts: list[Fact] = field(default_factory=list)
    by_owner: dict[int, list[Fact]] = field(default_factory=lambda: defaultdict(list))
    """Maps a row to the facts of it and of the rows within it."""
    counts: list[Fact] = field(default_factory=list)
    values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Maps a key to all its values, by `phrase`."""

    def of(self, named: Collection[int]) -> Sequence[Fact]:
        """Return the facts of the rows that a sentence names, or all if it names none of theirs."""
        owners = [row for row in named if row in self.by_owner]
        # The innermost alone: a name of the whole leaves open which part is meant.
        few = min((len(self.by_owner[row]) for row in owners), default=0)
        chosen = [
            fact for row in owners if len(self.by_owner[row]) == few for fact in self.by_owner[row]
        ]
        if chosen and not any(fact.is_count for fact in chosen):
            chosen += self.counts[:MAX_SHARED]
        if chosen and not any(fact.is_count for fact in chosen):
            chosen += self.counts[:MAX_SHARED]
        facts = chosen or self.facts
        return facts if len(facts) <= MAX_COMPARED else ()


class FieldTable:
    """All fields of the chunks of one answer."""

    def __init__(self) -> None:
        """Make an empty table."""
        self.rows: list[Row] = []
        self.groups: dict[tuple[frozenset[str], frozenset[str]], Group] = {}
        self.by_word: dict[str, list[Group]] = defaultdict(list)
        self.by_name: dict[str, list[int]] = defaultdict(list)
        self.by_value: dict[str, list[tuple[Group, Fact]]] = defaultdict(list)
        self.by_unit: dict[str, list[Group]] = defaultdict(list)
        self.schedules: dict[int, Schedule] = {}
        self.han: set[str] = set()
        """The Chinese words that are looked for in sentences."""

    def add(self, records: Records) -> None:
        """Add the rows of one chunk."""
        first = len(self.rows)
        for row in records.rows:
            parent = row.parent + first if row.parent >= 0 else -1
            self.rows.append(Row(parent, row.keys, row.cells, row.is_listed))
        names = [_name(row) for row in self.rows[first:]]
        for position, name in enumerate(names, first):
            row = self.rows[position]
            key = row.keys[-1] if row.keys and not row.is_listed else ""
            for known in {phrase(name), phrase(spaced(key))}:
                if known:
                    self.by_name[known].append(position)
                    self._know([known])
        for position, row in enumerate(self.rows[first:], first):
            self._add_row(position, row, names[position - first])
        for (holder, keys), count in records.counts.items():
            key = keys[-1] if keys else ""
            owner = holder + first if holder >= 0 else -1
            path = ".".join(keys) or "items"
            fact = Fact(owner, key, path, f"{count} items", key_words(key).said, is_count=True)
            fact.numbers = ((f"#{count}", ""),)
            self._add_fact(fact)

    def _add_row(self, position: int, row: Row, name: str) -> None:
        place = ".".join([name, *row.keys] if row.is_listed and name else row.keys)
        truths = [truth(value) for _, value in row.cells]
        is_choice = len(truths) > 1 and all(isinstance(value, bool) for _, value in row.cells)
        container = row.keys[-1] if row.keys else ""
        around: frozenset[str] = frozenset()
        if is_choice and container:
            around = frozenset(key_words(container).said) - words.CONTAINERS
        if around:
            self._add_fact(
                Fact(position, container, place, _chosen(row), tuple(around), truth=any(truths))
            )
        facts = []
        for key, value in row.cells:
            own = key_words(key)
            said = own.said or (key_words(container).said if container else ()) or own.every
            path = f"{place}.{key}" if place and key else place or key
            fact = Fact(position, key, path, value, said, around, len(said) >= len(own.every))
            fact.column = (*row.keys, key)
            self._read(fact)
            self._add_fact(fact)
            self._add_hours(fact, own.days)
            facts.append(fact)
        if any(fact.times for fact in facts):
            self._add_opening(row, facts, place)

    def _read(self, fact: Fact) -> None:
        """Read a cell's value."""
        value = fact.value
        fact.truth = truth(value)
        fact.is_null = value is None or str(value).strip().lower() in words.NULL
        if not isinstance(value, str) or len(value) > MAX_VALUE or fact.is_null:
            return
        fact.times = tuple(times(value))
        if _DATE.search(value):
            return
        if not fact.times and _HAS_FIGURE.search(value):
            measure = _MEASURE.search(fact.key)
            forms = (value, f"{value} {measure[1]}") if measure else (value,)
            fact.numbers = tuple(
                (term.key, term.unit)
                for form in forms
                for term in terms(form, with_pairs=False)
                if term.kind == "number" and term.key[0] == "#" and not is_scale(form, term.start)
            )[:MAX_PHRASE]
        if fact.truth is None:
            parts = [phrase(part) for part in _PARTS.split(value)[:MAX_PHRASE]]
            whole = phrase(value)
            fact.phrases = tuple(dict.fromkeys(each for each in (whole, *parts) if each))

    def _add_fact(self, fact: Fact) -> None:
        said = frozenset(fact.said)
        if not said:
            return
        group = self.groups.get((said, fact.around))
        if group is None:
            group = self.groups[said, fact.around] = Group(said)
            for word in said:
                self.by_word[word].append(group)
            self._know([*said, *fact.around])
        group.facts.append(fact)
        if fact.is_count:
            group.counts.append(fact)
        group.values[fact.key].update(fact.phrases)
        owner = fact.row
        for _ in range(_MAX_DEPTH):
            if owner < 0:
                break
            group.by_owner[owner].append(fact)
            owner = self.rows[owner].parent
        for each in fact.phrases:
            self.by_value[each].append((group, fact))
        self._know(fact.phrases)
        for number, unit in fact.numbers:
            self.by_value[number].append((group, fact))
            if unit and group not in self.by_unit[unit][-MAX_SHARED:]:
                self.by_unit[unit].append(group)

    def _know(self, phrases: Iterable[str]) -> None:
        self.han.update(each for each in phrases if HAN_RUN.search(each) and len(each) <= MAX_HAN)

    def _add_hours(self, fact: Fact, which: tuple[int, ...]) -> None:
        """Add a field that says when something is open: `Monday: 9:00-17:00`, `hours: ...`."""
        value = fact.value if isinstance(fact.value, str) else None
        if len(value or "") > 4 * MAX_VALUE or (value is None and not fact.is_null):
            return
        row = self.rows[fact.row]
        if which and (len(times(value or "")) != 1):
            owner = row.parent if row.parent >= 0 else fact.row
            schedule = self.schedules.setdefault(owner, Schedule(owner))
            if not value or times(value) or CLOSED.search(value):
                schedule.add(which, value or None, fact.path)
        elif value and "hour" in (*fact.said, *key_words(fact.key).every):
            for some, said in segments(value):
                schedule = self.schedules.setdefault(fact.row, Schedule(fact.row))
                schedule.add(some or tuple(range(1, 8)), said, fact.path)

    def _add_opening(self, row: Row, facts: Sequence[Fact], place: str) -> None:
        """Add a row that has a day, an opening and a closing time in cells of their own."""
        which: tuple[int, ...] = ()
        said: list[str] = []
        for fact in facts:
            if not isinstance(fact.value, str) or len(fact.value) > MAX_VALUE:
                continue
            if not which and not key_words(fact.key).days:
                found = days(fact.value)
                is_all = found and found[0].end - found[0].start == len(fact.value)
                which = found[0].days if is_all else ()
            if fact.times or CLOSED.search(fact.value):
                said.append(fact.value)
        if which and said:
            owner = row.parent if row.parent >= 0 else _WHOLE
            name = ".".join(part for part in (place, "hours") if part)
            self.schedules.setdefault(owner, Schedule(owner)).add(which, "-".join(said), name)

    def groups_of(self, word: str) -> Sequence[Group]:
        """Return the fields that a word may speak of; none if it is in too many."""
        return _few(self.by_word, word)

    def rows_named(self, name: str) -> Sequence[int]:
        """Return the rows with a name; none if there are too many."""
        return _few(self.by_name, name)

    def with_value(self, value: str) -> Sequence[tuple[Group, Fact]]:
        """Return the fields with a value; none if there are too many."""
        return _few(self.by_value, value)

    def owners(self, row: int) -> Iterator[int]:
        """Yield a row and the rows around it."""
        for _ in range(_MAX_DEPTH):
            if row < 0:
                return
            yield row
            row = self.rows[row].parent


_SCALE: Final = lazy_pattern(r"(?:\d\s{0,2}/|\bout of|满分)\s{0,2}\Z", re.IGNORECASE)
_MAX_SCALE: Final = 12


def is_scale(text: str, start: int) -> bool:
    """Return whether the number there is the best there may be: the 5 of `4 out of 5`."""
    return _SCALE.search(text, max(0, start - _MAX_SCALE), start) is not None


_HAS_FIGURE: Final = lazy_pattern("[\\d一二两三四五六七八九十百千万亿]")
_DATE: Final = lazy_pattern(r"\d{2,4}[-/.年]\d{1,2}[-/.月]\d|\d{3}-\d{4}")
"""Dates, and numbers of telephones: no quantities."""
_MEASURE: Final = lazy_pattern(r"[(（_]([^()（）_]{1,12})[)）]?\Z")
"""A unit or a scale at the end of a key: `GDP (billion)`, `weight_kg`."""
_MAX_DEPTH: Final = 5
_WHOLE: Final = -1
"""Stands for the chunk itself, to which a schedule in a table belongs."""
_PARTS: Final = lazy_pattern(r"[,，;；/、]\s{0,4}")


_Found = TypeVar("_Found")


def _few(postings: Mapping[str, list[_Found]], key: str) -> Sequence[_Found]:
    found = postings.get(key, ())
    return found if len(found) <= MAX_SHARED else ()


def truth(value: Scalar) -> bool | None:
    """Return whether a value affirms or denies; None: neither."""
    if isinstance(value, bool) or value is None:
        return value
    lowered = value.strip().lower()
    if lowered in words.YES:
        return True
    return False if lowered in words.NO else None


def _name(row: Row) -> str:
    """Return what a row is called: its name, or the first text of one of several."""
    texts = [(k.lower(), v) for k, v in row.cells if isinstance(v, str) and len(v) <= MAX_VALUE]
    for key, value in texts:
        if key in words.NAMES or key.endswith(words.NAME_ENDS):
            return value
    if not row.is_listed:
        return ""
    names = [value for _, value in texts if value and truth(value) is None]
    names = [name for name in names if not (_FIGURES.fullmatch(name) or name[-1] in ".!?。！？")]
    return next((name for name in names if not days(name)), names[0] if names else "")


_FIGURES: Final = lazy_pattern(r"\W?[\d.,:%/ -]+\W?")


def _chosen(row: Row) -> str:
    chosen = [key for key, value in row.cells if value is True]
    return ", ".join(chosen[:MAX_PHRASE]) or "none"
