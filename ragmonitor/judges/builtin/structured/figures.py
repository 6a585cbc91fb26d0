"""Numbers of a clause, compared with fields, and with their counts, averages, sums and extremes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ragmonitor.judges.builtin.quantities import is_year
from ragmonitor.judges.builtin.structured.clauses import Clause, Span
from ragmonitor.judges.builtin.structured.fields import (
    MAX_COMPARED,
    Fact,
    FieldTable,
    Group,
    Token,
)
from ragmonitor.judges.builtin.structured.findings import FieldReading
from ragmonitor.judges.builtin.text_terms import Term
from ragmonitor.patterns import lazy_pattern

COMPARES: Final = lazy_pattern(r"\b(?:than|compared|versus)\b|比", re.IGNORECASE)
"""Signs of a comparison, whose number need be no field's."""
_AVERAGE: Final = lazy_pattern(r"\b(?:averages?|averaging|mean)\b|平均", re.IGNORECASE)
_TOTAL: Final = lazy_pattern(
    r"\b(?:total|altogether|combined|sum|in all)\b|合计|总共|总计|一共", re.IGNORECASE
)
_HIGHEST: Final = lazy_pattern(
    r"\b(?:highest|largest|biggest|most|longest|heaviest|maximum|best|top)\b|最(?:高|大|多|贵|长|重)",
    re.IGNORECASE,
)
_LOWEST: Final = lazy_pattern(
    r"\b(?:lowest|smallest|cheapest|least|fewest|shortest|lightest|minimum)\b|最(?:低|小|少|便宜|短|轻)",
    re.IGNORECASE,
)
_DERIVED: Final[tuple[tuple[str, re.Pattern[str], Callable[[Sequence[float]], float]], ...]] = (
    ("average", _AVERAGE, lambda values: sum(values) / len(values)),
    ("total", _TOTAL, sum),
    ("highest", _HIGHEST, max),
    ("lowest", _LOWEST, min),
)
_ABOUT: Final = lazy_pattern(
    r"(?:about|around|roughly|nearly|almost|approximately|some|~|约|大约|近|左右)\s{0,2}\Z",
    re.IGNORECASE,
)
_ABOVE: Final = lazy_pattern(
    r"(?:over|more than|at least|above|exceeding|超过|至少|不低于)\s{0,2}\Z", re.IGNORECASE
)
_BELOW: Final = lazy_pattern(
    r"(?:under|less than|below|at most|fewer than|up to|不到|低于|最多)\s{0,2}\Z", re.IGNORECASE
)


def read_numbers(
    clause: Clause, table: FieldTable, reading: FieldReading, *, is_report: bool
) -> None:
    """Compare each number with the fields whose words stand next to it.

    Args:
        clause: The clause.
        table: The fields.
        reading: Where what is found is added.
        is_report: Whether the sentence tells of somebody: see `SOMEBODY`.
    """
    if COMPARES.search(clause.own):
        return
    used: set[Token] = set()
    pairs = [
        (_gap(number, token), token.start, number, token)
        for number in clause.numbers
        for token in sorted({t for m in clause.mentions for t in m.at})
        if any(f.numbers for m in clause.mentions if token in m.at for f in m.facts)
    ]
    left = list(clause.numbers)
    for gap, _, number, token in sorted(pairs, key=lambda pair: pair[:2]):
        if number not in left or token in used or gap > _MAX_GAP:
            continue
        mentions = [m for m in clause.mentions if token in m.at]
        facts = [f for m in mentions for f in m.facts if _fits(f, number)]
        if gap > _MAX_COUNT_GAP or token.start < number.end:  # `three reviews`, not `default 3`
            facts = [f for f in facts if not f.is_count]
        if facts and not _is_share(clause, number, table):
            left.remove(number)
            used.add(token)
            spans = [(t.start, t.end) for m in mentions for t in m.at]
            if not (is_report and _stands_anywhere(number, table.groups_of(token.key))):
                _compare(clause, number, facts, spans, reading)
    for number in left:
        if _is_share(clause, number, table):
            reading.support((number.start, number.end))
            continue
        groups = table.by_unit.get(number.unit, ()) if number.unit else ()
        if len(groups) == 1 and (clause.named or len(groups[0].facts) == 1):
            facts = [f for f in groups[0].of(clause.named) if _fits(f, number)]
            if facts and len({f.row for f in facts}) <= len(clause.named) + 1:
                _compare(clause, number, facts, [], reading)


SOMEBODY: Final = lazy_pattern(
    r"\b(?:one|another|some|customers?|reviewers?|guests?|diners?|users?|visitors?|review)\b"
    r"|顾客|用户",
    re.IGNORECASE,
)
"""Signs that a number may be of one of many: what one customer gave, not what all gave."""


def _is_share(clause: Clause, number: Term, table: FieldTable) -> bool:
    """Return whether so many rows have a value of the clause: `two are on the pro plan`."""
    return any(
        number.key == f"#{len(table.with_value(value))}" and len(table.with_value(value)) > 1
        for value in clause.phrases
    )


