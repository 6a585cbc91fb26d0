"""What the fields of structured chunks say of a sentence, clause by clause.

A field is spoken of where a word of it stands in the clause and all in the sentence; where rows are
named, only theirs count. A field supports what agrees with it, and contradicts only if no field
that may be meant agrees; one without a value does neither.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from operator import attrgetter
from statistics import fmean
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured import hours
from ragmonitor.judges.builtin.structured.fields import (
    HAN_RUN,
    MAX_COMPARED,
    MAX_HAN,
    MAX_PHRASE,
    MAX_SHARED,
    Fact,
    FieldTable,
    Token,
    Value,
    amount,
    numbers_of,
    phrase,
    tokens,
)
from ragmonitor.judges.builtin.terms import Term
from ragmonitor.runtime.patterns import lazy_pattern

MAX_PER_CLAUSE: Final = 24
"""Numbers or fields of one clause; of more, none is read."""
_BORDER: Final = lazy_pattern(
    r"[;；。，]|(?:,\s{0,3})?\b(?:but|however|although|though|while|whereas|rather than"
    r"|instead of)\b|,\s{1,3}(?:yet|with)\b"
    r"|(?:,|\band\b)\s{1,3}(?:and\s{1,3})?(?=(?:[\w'’-]{1,24}\s{1,3}){0,3}"
    r"(?:(?:is|are|was|were|does|do|did|has|have|had|can)(?:n.t)?|offers?|provides?|accepts?"
    r"|allows?|it|they|there|no|not|until|till|from|opens|closes|closing)\b"
    rf"|{hours.DAY}[^.;,]{{0,24}}?\d|\d{{1,2}}(?::\d\d)?\s?[ap]\.?m\b|\d{{1,2}}:\d\d)",
    re.IGNORECASE,
)
_NEGATIVE: Final = lazy_pattern(
    r"\b(?:disabled|unavailable|lack(?:s|ing)?|without|prohibited|forbidden|banned|disallowed"
    r"|(?:turned|switched) off|missing|excluded|excludes|neither|rather than|instead of)\b"
    r"|禁止|谢绝|关闭|停用",
    re.IGNORECASE,
)
"""Words that deny, besides signs of negation."""
_UNKNOWN: Final = lazy_pattern(
    r"\b(?:unclear|unknown|unspecified|not? (?:mentioned|specified|listed|provided|stated|known))\b"
    r"|未提及|没有提到|未说明|未知|不清楚|未注明",
    re.IGNORECASE,
)
_OFFERS: Final = lazy_pattern(
    r"\b(?:has|have|had|with|offers?|provides?|includes?|features?|allows?|accepts?|available"
    r"|supports?|there (?:is|are)|enjoy|relax|use|welcome|comes?|serves?|takes?|provided|offered)\b"
    r"|有|提供|支持|可|设|带|含",
    re.IGNORECASE,
)
_IS: Final = lazy_pattern(
    r"\s{0,3}(?:(?:is|are|was|were|:|=)\s{1,3}(?:(?:the|a|an|very|quite|now|currently|set|to)"
    r"\s{1,3}){0,3}(?P<word>[^\W\d_]+)|(?:为|是|：)(?P<han>[\u3400-\u9fff]{2,8}))"
)
_LIMITS: Final = lazy_pattern(
    r"(?i:\b(?:than|compared|versus|about|around|roughly|nearly|almost|approximately|over|under"
    r"|at least|at most|above|below|exceeding|up to)\b|[~比约近]|左右|超过|至少|不低于|不到|低于"
    "|最多)"
)
"""What follows is compared, no value: its numbers are not looked for."""
_OFFERED: Final = frozenset(
    map(phrase, ("free", "paid", "full bar", "beer and wine", "免费", "收费"))
)
"""Values that say that there is something at all."""


_DERIVED: Final[dict[str, tuple[Callable[[list[float]], float], re.Pattern[str]]]] = {
    "average": (fmean, lazy_pattern(r"(?i:\b(?:averages?|averaging|mean)\b|平均)")),
    "total": (
        sum,
        lazy_pattern(r"(?i:\b(?:total|altogether|combined|sum|in all)\b|合计|总共|总计|一共)"),
    ),
    "highest": (
        max,
        lazy_pattern(
            r"(?i:\b(?:highest|largest|biggest|most|longest|heaviest|maximum|best|top)\b"
            "|最(?:高|大|多|贵|长|重))"
        ),
    ),
    "lowest": (
        min,
        lazy_pattern(
            r"(?i:\b(?:lowest|smallest|cheapest|least|fewest|shortest|lightest|minimum)\b"
            "|最(?:低|小|少|便宜|短|轻))"
        ),
    ),
}
"""The figures of several rows: how each is reckoned, and the words for it."""
_EXTREMES: Final = ("highest", "lowest")


class Outcome(IntEnum):
    """What a field says of a mention, the strongest last."""

    SILENT = 0
    CONTRADICTS = 1
    UNKNOWN = 2
    """It has no value."""
    SUPPORTS = 3


class Finding(NamedTuple):
    """A part of a sentence that a field does not bear out."""

    start: int
    end: int
    label: str
    """The field and its value."""
    conflicts: bool
    """Whether the field says otherwise; else it has no value."""


Span = tuple[int, int]


class FieldReading:
    """What fields bear out of a sentence, and what they object to."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.supported: set[Span] = set()
        self.findings: list[Finding] = []

    def add(
        self,
        outcomes: Sequence[tuple[Outcome, str]],
        places: Sequence[Span],
        borne: Sequence[Span] = (),
    ) -> None:
        """Add the strongest of some outcomes, each with the label of its field.

        Args:
            outcomes: What the fields say that may be meant.
            places: Where it stands what they speak of; the first is where a finding begins.
            borne: What else is supported if one agrees.
        """
        best = max([outcome for outcome, _ in outcomes], default=Outcome.SILENT)
        if best is Outcome.SUPPORTS:
            self.supported.update([*places, *borne])
        elif best is not Outcome.SILENT:
            label = min(label for outcome, label in outcomes if outcome is best)
            self.findings.append(Finding(*places[0], label, best is Outcome.CONTRADICTS))


