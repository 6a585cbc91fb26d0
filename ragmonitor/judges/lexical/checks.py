"""Small things that change everything: numbers, units, dates, negations and names.

A sentence may consist of the chunks' own words and still say something else. Each check
compares it with the passages that come closest to it, and says whether the sentence *lacks*
support there or *conflicts* with them. A conflict needs a rival: another number in the same
unit, another month, another name in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.lexical.evidence import Evidence
from ragmonitor.judges.lexical.passages import OF_NOTE, Index, sort_of
from ragmonitor.judges.lexical.polarity import Polarity, polarity
from ragmonitor.judges.lexical.stems import stem
from ragmonitor.judges.lexical.vocabulary import CHINESE_OPPOSITES, OPPOSITES
from ragmonitor.judges.lexical.words import NEGATION, SIGNS, Term
from ragmonitor.records import Reason


@dataclass(slots=True)
class Finding:
    """One failed check."""

    reason: Reason
    term: Term
    """What in the sentence failed."""
    conflicts: bool
    """The chunks say something else in its place, rather than nothing."""


def failed_checks(
    text: str, content: Sequence[Term], evidence: Evidence, index: Index
) -> list[Finding]:
    """Return what the chunks closest to a sentence do not bear out, in the sentence's order.

    Args:
        text: What the terms' offsets point into.
        content: The sentence's terms.
        evidence: What the chunks hold of them.
        index: The chunks.
    """
    said = {term.key for term in content}
    found = _missing(text, said, evidence, index)
    found += _units(content, evidence, index)
    alike = _most_alike(said, evidence, index)
    if alike is not None:
        found += _opposites(content, said, alike, index)
        if NEGATION in said or index.held(alike).may_negate:
            found += _negations(polarity(text, content), alike, evidence, index)
    return sorted(found, key=lambda finding: finding.term.start)


def _missing(text: str, said: set[str], evidence: Evidence, index: Index) -> list[Finding]:
    """Find numbers, dates and names that stand nowhere in the chunks."""
    missing = [
        term
        for term in evidence.missing
        if term.kind in OF_NOTE
        and (
            term.kind != "name" or (_is_name(text, term) and not _is_spelled_out(text, term, index))
        )
    ]
    if not missing:
        return []
    near = [index.notes(at).sorts for at in evidence.window]
    has_rival: dict[str, bool] = {}
    for sort in {sort_of(term) for term in missing}:
        has_rival[sort] = any(not sorts.get(sort, _NONE) <= said for sorts in near)
    return [Finding(_reason(term), term, has_rival[sort_of(term)]) for term in missing]


_NONE: Final[frozenset[str]] = frozenset()


def _reason(term: Term) -> Reason:
    """Return which check it fails if a number, date or name is missing."""
    if term.kind == "name":
        return "name"
    return "date" if term.kind == "date" or sort_of(term) == "a year" else "number"


_BEGINS_CLAUSE = frozenset(':.!?"“‘*#>-–—•：。！？|')


def _is_name(text: str, term: Term) -> bool:
    """Return whether a capital is a name's, and not that of a sentence's first word.

    A first word is taken for a name only if another capital follows it: `Randal Kleiser is`.
    An acronym in brackets abbreviates the words before it, which are checked themselves.
    """
    surface = text[term.start : term.end]
    before = text[max(0, term.start - _LOOKED_BACK) : term.start].rstrip()[-1:]
    if before in {"(", "（"} and surface.isupper():
        return False
    if before and before not in _BEGINS_CLAUSE:
        return True
    following = text[term.end : term.end + 2]
    return following[:1] == " " and following[1:].isupper() and term.weight == RARE


_LOOKED_BACK: Final = 64
"""Characters before a word that are looked at for what stands before it."""


def _is_spelled_out(text: str, term: Term, index: Index) -> bool:
    """Return whether the chunks hold words with an acronym's letters in order: `UK`."""
    surface = text[term.start : term.end].replace(".", "")
    if not (surface.isupper() and surface.isalpha() and 2 <= len(surface) <= _LONGEST_ACRONYM):
        return False
    return index.spells_out(surface.lower())


_LONGEST_ACRONYM: Final = 6

RARE: Final = 1.0
"""Weight of words that are not among the common ones."""