def _stands_anywhere(number: Term, groups: Sequence[Group]) -> bool:
    """Return whether one of several fields of a key has a number."""
    return any(
        number.key == key
        for group in groups
        if 1 < len(group.facts) <= MAX_COMPARED
        for fact in group.facts
        for key, _ in fact.numbers
    )


_MAX_GAP: Final = 48
"""Characters between a number and the word for what it is of."""
_MAX_COUNT_GAP: Final = 24
"""Characters between a number and the word for what is counted, which follows it."""


def _gap(number: Term, token: Token) -> int:
    if token.start >= number.end:
        return token.start - number.end
    return max(0, number.start - token.end) + 1  # what follows a number goes before


def _fits(fact: Fact, number: Term) -> bool:
    """Return whether a field may be what a number is of, by their units; a year is of years."""
    in_years = not number.unit and is_year(number.key[1:])
    return any(
        is_year(key[1:]) if in_years else not unit or not number.unit or unit == number.unit
        for key, unit in fact.numbers
    )


def _compare(
    clause: Clause,
    number: Term,
    facts: Sequence[Fact],
    spans: Sequence[Span],
    reading: FieldReading,
) -> None:
    """Compare a number with the fields that it may be of."""
    at = (number.start, number.end)
    figures = list(_figures(clause, facts))
    if any(_is_about(clause, number, value) for _, _, value in figures):
        reading.support(at, *spans)
    elif figures:
        reading.object(at, min(figures)[1])


def _figures(clause: Clause, facts: Sequence[Fact]) -> Iterator[tuple[int, str, float]]:
    """Yield what a number in a clause may be: a rank, best first, the evidence and the value.

    Of several fields with one key it is their average, sum or extreme, if the clause says so.
    """
    columns: dict[tuple[str, ...], list[Fact]] = {}
    for fact in facts:
        columns.setdefault(fact.column, []).append(fact)
    derived = next(((name, of) for name, sign, of in _DERIVED if sign.search(clause.own)), None)
    for column, alike in columns.items():
        if derived and len(alike) > 1:
            for numbers in zip(*(f.numbers for f in alike if f.numbers), strict=False):
                value = derived[1]([float(key[1:]) for key, _ in numbers if _is_number(key)] or [0])
                yield 0, f"{derived[0]} of {'.'.join(column)}: {value:.6g}", value
        elif not derived or derived[0] in {"average", "total"}:
            for fact in alike:
                for key, _ in fact.numbers:
                    if _is_number(key):
                        yield len(fact.said), fact.label, float(key[1:])


_MAX_DIGITS: Final = 20


def _is_number(key: str) -> bool:
    return len(key) <= _MAX_DIGITS


def _is_about(clause: Clause, number: Term, value: float) -> bool:
    """Return whether a number may be given for a value, as exactly as it is given."""
    if not _is_number(number.key):
        return False
    stated = float(number.key[1:])
    before = clause.text[max(clause.start, number.start - 16) : number.start]
    if _ABOVE.search(before):
        return value >= stated
    if _BELOW.search(before):
        return value <= stated
    if stated == value:
        return True
    if _ABOUT.search(before) or clause.text[number.end : number.end + 3].find("左右") >= 0:
        return abs(stated - value) <= 0.1 * abs(value)
    digits = number.key[1:].replace(".", "").strip("0")
    return len(digits) >= _MIN_DIGITS and float(f"{value:.{len(digits)}g}") == stated


_MIN_DIGITS: Final = 2
"""Digits that a rounded number has at least."""


def read_extremes(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Check that the row which a clause calls the highest, the cheapest is the one."""
    lowest = _LOWEST.search(clause.own)
    word = lowest or _HIGHEST.search(clause.own)
    if word is None or not clause.named or clause.numbers:
        return
    groups = [mention.group for mention in clause.mentions]
    if _OF_PRICE.search(clause.own):
        groups += table.groups_of("price")
    wrong: list[str] = []
    at = (clause.start + word.start(), clause.start + word.end())
    for group in groups:
        figures = [f for f in group.facts[: MAX_COMPARED + 1] if _figure(f) is not None]
        own = [f for f in figures if not clause.named.isdisjoint(table.owners(f.row))]
        if not MAX_COMPARED >= len(figures) > len(own) == 1:
            continue
        values = [_figure(fact) or 0.0 for fact in figures]
        if _figure(own[0]) == (min(values) if lowest else max(values)):
            reading.support(at)
        else:
            wrong.append(own[0].label)
    if wrong:
        reading.object(at, min(wrong))


_OF_PRICE: Final = lazy_pattern(r"\bcheapest\b|\bmost expensive\b|最便宜|最贵", re.IGNORECASE)


def _figure(fact: Fact) -> float | None:
    """Return the value of a field that is one number."""
    if len(fact.numbers) != 1 or fact.is_count or not _is_number(fact.numbers[0][0]):
        return None
    return float(fact.numbers[0][0][1:])
