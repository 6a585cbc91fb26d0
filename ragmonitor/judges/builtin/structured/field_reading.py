"""What the fields of structured chunks say of a sentence, clause by clause.

A field is spoken of where all its words stand in the clause; where rows are named, only theirs
count. A field supports what agrees with it, and contradicts only if no field that may be meant
agrees; one without a value does neither.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured import hours
from ragmonitor.judges.builtin.structured.clauses import Clause, Mention, read_clauses
from ragmonitor.judges.builtin.structured.fields import (
    MAX_COMPARED,
    MAX_SHARED,
    Fact,
    FieldTable,
    Number,
    Token,
    phrase,
    tokens,
)
from ragmonitor.judges.builtin.terms import Term
from ragmonitor.runtime.patterns import lazy_pattern

_UNKNOWN: Final = lazy_pattern(
    r"\b(?:unclear|unknown|unspecified|no information"
    r"|not? (?:mentioned|specified|listed|provided|stated|known|given))\b"
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
_COMPARES: Final = lazy_pattern(r"(?i:\b(?:than|compared|versus)\b|比)")
_ABOUT: Final = lazy_pattern(
    r"(?i:(?:about|around|roughly|nearly|almost|approximately|some|~|约|大约|近|左右)\s{0,2}\Z)"
)
_ABOVE: Final = lazy_pattern(
    r"(?i:(?:over|more than|at least|above|exceeding|超过|至少|不低于)\s{0,2}\Z)"
)
_BELOW: Final = lazy_pattern(
    r"(?i:(?:under|less than|below|at most|fewer than|up to|不到|低于|最多)\s{0,2}\Z)"
)
_OFFERED: Final = frozenset(
    map(phrase, ("free", "paid", "full bar", "beer and wine", "免费", "收费"))
)
"""Values that say that there is something at all."""


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class _Derived(NamedTuple):
    """A figure of several rows."""

    name: str
    of: Callable[[Sequence[float]], float]
    signs: re.Pattern[str]

    @classmethod
    def said(cls, name: str, of: Callable[[Sequence[float]], float], signs: str) -> _Derived:
        """Return one that is spoken of by English and Chinese words."""
        english, chinese = signs.split(" ")
        return cls(name, of, lazy_pattern(rf"(?i:\b(?:{english})\b|{chinese})"))


_TOTALS: Final = (
    _Derived.said("average", _mean, "averages?|averaging|mean 平均"),
    _Derived.said("total", sum, r"total|altogether|combined|sum|in\sall 合计|总共|总计|一共"),
)
_HIGH: Final = (
    "highest|largest|biggest|most|longest|heaviest|maximum|best|top 最(?:高|大|多|贵|长|重)"
)
_LOW: Final = (
    "lowest|smallest|cheapest|least|fewest|shortest|lightest|minimum 最(?:低|小|少|便宜|短|轻)"
)
_EXTREMES: Final = (_Derived.said("highest", max, _HIGH), _Derived.said("lowest", min, _LOW))
_ASKS_PRICE: Final = lazy_pattern("cheap|expensive|便宜|贵")


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


class FieldReading:
    """What fields bear out of a sentence, and what they object to."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.supported: set[tuple[int, int]] = set()
        self.findings: list[Finding] = []


def read_fields(text: str, content: Sequence[Term], table: FieldTable) -> FieldReading:
    """Return what the fields say of a sentence, whose terms have offsets."""
    reading = FieldReading()
    for clause in read_clauses(text, content, table):
        is_unknown = bool(_UNKNOWN.search(clause.own))
        if not is_unknown:
            _read_hours(clause, table, reading)
        for mention in clause.mentions:
            _read_mention(clause, mention, reading, is_unknown=is_unknown)
        if not _COMPARES.search(clause.own):
            _read_numbers(clause, reading)
            if not clause.is_negated():
                _read_states(clause, table, reading)
            if clause.named and not clause.is_negated() and not reading.findings:
                _read_extremes(clause, table, reading)
                _read_values_of_others(clause, table, reading)
    if reading.supported:  # so are the words that only carry what a field says
        for term in content:
            if term.key in words.FRAMES or term.kind == "negation":
                reading.supported.add((term.at, term.at + len(term.surface)))
        for frame in words.HAN_FRAMES if not text.isascii() else ():
            at = text.find(frame)
            if at >= 0:
                reading.supported.add((at, at + len(frame)))
    return reading


