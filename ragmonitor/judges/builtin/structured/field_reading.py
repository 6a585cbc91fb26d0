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
from itertools import chain, pairwise
from operator import attrgetter
from statistics import fmean
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.stems import stems
from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured import fields, hours
from ragmonitor.judges.builtin.structured.fields import Fact, FieldTable, phrase, tokens
from ragmonitor.judges.builtin.structured.formats import Row
from ragmonitor.judges.builtin.structured.hours import Token, token_of
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
_IS: Final = lazy_pattern(
    r"\s{0,3}(?:(?:is|are|was|were|:|=)\s{1,3}(?:(?:the|a|an|very|quite|now|currently|set|to)"
    r"\s{1,3}){0,3}([^\W\d_]+)|(?:为|是|：)([\u3400-\u9fff]{2,8}))"
)
_HAN_LIMITS: Final = lazy_pattern("[~比约近]|左右|超过|至少|不低于|不到|低于|最多")
_OFFERED: Final = {*map(phrase, ("free", "paid", "full bar", "beer and wine", "免费", "收费"))}
"""Values that say that there is something at all."""
_Reckon = Callable[[list[float]], float]
_RECKONED: dict[str, _Reckon] = {"average": fmean, "total": sum, "highest": max, "lowest": min}
"""How the figures of several rows are reckoned."""
_OPEN: Final = stems("open close shut")
Span = tuple[int, int]
Outcome = tuple[int, str]
"""What a field says of what is said, and its label."""
SILENT, CONTRADICTS, UNKNOWN, SUPPORTS = range(4)
"""The strongest last; unknown is what a field without a value says."""


class Finding(NamedTuple):
    """A part of a sentence that a field does not bear out."""

    start: int
    end: int
    label: str
    """The field and its value."""
    conflicts: bool
    """Whether the field says otherwise; else it has no value."""


class Mention(NamedTuple):
    """What a clause says of some fields, which are spoken of by the same words."""

    group: fields.Group
    at: Sequence[Token]
    """The words that speak of them."""
    facts: Sequence[Fact]
    """Those of the rows that are named."""


class Clause:
    """One clause of a sentence, and what is said in it."""

    def __init__(self, text: str, span: Span, content: Sequence[Term], table: FieldTable) -> None:
        """Read a clause, and find the rows that are named in it."""
        self.text = text
        self.start, self.end = span
        self.own = text[self.start : self.end]
        self.tokens = tokens(text, *span)
        if not text.isascii():
            self.tokens = sorted([*self.tokens, *_chinese_tokens(text, span, table)], key=_START)
        self.keys = {token.key for token in self.tokens}
        if _NOT_TOLD.search(self.own):
            self.keys.add("unknown")
        begin, end = (bisect_left(content, at, key=_AT) for at in span)
        content = content[begin:end]
        self.times = hours.times(content)
        self.numbers = fields.numbers_of(text, content)
        self.signs = [token_of(term) for term in content if term.kind == "negation"]
        self.rows: set[Row] = set()
        """The rows that are named, here or elsewhere in the sentence."""
        for name, rows in fields.among(self.tokens, table.names):  # which holds none of the numbers
            if len(rows) <= fields.MAX_SHARED:
                self.rows.update(rows)
                self.numbers = [
                    n for n in self.numbers if n.start >= name.end or n.end <= name.start
                ]
        self.numbers = self.numbers if len(self.numbers) <= MAX_PER_CLAUSE else []
        self.mentions: list[Mention] = []

    def find_mentions(self, everywhere: fields.Group, table: FieldTable) -> None:
        """Find the fields of which a word stands here, and all in the whole sentence."""
        groups: dict[fields.Group, None] = {}
        for token in self.tokens:
            spoken = table.by_word.get(token.key, ())
            for group in spoken if len(spoken) <= fields.MAX_SHARED else ():
                if group <= everywhere:
                    groups[group] = None
        found: list[Mention] = []
        whole: list[set[Token]] = []
        for group in groups if len(groups) <= MAX_PER_CLAUSE else ():
            at = [token for token in self.tokens if token.key in group]
            found.append(Mention(group, at, table.of(group, self.rows)))
            if not any(at[0].start <= number.start < at[-1].start for number in self.numbers):
                whole.append({*at})
        if len(found) > 1:
            found = [m for m in found if not any({*m.at} < other for other in whole)]
        self.mentions = found

    def is_negated(self, at: Sequence[Token] = ()) -> bool:
        """Return whether the clause denies what some of its words speak of, or anything."""
        signs = [s for s in self.signs if not any(t.start <= s.start < t.end for t in at)]
        for other in self.mentions if at and signs else ():
            first = other.at[0].start
            if set(other.at).isdisjoint(at):  # `not near the harbour` denies that alone
                signs = [sign for sign in signs if not 0 <= first - sign.end <= 8]
        return bool(signs) != ("without" in self.keys)

    def find(self, value: str) -> Span | None:
        """Return where a phrase stands."""
        joined = "|".join(["", *[token.key for token in self.tokens], ""]) if value else ""
        at = joined.find(f"|{value}|")
        if at < 0:
            return None
        first = joined.count("|", 0, at)
        return self.tokens[first].start, self.tokens[first + value.count("|")].end

    def derived(self) -> Token | None:
        """Return what is said of several rows together (`average`), and where."""
        for token in self.tokens:
            name = words.DERIVED.get(self.text[token.start : token.end].lower())
            if name:
                return token._replace(key=name)
        return None