class Mention(NamedTuple):
    """What a clause says of some fields, which are spoken of by the same words."""

    group: Sequence[Fact]
    """All of them, of whatever row."""
    at: Sequence[Token]
    """The words that speak of them."""
    facts: Sequence[Fact]
    """Those of the rows that are named."""


def _span(term: Term) -> Span:
    return term.at, term.at + len(term.surface)


class Clause:
    """One clause of a sentence, and what is said in it."""

    def __init__(
        self,
        text: str,
        span: Span,
        said: Sequence[Token],
        content: Sequence[Term],
        table: FieldTable,
    ) -> None:
        """Read a clause.

        Args:
            text: The sentence.
            span: Where the clause begins and ends in it.
            said: The words of the clause.
            content: The terms of the clause.
            table: The fields.
        """
        self.text = text
        self.start, self.end = span
        self.own = text[self.start : self.end]
        self.tokens = said
        self.times = hours.times(content)
        self.phrases: dict[str, Span] = {}
        """Maps each run of words to where it stands."""
        for position, first in enumerate(said):
            joined = ""
            for last in said[position : position + MAX_PHRASE]:
                joined = f"{joined}|{last.key}" if joined else last.key
                self.phrases.setdefault(joined, (first.start, last.end))
        names = [n for n in self.phrases if 0 < len(table.by_name.get(n, ())) <= MAX_SHARED]
        self.named = frozenset(row for name in names for row in table.by_name[name])
        """The rows that are named, here or elsewhere in the sentence."""
        taken = [self.phrases[name] for name in names]
        numbers = [
            term
            for term in numbers_of(text, content)
            if not any(first < _span(term)[1] and last > term.at for first, last in taken)
        ]
        self.numbers = numbers if len(numbers) <= MAX_PER_CLAUSE else []
        """Its numbers that are not of a name."""
        self.signs = [_span(term) for term in content if term.kind == "negation"]
        """Where signs of negation begin and end."""
        self._denies = bool(_NEGATIVE.search(self.own))
        self.is_unknown = bool(_UNKNOWN.search(self.own))
        """Whether it says that something is not known."""
        self.mentions: list[Mention] = []

    def is_negated(self, at: Sequence[Token] = ()) -> bool:
        """Return whether the clause denies what some of its words speak of, or anything."""
        signs = [s for s in self.signs if not any(t.start <= s[0] < t.end for t in at)]
        for other in self.mentions if at and signs else ():
            first = other.at[0].start
            if set(other.at).isdisjoint(at):  # `not near the harbour` denies that alone
                signs = [sign for sign in signs if not 0 <= first - sign[1] <= 8]
        return bool(signs) != self._denies

    def find_mentions(self, everywhere: frozenset[str], table: FieldTable) -> None:
        """Find the fields of which a word stands here, and all in the whole sentence."""
        groups = dict.fromkeys(
            said
            for token in self.tokens
            if len(table.by_word.get(token.key, ())) <= MAX_SHARED
            for said in table.by_word.get(token.key, ())
            if said <= everywhere
        )
        if len(groups) > MAX_PER_CLAUSE:
            return
        for said in groups:
            own = [token for token in self.tokens if token.key in said]
            facts = table.groups[said]
            self.mentions.append(Mention(facts, own, table.of(facts, self.named)))
        whole = [
            {*at}
            for _, at, _ in self.mentions
            if not any(at[0].start <= term.at < at[-1].start for term in self.numbers)
        ]
        self.mentions = [m for m in self.mentions if not any({*m.at} < other for other in whole)]