def _units(content: Sequence[Term], evidence: Evidence, index: Index) -> list[Finding]:
    """Find numbers that stand near only with other units."""
    measured = [term for term in content if term.unit and term.kind == "number"]
    if not measured:
        return []
    near = [index.notes(at).units for at in evidence.window]
    found = []
    for term in measured:
        units = {unit for of in near for unit in of.get(term.key, ())}
        if units and term.unit not in units and "" not in units:
            found.append(Finding("unit", term, conflicts=True))
    return found


_OPPOSITE: Final[dict[str, set[str]]] = {}
for _left, _right in (*((stem(a), stem(b)) for a, b in OPPOSITES), *CHINESE_OPPOSITES):
    _OPPOSITE.setdefault(_left, set()).add(_right)
    _OPPOSITE.setdefault(_right, set()).add(_left)


def _opposites(content: Sequence[Term], said: set[str], alike: int, index: Index) -> list[Finding]:
    """Find words that the chunks lack near by and whose opposite the most alike passage has."""
    if said.isdisjoint(_OPPOSITE):
        return []
    there = index.held(alike).exact
    return [
        Finding("negation", term, conflicts=True)
        for term in content
        if term.key in _OPPOSITE
        and not any(term.key in index.held(at).exact for at in index.windows[alike])
        and not _OPPOSITE[term.key].isdisjoint(there)
        and _OPPOSITE[term.key].isdisjoint(said)
    ]


ALIKE: Final = 0.6
"""Share of a sentence that one passage must hold for their negations to be compared."""
LEAST_SHARED: Final = 3
"""Terms that the two must have in common besides."""


def _negations(here: Polarity, alike: int, evidence: Evidence, index: Index) -> list[Finding]:
    """Find the first word that is negated here and stated in the passage, or the reverse.

    Only where one of the two negates nothing at all: two negations may be turned differently
    and say the same.
    """
    there = index.polarity(alike)
    if bool(here.negated) == bool(there.negated):
        return []
    for key, term in here.first.items():  # in the sentence's order
        if key in here.unsure or key in there.unsure or key not in there.first:
            continue
        if key in here.negated or key in there.negated:
            is_said = _is_said(key, here, evidence, alike, index)
            return [] if is_said else [Finding("negation", term, conflicts=True)]
    return []


COMPARED: Final = 16
"""Passages in which a word is looked for, as the sentence has it, before it is contradicted."""


def _is_said(key: str, here: Polarity, evidence: Evidence, alike: int, index: Index) -> bool:
    """Return whether a passage that is as much alike has a word negated, or not, as it is here.

    The rows of a table are alike in their words, and so is what holds for one thing and not for
    another.
    """
    by_passage = evidence.by_passage
    least = by_passage[alike] - 1e-9
    as_much = [at for at, share in by_passage.items() if share >= least]
    is_negated = key in here.negated
    return any(
        key in (there.negated if is_negated else there.stated)
        for there in map(index.polarity, as_much[:COMPARED])
    )


def _most_alike(said: set[str], evidence: Evidence, index: Index) -> int | None:
    """Return the passage that holds most of the sentence by itself, if it is enough."""
    least = ALIKE * evidence.weight
    candidates = [at for at in evidence.window if evidence.by_passage.get(at, 0.0) >= least]
    if not candidates:
        return None
    best = max(candidates, key=lambda at: (evidence.by_passage[at], index.texts[at]))
    return best if _shares_enough(said, best, index) else None


def _shares_enough(said: set[str], passage: int, index: Index) -> bool:
    """Return whether the two have `LEAST_SHARED` terms in common, or most of a short one's."""
    if (
        _is_short_and_same(said, passage, index)
        or len(said & index.held(passage).exact) >= LEAST_SHARED
    ):
        return True
    if said.isdisjoint(SIGNS):
        return False
    there = index.polarity(passage)
    return len(said & there.first.keys()) + len(said & there.signs) >= LEAST_SHARED


def _is_short_and_same(said: set[str], passage: int, index: Index) -> bool:
    """Return whether one of the two is short and says little more than the other.

    `No pets` and `Pets are allowed`: all that the passage says stands in the sentence, or all that
    the sentence says in a passage that has no more than `LEAST_SHARED` terms.
    """
    there = index.held(passage).exact
    shared = len(said & there)
    if not shared or len(there) > LEAST_SHARED:
        return False
    return shared == len(there) or (shared > 1 and shared == len(said - SIGNS))