_NOT_TOLD: Final = lazy_pattern(
    r"\bnot? (?:mentioned|specified|listed|provided|stated|known)\b"  # not `does not provide`
)
_START: Final = attrgetter("start")
_AT: Final = attrgetter("at")


def _clauses(text: str, content: Sequence[Term], table: FieldTable) -> list[Clause]:
    """Return the clauses of a sentence, with what they mention.

    Rows that are named in any of them go for those that name none.
    """
    places: list[int] = []
    has_sign = "," in text or ";" in text or not text.isascii()
    if has_sign or not words.JOINING.isdisjoint(text.lower().split()):
        places = [border.start() for border in _BORDER.finditer(text)]
    spans = pairwise([0, *places, len(text)])
    clauses = [Clause(text, span, content, table) for span in spans]
    named = set[Row]().union(*[clause.rows for clause in clauses])
    everywhere = frozenset[str]().union(*[clause.keys for clause in clauses])
    for clause in clauses:
        if len(named) <= fields.MAX_SHARED:
            clause.rows = clause.rows or named
        clause.find_mentions(everywhere, table)
    return clauses


def _chinese_tokens(text: str, span: Span, table: FieldTable) -> Iterator[Token]:
    """Yield the words of a part of a Chinese text by which any field is spoken of."""
    for at in range(*span):
        for size in range(2, fields.MAX_HAN + 1) if text[at] in table.han else ():
            word = text[at : at + size].lower()
            for known in {word, words.SAME.get(word, word)} if word in table.han else ():
                yield Token(known, at, at + len(word))