def _read_mention(
    clause: Clause, mention: Mention, reading: FieldReading, *, is_unknown: bool
) -> None:
    """Compare what a clause says of a field that holds no number."""
    if not mention.at or not mention.facts:
        return
    is_negated = clause.is_negated(mention.at)
    outcomes = [
        (_outcome(clause, mention, fact, is_negated=is_negated), fact) for fact in mention.facts
    ]
    best = max(outcome for outcome, _ in outcomes)
    if is_unknown:
        is_null = all(fact.is_null for fact in mention.facts)
        best = Outcome.SUPPORTS if is_null else Outcome.SILENT
    if best is Outcome.SUPPORTS:
        values = {each for fact in mention.facts for each in fact.phrases}
        reading.supported.update((token.start, token.end) for token in mention.at)
        reading.supported.update(clause.phrases[each] for each in values & clause.phrases.keys())
    elif best is not Outcome.SILENT:
        label = min(fact.label for outcome, fact in outcomes if outcome is best)
        place = mention.at[0].start, mention.at[-1].end
        reading.findings.append(Finding(*place, label, best is Outcome.CONTRADICTS))


def _outcome(clause: Clause, mention: Mention, fact: Fact, *, is_negated: bool) -> Outcome:
    agrees = Outcome.CONTRADICTS if is_negated else Outcome.SUPPORTS
    if fact.is_null:
        is_asked = not clause.numbers and _OFFERS.search(clause.own)
        return Outcome.UNKNOWN if is_asked else Outcome.SILENT
    if fact.is_count:
        says_none = any(0 <= mention.at[0].start - end <= 1 for _, end in clause.signs)
        is_wrong = says_none and not clause.numbers and fact.value != "0 items"
        return Outcome.CONTRADICTS if is_wrong else Outcome.SILENT
    if fact.truth is not None:
        return Outcome.SUPPORTS if fact.truth != is_negated else Outcome.CONTRADICTS
    if not fact.phrases or fact.numbers or fact.times:
        return Outcome.SILENT
    if any(each in clause.phrases for each in fact.phrases):
        return agrees
    known = frozenset(fact.phrases)
    if not is_negated:
        rivals = frozenset[str]().union(*(each for each in words.RIVALS if each & known)) - known
        if rivals & clause.keys:
            return Outcome.CONTRADICTS
    if known & _OFFERED:
        return agrees
    return Outcome.SILENT if is_negated else _of_value(clause, mention, fact)


def _of_value(clause: Clause, mention: Mention, fact: Fact) -> Outcome:
    """Return whether a clause gives another value than a field has, in the words of another row."""
    if any(
        each in clause.phrases
        for other in mention.group
        if other.key == fact.key
        for each in other.phrases
    ):
        return Outcome.CONTRADICTS
    if fact.phrases[0].count("|") >= 3:
        return Outcome.SILENT
    said = _IS.match(clause.text, mention.at[-1].end, clause.end)
    if said is None:
        return Outcome.SILENT
    if han := said["han"]:
        is_same = any(part in han or han in part for part in fact.phrases)
        return Outcome.SILENT if is_same else Outcome.CONTRADICTS
    key = tokens(said["word"])[0].key
    is_other = key not in words.FRAMES and all(key not in p.split("|") for p in fact.phrases)
    return Outcome.CONTRADICTS if is_other else Outcome.SILENT


# --- opening hours ------------------------------------------------------------------------------


