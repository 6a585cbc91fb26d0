"""A sentence, read against the fields of structured chunks.

Each clause is looked at by itself. A field is spoken of where all its words stand in the clause;
where the clause or the sentence names rows, only theirs count. A field *supports* what agrees with
it, and *contradicts* a clause only if no field that may be meant agrees. A field without a value
does neither: what is said of it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured.clauses import Clause, Mention, clauses_of
from ragmonitor.judges.builtin.structured.fields import MAX_SHARED, Fact, FieldTable, phrase, tokens
from ragmonitor.judges.builtin.structured.figures import (
    COMPARES,
    SOMEBODY,
    read_extremes,
    read_numbers,
)
from ragmonitor.judges.builtin.structured.findings import FieldReading, Outcome
from ragmonitor.judges.builtin.structured.opening_hours import read_schedules, read_times
from ragmonitor.judges.builtin.text_terms import Term
from ragmonitor.patterns import lazy_pattern

_UNKNOWN: Final = lazy_pattern(
    r"\b(?:unclear|unknown|unspecified|no information"
    r"|not? (?:mentioned|specified|listed|provided|stated|known|given))\b"
    r"|未提及|没有提到|未说明|未知|不清楚|未注明",
    re.IGNORECASE,
)


def read_fields(text: str, content: Sequence[Term], table: FieldTable) -> FieldReading:
    """Return what the fields bear out of a sentence, and what they do not.

    Args:
        text: The sentence.
        content: Its terms, whose offsets point into it.
        table: The fields.
    """
    reading = FieldReading()
    # Of the whole sentence, and so once: it may have as many clauses as words.
    tells_opinion, is_report = bool(_REPORTS.search(text)), bool(SOMEBODY.search(text))
    for clause in clauses_of(text, content, table):
        is_unknown = bool(_UNKNOWN.search(clause.own))
        if not is_unknown:
            read_schedules(clause, table, reading)
            read_times(clause, reading)
        if not tells_opinion or _OFFERS.search(clause.own):
            for mention in clause.mentions:
                _read_mention(clause, mention, reading, is_unknown=is_unknown)
        read_numbers(clause, table, reading, is_report=is_report)
        _read_statuses(clause, table, reading)
        read_extremes(clause, table, reading)
        if not (reading.findings or COMPARES.search(clause.own)):
            _read_rows(clause, table, reading)
    if reading.supported:
        _support_frame(text, content, reading)
    return reading


def _support_frame(text: str, content: Sequence[Term], reading: FieldReading) -> None:
    """Support the words that only carry what a field says."""
    reading.support(
        *((t.start, t.end) for t in content if t.key in words.FRAMES or t.kind == "negation")
    )
    if text.isascii():
        return
    for frame in words.HAN_FRAMES:
        at = text.find(frame)
        if at >= 0:
            reading.support((at, at + len(frame)))


def _read_mention(
    clause: Clause, mention: Mention, reading: FieldReading, *, is_unknown: bool
) -> None:
    """Compare a clause with the fields that it speaks of, apart from numbers and hours."""
    negated = clause.denies(mention)
    outcomes = [(_outcome(clause, mention, fact, negated=negated), fact) for fact in mention.facts]
    best = max(outcome for outcome, _ in outcomes)
    if is_unknown:
        best = Outcome.SUPPORTS if all(f.is_null for f in mention.facts) else Outcome.SILENT
    if best is Outcome.SUPPORTS:
        reading.support(*((token.start, token.end) for token in mention.at))
        for _, fact in outcomes:
            reading.support(*(clause.phrases[p] for p in fact.phrases if p in clause.phrases))
    elif best in {Outcome.CONTRADICTS, Outcome.UNKNOWN}:
        label = min(fact.label for outcome, fact in outcomes if outcome is best)
        reading.object(mention.span, label, conflicts=best is Outcome.CONTRADICTS)


def _outcome(clause: Clause, mention: Mention, fact: Fact, *, negated: bool) -> Outcome:
    if fact.is_null:
        is_said = not clause.numbers and _OFFERS.search(clause.own)
        return Outcome.UNKNOWN if is_said else Outcome.SILENT
    if fact.is_count:
        return _count_outcome(clause, mention, fact, negated=negated)
    if fact.truth is not None:
        return Outcome.SUPPORTS if fact.truth != negated else Outcome.CONTRADICTS
    if not fact.phrases or fact.numbers or fact.times:
        return Outcome.SILENT
    own = [each for each in fact.phrases if each in clause.phrases]
    if own:
        return Outcome.CONTRADICTS if negated else Outcome.SUPPORTS
    known = frozenset(fact.phrases)
    rivals = frozenset().union(*(r for r in words.RIVALS if r & known)) - known
    if rivals & clause.keys and not negated:
        return Outcome.CONTRADICTS
    if known & _OFFERED:
        return Outcome.CONTRADICTS if negated else Outcome.SUPPORTS
    if negated:
        return Outcome.SILENT
    return Outcome.CONTRADICTS if _says_other(clause, mention, fact) else Outcome.SILENT


def _count_outcome(clause: Clause, mention: Mention, fact: Fact, *, negated: bool) -> Outcome:
    """Return what the length of a list says of a clause without numbers."""
    if clause.numbers:
        return Outcome.SILENT
    if fact.numbers[0][0] == "#0":
        return Outcome.SUPPORTS if negated else Outcome.CONTRADICTS
    is_none = any(0 <= mention.span[0] - end <= 1 for _, end in clause.signs)
    return Outcome.CONTRADICTS if is_none else Outcome.SILENT


_REPORTS: Final = lazy_pattern(
    r"\b(?:complain|prais|mention|said|say|report|not(?:ed|es)\b|lov|felt|found|describ|despite)",
    re.IGNORECASE,
)
"""Signs that somebody's opinion is told, which is in no field."""
_OFFERS: Final = lazy_pattern(
    r"\b(?:has|have|had|with|offers?|provides?|includes?|features?|allows?|accepts?|available|supports?"
    r"|there (?:is|are)|enjoy|relax|use|welcome|comes?|serves?|takes?|provided|offered)\b"
    r"|有|提供|支持|可|设|带|含",
    re.IGNORECASE,
)
"""Signs that something is there."""
_OFFERED: Final = frozenset(
    map(phrase, ("free", "paid", "full bar", "beer and wine", "免费", "收费"))
)
"""Values of what is there."""
_IS: Final = lazy_pattern(
    r"\s{0,3}(?:(?:is|are|was|were|:|=)\s{1,3}(?:(?:the|a|an|very|quite|now|currently|set|to)\s{1,3}){0,3}(?P<word>[^\W\d_]+)"
    r"|(?:为|是|：)(?P<han>[\u3400-\u9fff]{2,8}))"
)