class FieldReading:
    """What the fields bear out of a sentence, and what they object to."""

    def __init__(self, text: str, content: Sequence[Term], table: FieldTable) -> None:
        """Read a sentence, whose terms have offsets."""
        self.supported: set[Span] = set()
        self.findings: list[Finding] = []
        self._table = table
        for clause in _clauses(text, content, table):
            if table.weeks and "unknown" not in clause.keys:
                self._read_hours(clause)
            for mention in clause.mentions:
                self._read_mention(clause, mention)
            is_value = clause.keys.isdisjoint(words.LIMITS)
            if clause.numbers and is_value and not _HAN_LIMITS.search(clause.own):
                self._read_numbers(clause)
            if clause.rows and not self.findings and not clause.is_negated():
                self._read_extremes(clause)
                self._read_values_of_others(clause)
        if self.supported:  # so are the words that only carry what a field says
            carried = [t for t in content if t.key in words.FRAMES or t.kind == "negation"]
            self.supported.update([token_of(term)[1:] for term in carried])
            for frame in words.HAN_FRAMES if not text.isascii() else ():
                at = text.find(frame)
                if at >= 0:
                    self.supported.add((at, at + len(frame)))

    def _add(
        self, outcomes: Sequence[Outcome], places: Sequence[Span], borne: Sequence[Span] = ()
    ) -> None:
        """Add the strongest of some outcomes.

        Args:
            outcomes: What the fields say that may be meant.
            places: Where it stands what they speak of; the first is where a finding begins.
            borne: What else is supported if one agrees.
        """
        best = max([outcome for outcome, _ in outcomes], default=SILENT)
        if best == SUPPORTS:
            self.supported.update([*places, *borne])
        elif best != SILENT:
            label = min(label for outcome, label in outcomes if outcome == best)
            self.findings.append(Finding(*places[0], label, best == CONTRADICTS))

    def _read_mention(self, clause: Clause, mention: Mention) -> None:
        """Compare what a clause says of a field that holds no number."""
        is_negated = clause.is_negated(mention.at)
        outcomes: list[Outcome] = []
        borne: list[Span] = []
        known: list[Token] = []
        for fact in mention.facts:
            place = clause.find(fact.value.phrase)
            outcome = _outcome(clause, mention, fact, place, is_negated=is_negated)
            outcomes.append((outcome, fact.label if outcome in {CONTRADICTS, UNKNOWN} else ""))
            borne += [place] if place else []
            known += fact.value.times
        places = [(mention.at[0].start, mention.at[-1].end)]
        if known and clause.times:
            right = [time for time in clause.times if any(hours.is_same(time, k) for k in known)]
            places = [time[1:] for time in right or clause.times]
        self._add(outcomes, places, borne)

    def _read_hours(self, clause: Clause) -> None:
        """Compare what a clause says of opening hours with those of the rows that it may mean."""
        weeks = self._table.weeks_of(clause.rows)
        is_about = clause.times or not (clause.own.isascii() and clause.keys.isdisjoint(_OPEN))
        if not is_about or len(weeks) > fields.MAX_SHARED:
            return
        sides = list(hours.edges(clause.text[: clause.end], clause.times, clause.start))
        says_closed = bool(hours.CLOSED.search(clause.own))
        which = hours.days(clause.own)
        asked = which or (hours.days(clause.text[:400]) if sides else [])
        if not (says_closed or (sides and asked) or hours.SAYS_OPEN.search(clause.own)):
            return
        days = [day for _, each in asked for day in each]
        says_closed = (says_closed and not sides) != clause.is_negated()
        outcomes = [_of_week(week, days, sides, says_closed=says_closed) for week in weeks]
        places = [(clause.start + start, clause.start + end) for (start, end), _ in which]
        places += [time[1:] for time in clause.times]
        self._add(outcomes, places or [(clause.start, clause.end)])

    def _read_numbers(self, clause: Clause) -> None:
        """Compare each number with the fields whose words stand next to it."""
        spoken: dict[Token, list[Mention]] = defaultdict(list)
        for mention in clause.mentions:
            for token in mention.at if any(f.value.numbers for f in mention.facts) else ():
                spoken[token].append(mention)
        used: set[Token] = set()
        near = sorted((_gap(n, t), n, t) for n in clause.numbers for t in spoken)
        for gap, number, token in near:
            is_behind = gap <= 24 and token.start > number.start  # `three reviews`
            facts = [
                fact
                for mention in spoken[token]
                for fact in mention.facts
                if fact.value.numbers and (is_behind or not fact.is_count)
            ]
            if gap > 48 or not facts or not used.isdisjoint({number, token}):
                continue
            used |= {number, token}
            outcomes = [
                (SUPPORTS if _is_value(number.key, value) else CONTRADICTS, label)
                for label, value in _figures(clause, facts)
            ]
            at = [each[1:] for mention in spoken[token] for each in mention.at]
            self._add(outcomes, [number[1:], *at])

    def _read_extremes(self, clause: Clause) -> None:
        """Find a row that is said to have the most or the least of something, and has not."""
        said = None if clause.numbers else clause.derived()
        for mention in clause.mentions if said and said.key in {"highest", "lowest"} else ():
            group = self._table.groups[mention.group][: fields.MAX_COMPARED]
            facts = [fact for fact in group if fact.value.amounts and not fact.is_count]
            own = [fact for fact in facts if not clause.rows.isdisjoint(fact.rows)]
            if said and len(facts) > len(own) == 1:
                best = _RECKONED[said.key]([fact.value.amounts[0] for fact in facts])
                if best not in own[0].value.amounts:
                    self._add([(CONTRADICTS, own[0].label)], [said[1:]])

    def _read_values_of_others(self, clause: Clause) -> None:
        """Find a value that another row has, and not the one that is named."""
        values = self._table.values
        said = {each.key: (each[1:], facts) for each, facts in fields.among(clause.tokens, values)}
        for each in clause.numbers:
            said[each.key] = each[1:], values.get(each.key, {}).get(each.key, ())
        for span, facts in said.values():
            is_own = any(not clause.rows.isdisjoint(fact.rows) for fact in facts)
            if is_own or len(facts) > fields.MAX_SHARED or span in self.supported:
                continue
            outcomes: list[Outcome] = []
            for group in {fact.said for fact in facts}:
                every = self._table.groups[group][: fields.MAX_COMPARED]
                own = [fact for fact in every if not clause.rows.isdisjoint(fact.rows)]
                have = [{fact.value.phrase, *fact.value.numbers} - {""} for fact in own]
                if all(each and said.keys().isdisjoint(each) for each in have):
                    outcomes += [(CONTRADICTS, fact.label) for fact in own]
            self._add(outcomes, [span])