def _clauses(text: str, content: Sequence[Term], table: FieldTable) -> list[Clause]:
    """Return the clauses of a sentence, with what they mention.

    Rows that are named in any of them go for those that name none.
    """
    found = sorted([*tokens(text), *_chinese_tokens(text, table)], key=attrgetter("start"))
    clauses: list[Clause] = []
    for span in pairwise([0, *(border.start() for border in _BORDER.finditer(text)), len(text)]):
        first, last = (bisect_left(found, at, key=attrgetter("start")) for at in span)
        begin, end = (bisect_left(content, at, key=attrgetter("at")) for at in span)
        clauses.append(Clause(text, span, found[first:last], content[begin:end], table))
    named = frozenset(row for clause in clauses for row in clause.named)
    everywhere = frozenset(token.key for token in found)
    for clause in clauses:
        if len(named) <= MAX_SHARED:
            clause.named = clause.named or named
        clause.find_mentions(everywhere, table)
    return clauses


def _chinese_tokens(text: str, table: FieldTable) -> Iterator[Token]:
    """Yield the words of a Chinese text by which any field is spoken of."""
    for run in HAN_RUN.finditer(text):
        for at in range(run.start(), run.end()):
            for size in range(2, min(MAX_HAN, len(text) - at) + 1):
                word = text[at : at + size].lower()
                for known in {word if word in table.han else "", words.SAME.get(word, "")} - {""}:
                    yield Token(known, at, at + size)


def read_fields(text: str, content: Sequence[Term], table: FieldTable) -> FieldReading:
    """Return what the fields say of a sentence, whose terms have offsets."""
    reading = FieldReading()
    for clause in _clauses(text, content, table):
        if not clause.is_unknown:
            _read_schedules(clause, table, reading)
        for mention in clause.mentions:
            _read_mention(clause, mention, reading)
        if clause.numbers and not _LIMITS.search(clause.own):
            _read_numbers(clause, reading)
        if clause.named and not clause.is_negated() and not reading.findings:
            _read_extremes(clause, reading)
            _read_values_of_others(clause, table, reading)
    if reading.supported:  # so are the words that only carry what a field says
        frames = [term for term in content if term.key in words.FRAMES or term.kind == "negation"]
        reading.supported.update(map(_span, frames))
        for frame in words.HAN_FRAMES if not text.isascii() else ():
            at = text.find(frame)
            if at >= 0:
                reading.supported.add((at, at + len(frame)))
    return reading


def _read_mention(clause: Clause, mention: Mention, reading: FieldReading) -> None:
    """Compare what a clause says of a field that holds no number."""
    is_negated = clause.is_negated(mention.at)
    outcomes = [
        (_outcome(clause, mention, fact.value, is_negated=is_negated), fact.label)
        for fact in mention.facts
    ]
    values = {fact.value.phrase for fact in mention.facts} & clause.phrases.keys()
    places = [(mention.at[0].start, mention.at[-1].end)]
    known = [time for fact in mention.facts for time in fact.value.times]
    if known and clause.times:
        right = [time for time in clause.times if any(hours.is_same(time, k) for k in known)]
        places = [*map(_span, right or clause.times)]
    reading.add(outcomes, places, [clause.phrases[each] for each in values])