def _says_other(clause: Clause, mention: Mention, fact: Fact) -> bool:
    """Return whether a clause gives a field a value that is another's, or none of its own."""
    others = mention.group.values[fact.key]
    if any(each in others for each in clause.phrases):
        return True
    if not fact.is_whole or fact.phrases[0].count("|") >= _MAX_SIMPLE:
        return False
    said = _IS.match(clause.text, mention.span[1], clause.end)
    if said is None:
        return False
    if said["han"]:
        return not any(part in said["han"] or said["han"] in part for part in fact.phrases)
    key = tokens(said["word"])[0].key
    return not any(key in part.split("|") for part in fact.phrases) and key not in words.FRAMES


_MAX_SIMPLE: Final = 3
"""Words of a value from which it is a description, and may be given in other words."""


def _read_statuses(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Find a state, as `pending`, that rules out the one which a field gives: `shipped`."""
    for said in sorted(clause.keys & words.STATUSES):
        rivals = next(each for each in words.RIVALS if said in each)
        facts = [
            f
            for rival in rivals
            for group, f in table.with_value(rival)
            if f in group.of(clause.named)
        ]
        if (
            facts
            and not clause.is_negated()
            and not any(f.phrases[0] in clause.keys for f in facts)
        ):
            token = next(token for token in clause.tokens if token.key == said)
            reading.object((token.start, token.end), min(fact.label for fact in facts))


def _read_rows(clause: Clause, table: FieldTable, reading: FieldReading) -> None:
    """Find a value that another row has, and not the one that the clause names."""
    if not clause.named or clause.is_negated():
        return
    sought = {**clause.phrases, **{n.key: (n.start, n.end) for n in clause.numbers}}
    supported = set(reading.supported)
    for value, span in sought.items():
        if span in supported:
            continue
        places = [place for place in table.with_value(value) if not place[1].is_count]
        if any(not clause.named.isdisjoint(table.owners(f.row)) for _, f in places):
            continue
        wrong: list[str] = []
        for group, _ in places:
            own = [f for row in clause.named for f in group.by_owner.get(row, ())[:MAX_SHARED]]
            if own and not any(_stands(clause, fact) for fact in own):
                wrong += [fact.label for fact in own]
        if wrong:
            reading.object(span, min(wrong))


def _stands(clause: Clause, fact: Fact) -> bool:
    """Return whether a clause gives a field's own value, or the field has none to compare."""
    if not fact.phrases and not fact.numbers:
        return True
    return any(each in clause.phrases for each in fact.phrases) or any(
        number.key == key for number in clause.numbers for key, _ in fact.numbers
    )