def _outcome(
    clause: Clause, mention: Mention, fact: Fact, place: Span | None, *, is_negated: bool
) -> int:
    """Return what a field, whose value may stand in a clause, says of its mention there."""
    value = fact.value
    if "unknown" in clause.keys:
        return SUPPORTS if value.is_null else SILENT
    if value.is_null:
        is_asked = not clause.own.isascii() or not clause.keys.isdisjoint(words.OFFERS)
        return UNKNOWN if is_asked and not clause.numbers else SILENT
    if value.truth is not None:
        return SUPPORTS if value.truth != is_negated else CONTRADICTS
    if value.times and clause.times:
        is_said = any(hours.is_same(said, each) for said in clause.times for each in value.times)
        return SUPPORTS if is_said else CONTRADICTS
    if not value.phrase or value.numbers or value.times:
        return SILENT
    if place or value.phrase in _OFFERED:
        return CONTRADICTS if is_negated else SUPPORTS
    said = None if is_negated else _IS.match(clause.text, mention.at[-1].end, clause.end)
    if said is None:
        return SILENT
    other = phrase(said[1] or said[2])  # right behind the words of the field
    is_same = other in words.FRAMES or other in value.phrase or value.phrase in other
    return SILENT if is_same else CONTRADICTS


def _of_week(
    week: dict[int, list[Fact]],
    asked: Sequence[int],
    sides: Sequence[hours.Side],
    *,
    says_closed: bool,
) -> Outcome:
    """Return whether opening hours agree with what is said of some days or all, and the field."""
    known = {day: facts for day, facts in week.items() if _is_told(facts[-1])}
    days = [day for day in asked or week if day in known]
    missing = [day for day in asked if day not in known]
    wrong = [day for day in days if not _agrees(known[day], sides, says_closed=says_closed)]
    if wrong and (asked or (sides and wrong == days)):
        return CONTRADICTS, week[min(wrong)][0].label
    if not missing:
        return SUPPORTS if days and (asked or sides) else SILENT, ""
    day, path = min(missing), min(fact.path for facts in week.values() for fact in facts)
    label = f"{path.rpartition('.')[0] or path}.{hours.DAY_NAMES[day - 1]}"
    return SILENT if says_closed else UNKNOWN, week[day][0].label if day in week else label


def _is_told(fact: Fact) -> bool:
    """Return whether a field tells of hours; `0:0-0:0` may be none, or all of the day's."""
    keys = [time.key for time in fact.value.times[:2]]
    return not fact.value.is_null and (len(keys) < 2 or keys[0] != keys[1])


def _agrees(facts: Sequence[Fact], sides: Sequence[hours.Side], *, says_closed: bool) -> bool:
    """Return whether the hours of a day are what is said of it."""
    pairs = [zip(f.value.times[::2], f.value.times[1::2], strict=False) for f in facts]
    spans = [*chain(*pairs)]
    if not sides:
        return bool(spans) != says_closed
    return all(
        any(hours.is_same(time, span[0 if opens else 1]) for span in spans) for time, opens in sides
    )


def _figures(clause: Clause, facts: Sequence[Fact]) -> Iterator[tuple[str, float]]:
    """Yield what a number may be, with its label; of several rows what is said of them all."""
    columns: dict[tuple[str, ...], list[Fact]] = defaultdict(list)
    for fact in facts:
        columns["#" * fact.is_count, *fact.column].append(fact)
    derived = clause.derived()
    for column, alike in columns.items():
        if derived and len(alike) > 1:
            value = _RECKONED[derived.key]([fact.value.amounts[0] for fact in alike])
            yield f"{derived.key} of {'.'.join(column[1:])}: {value:.6g}", value
        elif not derived or derived.key in {"average", "total"}:
            for fact in alike:
                yield from [(fact.label, value) for value in fact.value.amounts]


def _gap(number: Token, word: Token) -> int:
    """Return how far a word is from a number; one behind it is a little nearer."""
    is_behind = word.start >= number.end
    return word.start - number.end if is_behind else max(0, number.start - word.end) + 1


def _is_value(key: str, value: float) -> bool:
    """Return whether a number is a field's value, exact or rounded to two digits or more."""
    digits, said = key[1:].replace(".", "").strip("0"), float(key[1:20])
    return said == value or (20 > len(digits) >= 2 and float(f"{value:.{len(digits)}g}") == said)