def _outcome(clause: Clause, mention: Mention, value: Value, *, is_negated: bool) -> Outcome:
    if clause.is_unknown:
        return Outcome.SUPPORTS if value.is_null else Outcome.SILENT
    if value.is_null:
        is_asked = not clause.numbers and _OFFERS.search(clause.own)
        return Outcome.UNKNOWN if is_asked else Outcome.SILENT
    if value.truth is not None:
        return Outcome.SUPPORTS if value.truth != is_negated else Outcome.CONTRADICTS
    if value.times and clause.times:
        is_said = any(hours.is_same(said, each) for said in clause.times for each in value.times)
        return Outcome.SUPPORTS if is_said else Outcome.CONTRADICTS
    if not value.phrase or value.numbers or value.times:
        return Outcome.SILENT
    if value.phrase in _OFFERED or value.phrase in clause.phrases:
        return Outcome.CONTRADICTS if is_negated else Outcome.SUPPORTS
    return Outcome.SILENT if is_negated else _of_value(clause, mention, value.phrase)


def _of_value(clause: Clause, mention: Mention, value: str) -> Outcome:
    """Return whether a clause gives another value than a field has right behind its words."""
    said = _IS.match(clause.text, mention.at[-1].end, clause.end)
    if said is None:
        return Outcome.SILENT
    if han := said["han"]:
        is_other = value not in han and han not in value
    else:
        key = tokens(said["word"])[0].key
        is_other = key not in words.FRAMES and key not in value.split("|")
    return Outcome.CONTRADICTS if is_other else Outcome.SILENT


# --- opening hours ------------------------------------------------------------------------------