def _read_hours(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Compare what a clause says of opening hours with those of the rows that it may mean."""
    times = [(time.start, time.end) for time in clause.times]
    if table.schedules:
        _read_schedules(clause, table, reading, times)
    facts = [fact for mention in clause.mentions for fact in mention.facts if fact.times]
    if times and len({fact.key for fact in facts}) == 1:
        known = [time for fact in facts for time in fact.times]
        if any(time.equals(other) for time in clause.times for other in known):
            reading.supported.update(times)
        else:
            reading.findings.append(Finding(*times[0], min(fact.label for fact in facts), True))


def _read_schedules(
    clause: Clause, table: FieldTable, reading: FieldReading, times: Sequence[tuple[int, int]]
) -> None:
    sides = list(hours.edges(clause.text[: clause.end], clause.times, clause.start))
    which = hours.days(clause.own)
    asked = which or (hours.days(clause.text[:400]) if sides else [])
    asked = [each for each in asked if each.is_named] or asked  # `weekdays (Tuesday to Friday)`
    says_closed = bool(hours.CLOSED.search(clause.own))
    if not (says_closed or hours.SAYS_OPEN.search(clause.own) or (sides and asked)):
        return
    named = [hours_of for row, hours_of in table.schedules.items() if row in clause.named]
    schedules = named or list(table.schedules.values())
    if not schedules or len(schedules) > MAX_SHARED:
        return
    days = [day for each in asked for day in each.days]
    says_closed = (says_closed and not sides) != clause.is_negated()
    results = [_of_hours(each, days, sides, says_closed=says_closed) for each in schedules]
    best = max(outcome for outcome, _ in results)
    places = [(clause.start + each.start, clause.start + each.end) for each in which] + [*times]
    if best is Outcome.SUPPORTS:
        reading.supported.update(places)
    elif best is not Outcome.SILENT:
        label = min(label for outcome, label in results if outcome is best)
        place = places[0] if places else (clause.start, clause.end)
        reading.findings.append(Finding(*place, label, best is Outcome.CONTRADICTS))


def _of_hours(
    schedule: hours.Schedule,
    asked: Sequence[int],
    sides: Sequence[tuple[hours.Time, bool]],
    *,
    says_closed: bool,
) -> tuple[Outcome, str]:
    """Return whether a schedule agrees with what is said of some days, and its field."""
    known: list[int] = []
    missing: list[int] = []
    for day in asked or schedule.hours:
        (missing if schedule.hours.get(day) is None else known).append(day)
    wrong = [
        day
        for day in known
        if not hours.agrees(schedule.hours[day] or (), sides, says_closed=says_closed)
    ]
    if (asked and wrong) or (not asked and known and len(wrong) == len(known) and sides):
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
        for token in mention.at
        if any(fact.numbers for fact in mention.facts)
    }
    left, used = list(clause.numbers), set()
    pairs = [(_gap(n, token), n, token) for n in clause.numbers for token in counted]
    for gap, number, token in sorted(pairs):
        if number not in left or token in used or gap > 48:
            continue
        mentions = [mention for mention in clause.mentions if token in mention.at]
        facts = [f for mention in mentions for f in mention.facts if _fits(f, number)]
        is_behind = gap <= 24 and token.start >= number.end  # `three reviews`
        facts = [fact for fact in facts if is_behind or not fact.is_count]
        if facts:
            left.remove(number)
            used.add(token)
            spans = [(each.start, each.end) for mention in mentions for each in mention.at]
            _compare(clause, number, facts, spans, reading)


def _gap(number: Number, word: Token) -> int:
    """Return how far a word is from a number; one behind it is a little nearer."""
    if word.start >= number.end:
        return word.start - number.end
    return max(0, number.start - word.end) + 1


def _fits(fact: Fact, number: Number) -> bool:
    """Return whether a field may be what a number is of, by their units; a year is of years."""
    if not number.unit and _YEAR.fullmatch(number.key):
        return any(_YEAR.fullmatch(each.key) for each in fact.numbers)
    return any(not (each.unit and number.unit) or each.unit == number.unit for each in fact.numbers)


_YEAR: Final = lazy_pattern(r"#(?:1\d|20|21)\d\d")


def _compare(
    clause: Clause,
    number: Number,
    facts: Sequence[Fact],
    spans: Sequence[tuple[int, int]],
    reading: FieldReading,
) -> None:
    """Compare a number with fields or, of several rows, with what the clause says of them all."""
    columns: dict[tuple[str, ...], list[Fact]] = defaultdict(list)
    for fact in facts:
        columns[fact.column].append(fact)
    signs = (each for each in (*_TOTALS, *_EXTREMES) if each.signs.search(clause.own))
    derived = next(signs, None)
    figures: list[tuple[int, str, float]] = []
    """How many words speak of each, its label and its value."""
    for column, alike in columns.items():
        values = [fact.numbers[0].value for fact in alike if fact.numbers]
        if derived and len(alike) > 1 and values:
            value = derived.of(values)
            figures.append((0, f"{derived.name} of {'.'.join(column)}: {value:.6g}", value))
        elif derived not in _EXTREMES:
            figures += [(len(f.said), f.label, each.value) for f in alike for each in f.numbers]
    if any(_is_about(clause, number, value) for _, _, value in figures):
        reading.supported.update([(number.start, number.end), *spans])
    elif figures:
        reading.findings.append(Finding(number.start, number.end, min(figures)[1], True))


def _is_about(clause: Clause, number: Number, value: float) -> bool:
    """Return whether a number says what a field's value is: exactly, rounded, or as a limit."""
    before = clause.text[max(clause.start, number.start - 16) : number.start]
    if _ABOVE.search(before):
        return value >= number.value
    if _BELOW.search(before):
        return value <= number.value
    if _ABOUT.search(before) or "左右" in clause.text[number.end : number.end + 3]:
        return abs(number.value - value) <= 0.1 * abs(value)
    digits = number.key[1:].replace(".", "").strip("0")
    is_rounded = 20 > len(digits) >= 2 and float(f"{value:.{len(digits)}g}") == number.value
    return number.value == value or is_rounded


# --- rows ---------------------------------------------------------------------------------------


def _read_states(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Find states that rule out the one that a field has: `shipped`, `cancelled`."""
    for said in sorted(clause.keys & words.STATUSES):
        rivals = next((each for each in words.RIVALS if said in each), frozenset[str]())
        facts = [f for rival in sorted(rivals) for f in table.by_value.get(rival, ())[:MAX_SHARED]]
        if clause.named:
            facts = [fact for fact in facts if table.is_of(fact, clause.named)]
        if facts and not any(fact.phrases[0] in clause.keys for fact in facts):
            label = min(fact.label for fact in facts)
            reading.findings.append(Finding(*clause.phrases[said], label, True))


def _read_extremes(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Find a row that is said to have the most or the least of something, and has not."""
    if clause.numbers:
        return
    groups = [mention.group for mention in clause.mentions]
    if _ASKS_PRICE.search(clause.own):
        groups += [table.groups[name] for name in table.by_word.get("price", ())]
    for extreme in _EXTREMES:
        word = extreme.signs.search(clause.own)
        for group in groups if word else ():
            facts = [f for f in group[:MAX_COMPARED] if len(f.numbers) == 1 and not f.is_count]
            own = [fact for fact in facts if table.is_of(fact, clause.named)]
            if len(facts) > len(own) == 1:
                best = extreme.of([fact.numbers[0].value for fact in facts])
                if word and own[0].numbers[0].value != best:
                    place = clause.start + word.start(), clause.start + word.end()
                    reading.findings.append(Finding(*place, own[0].label, True))


def _read_values_of_others(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Find a value that another row has, and not the one that is named."""
    said = {number.key: (number.start, number.end) for number in clause.numbers}
    for value, span in {**clause.phrases, **said}.items():
        facts = [fact for fact in table.by_value.get(value, ()) if not fact.is_count]
        if not 0 < len(facts) <= MAX_SHARED or span in reading.supported:
            continue
        if any(table.is_of(fact, clause.named) for fact in facts):
            continue
        wrong: list[str] = []
        for name in {(fact.said, fact.around) for fact in facts}:
            group = table.groups[name][:MAX_COMPARED]
            own = [fact for fact in group if table.is_of(fact, clause.named)]
            if own and not any(_stands(clause, fact, said.keys()) for fact in own):
                wrong += [fact.label for fact in own]
        if wrong:
            reading.findings.append(Finding(*span, min(wrong), True))


def _stands(clause: Clause, fact: Fact, numbers: Collection[str]) -> bool:
    """Return whether a field's value stands in a clause, or it has none."""
    if not (fact.phrases or fact.numbers):
        return True
    values = [*fact.phrases, *(number.key for number in fact.numbers if number.key in numbers)]
    return any(each in clause.phrases or each in numbers for each in values)