def _read_schedules(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Compare what a clause says of opening hours with those of the rows that it may mean."""
    schedules = table.schedules_of(clause.named)
    if not 0 < len(schedules) <= MAX_SHARED:
        return
    sides = list(hours.edges(clause.text[: clause.end], clause.times, clause.start))
    says_closed = bool(hours.CLOSED.search(clause.own))
    which = hours.days(clause.own)
    asked = which or (hours.days(clause.text[:400]) if sides else [])
    if not (says_closed or (sides and asked) or hours.SAYS_OPEN.search(clause.own)):
        return
    days = [day for _, each in asked for day in each]
    says_closed = (says_closed and not sides) != clause.is_negated()
    outcomes = [_of_hours(each, days, sides, says_closed=says_closed) for each in schedules]
    places = [(clause.start + start, clause.start + end) for (start, end), _ in which]
    places += map(_span, clause.times)
    reading.add(outcomes, places or [(clause.start, clause.end)])


def _of_hours(
    schedule: hours.Schedule,
    asked: Sequence[int],
    sides: Sequence[hours.Side],
    *,
    says_closed: bool,
) -> tuple[Outcome, str]:
    """Return whether a schedule agrees with what is said of some days, and its field."""
    days = asked or [*schedule.hours]
    missing = [day for day in days if schedule.hours.get(day) is None]
    known = [day for day in days if day not in missing]
    wrong = [day for day in known if not schedule.agrees(day, sides, says_closed=says_closed)]
    if wrong and (asked or (len(wrong) == len(known) and sides)):
        return Outcome.CONTRADICTS, schedule.label(min(wrong))
    if asked and missing:
        outcome = Outcome.SILENT if says_closed else Outcome.UNKNOWN
        return outcome, schedule.label(min(missing))
    return (Outcome.SUPPORTS if known and (asked or sides) else Outcome.SILENT), ""


# --- numbers ------------------------------------------------------------------------------------


def _read_numbers(clause: Clause, reading: FieldReading) -> None:
    """Compare each number with the fields whose words stand next to it."""
    counted = {
        token
        for mention in clause.mentions
        if any(fact.value.numbers for fact in mention.facts)
        for token in mention.at
    }
    used: set[Token | Term] = set()
    for gap, number, token in sorted((_gap(n, t), n, t) for n in clause.numbers for t in counted):
        if number in used or token in used or gap > 48:
            continue
        mentions = [mention for mention in clause.mentions if token in mention.at]
        is_behind = gap <= 24 and token.start > number.at  # `three reviews`
        facts = [
            fact
            for mention in mentions
            for fact in mention.facts
            if fact.value.numbers and (is_behind or fact.column)
        ]
        if facts:
            used |= {number, token}
            spans = [(each.start, each.end) for mention in mentions for each in mention.at]
            _compare(clause, number, facts, spans, reading)


def _gap(number: Term, word: Token) -> int:
    """Return how far a word is from a number; one behind it is a little nearer."""
    start, end = _span(number)
    return word.start - end if word.start >= end else max(0, start - word.end) + 1


def _compare(
    clause: Clause,
    number: Term,
    facts: Sequence[Fact],
    spans: Sequence[Span],
    reading: FieldReading,
) -> None:
    """Compare a number with fields or, of several rows, with what the clause says of them all."""
    columns: dict[tuple[str, ...], list[Fact]] = defaultdict(list)
    for fact in facts:
        columns[fact.column].append(fact)
    derived = next((name for name, (_, signs) in _DERIVED.items() if signs.search(clause.own)), "")
    figures: list[tuple[int, str, float]] = []
    """How many words speak of each, its label and its value."""
    for column, alike in columns.items():
        if derived and len(alike) > 1:
            value = _DERIVED[derived][0]([amount(fact.value.numbers[0]) for fact in alike])
            figures.append((0, f"{derived} of {'.'.join(column)}: {value:.6g}", value))
        elif derived not in _EXTREMES:
            figures += [(len(f.said), f.label, amount(n)) for f in alike for n in f.value.numbers]
    if any(_is_value(str(number.key), value) for _, _, value in figures):
        reading.supported.update([_span(number), *spans])
    elif figures:
        reading.findings.append(Finding(*_span(number), min(figures)[1], True))


def _is_value(key: str, value: float) -> bool:
    """Return whether a number is a field's value, exact or rounded to two digits or more."""
    digits = key[1:].replace(".", "").strip("0")
    is_rounded = 20 > len(digits) >= 2 and float(f"{value:.{len(digits)}g}") == amount(key)
    return amount(key) == value or is_rounded


# --- rows ---------------------------------------------------------------------------------------


def _read_extremes(clause: Clause, reading: FieldReading) -> None:
    """Find a row that is said to have the most or the least of something, and has not."""
    for name in _EXTREMES if not clause.numbers else ():
        extreme, signs = _DERIVED[name]
        word = signs.search(clause.own)
        for group, _, _ in clause.mentions if word else ():
            facts = [f for f in group[:MAX_COMPARED] if len(f.value.numbers) == 1 and f.column]
            own = [fact for fact in facts if not clause.named.isdisjoint(fact.rows)]
            figures = [amount(fact.value.numbers[0]) for fact in facts]
            best = extreme(figures) if figures else 0.0
            if word and len(facts) > len(own) == 1 and amount(own[0].value.numbers[0]) != best:
                place = clause.start + word.start(), clause.start + word.end()
                reading.findings.append(Finding(*place, own[0].label, True))


def _read_values_of_others(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Find a value that another row has, and not the one that is named."""
    said = {str(number.key): _span(number) for number in clause.numbers}
    said = {**clause.phrases, **said}
    for value, span in said.items():
        facts = [fact for fact in table.by_value.get(value, ()) if fact.column]
        if not 0 < len(facts) <= MAX_SHARED or span in reading.supported:
            continue
        if any(not clause.named.isdisjoint(fact.rows) for fact in facts):
            continue
        wrong: list[str] = []
        for name in {fact.said for fact in facts}:
            group = table.groups[name][:MAX_COMPARED]
            own = [fact for fact in group if not clause.named.isdisjoint(fact.rows)]
            values = [{fact.value.phrase, *fact.value.numbers} - {""} for fact in own]
            if all(each and said.keys().isdisjoint(each) for each in values):
                wrong += [fact.label for fact in own]
        if wrong:
            reading.findings.append(Finding(*span, min(wrong), True))
