"""Checks of the details that change a meaning: numbers, units, dates, negations and names.

A sentence may consist of the chunks' own words and still say something else. Each check
compares it with the passages that come closest to it, and says whether the sentence *lacks*
support there or *conflicts* with them. A conflict needs a rival: another number in the same
unit, another month, another name in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.builtin.overlap import Overlap
from ragmonitor.judges.builtin.passage_index import DETAIL_KINDS, PassageIndex, detail_class
from ragmonitor.judges.builtin.polarity import Polarity, polarity
from ragmonitor.judges.builtin.stems import stem
from ragmonitor.judges.builtin.text_terms import NEGATION, SIGNS, Term
from ragmonitor.judges.builtin.word_lists import CHINESE_OPPOSITES, OPPOSITES
from ragmonitor.records import Reason


@dataclass(slots=True)
class FailedCheck:
    """One failed check."""

    reason: Reason
    term: Term
    """The term of the sentence that failed."""
    conflicts: bool
    """Whether the chunks say something else in its place, rather than nothing."""


def failed_checks(
    text: str, content: Sequence[Term], overlap: Overlap, index: PassageIndex
) -> list[FailedCheck]:
    """Return what the chunks closest to a sentence do not support, in the sentence's order.

    Args:
        text: What the terms' offsets point into.
        content: The sentence's terms.
        overlap: What the chunks hold of them.
        index: The chunks.
    """
    own = {term.key for term in content}
    failed = _missing(text, own, overlap, index)
    failed += _units(content, overlap, index)
    alike = _most_alike(own, overlap, index)
    if alike is not None:
        failed += _opposites(content, own, alike, index)
        if NEGATION in own or index.keys[alike].may_negate:
            failed += _negations(polarity(text, content), alike, overlap, index)
    return sorted(failed, key=lambda check: check.term.start)


def _missing(text: str, own: set[str], overlap: Overlap, index: PassageIndex) -> list[FailedCheck]:
    """Find numbers, dates and names that stand nowhere in the chunks."""
    missing = [
        term
        for term in overlap.missing
        if term.kind in DETAIL_KINDS
        and (
            term.kind != "name" or (_is_name(text, term) and not _is_spelled_out(text, term, index))
        )
    ]
    if not missing:
        return []
    near = [index.details[at].by_class for at in overlap.window]
    has_rival = {
        rivals: any(not of.get(rivals, set()) <= own for of in near)
        for rivals in {detail_class(term) for term in missing}
    }
    return [FailedCheck(_reason(term), term, has_rival[detail_class(term)]) for term in missing]


def _reason(term: Term) -> Reason:
    """Return which check a missing number, date or name fails."""
    if term.kind == "name":
        return "name"
    return "date" if term.kind == "date" or detail_class(term) == "a year" else "number"


_BEGINS_CLAUSE = frozenset(':.!?"“‘*#>-–—•：。！？|')


def _is_name(text: str, term: Term) -> bool:
    """Return whether a capital belongs to a name, and not to a sentence's first word.

    A first word is taken for a name only if another capital follows it: `Randal Kleiser is`.
    An acronym in brackets abbreviates the words before it, which are checked themselves.
    """
    surface = text[term.start : term.end]
    before = text[max(0, term.start - _MAX_BACK) : term.start].rstrip()[-1:]
    if before in {"(", "（"} and surface.isupper():
        return False
    if before and before not in _BEGINS_CLAUSE:
        return True
    following = text[term.end : term.end + 2]
    return following[:1] == " " and following[1:].isupper() and term.weight == RARE


_MAX_BACK: Final = 64
"""Characters before a word that are looked at for what stands before it."""


def _is_spelled_out(text: str, term: Term, index: PassageIndex) -> bool:
    """Return whether the chunks hold words with an acronym's letters in order: `UK`."""
    surface = text[term.start : term.end].replace(".", "")
    if not (surface.isupper() and surface.isalpha() and 2 <= len(surface) <= _MAX_ACRONYM):
        return False
    return index.spells_out(surface.lower())


_MAX_ACRONYM: Final = 6

RARE: Final = 1.0
"""Weight of words that are not among the common ones."""


def _units(content: Sequence[Term], overlap: Overlap, index: PassageIndex) -> list[FailedCheck]:
    """Find numbers that stand near only with other units."""
    measured = [term for term in content if term.unit and term.kind == "number"]
    if not measured:
        return []
    near = [index.details[at].units for at in overlap.window]
    failed = []
    for term in measured:
        units = {unit for of in near for unit in of.get(term.key, ())}
        if units and term.unit not in units and "" not in units:
            failed.append(FailedCheck("unit", term, conflicts=True))
    return failed


_OPPOSITE: Final[dict[str, set[str]]] = {}
for _left, _right in (*((stem(a), stem(b)) for a, b in OPPOSITES), *CHINESE_OPPOSITES):
    _OPPOSITE.setdefault(_left, set()).add(_right)
    _OPPOSITE.setdefault(_right, set()).add(_left)


def _opposites(
    content: Sequence[Term], own: set[str], alike: int, index: PassageIndex
) -> list[FailedCheck]:
    """Find words that the chunks lack near by and whose opposite the most alike passage has."""
    if own.isdisjoint(_OPPOSITE):
        return []
    there = index.keys[alike].exact
    return [
        FailedCheck("negation", term, conflicts=True)
        for term in content
        if term.key in _OPPOSITE
        and not any(term.key in index.keys[at].exact for at in index.windows[alike])
        and not _OPPOSITE[term.key].isdisjoint(there)
        and _OPPOSITE[term.key].isdisjoint(own)
    ]


ALIKE: Final = 0.6
"""Share of a sentence that one passage must hold for their negations to be compared."""
MIN_SHARED: Final = 3
"""Terms that the two must have in common besides."""


def _negations(
    here: Polarity, alike: int, overlap: Overlap, index: PassageIndex
) -> list[FailedCheck]:
    """Find the first word that is negated here and stated in the passage, or the reverse.

    One of the two must negate nothing at all: two negations may negate different words and say
    the same.
    """
    there = index.polarity[alike]
    if bool(here.negated) == bool(there.negated):
        return []
    for key, term in here.first.items():  # in the sentence's order
        if key in here.unsure or key in there.unsure or key not in there.first:
            continue
        if key in here.negated or key in there.negated:
            if _stands_elsewhere(key, here, overlap, alike, index):
                return []
            return [FailedCheck("negation", term, conflicts=True)]
    return []


MAX_COMPARED: Final = 16
"""Passages in which a word is looked for, as the sentence has it, before it is contradicted."""


def _stands_elsewhere(
    key: str, here: Polarity, overlap: Overlap, alike: int, index: PassageIndex
) -> bool:
    """Return whether a passage that is as much alike has a word negated, or not, as it is here.

    The rows of a table are alike in their words, and so is what holds for one thing and not for
    another.
    """
    by_passage = overlap.by_passage
    least = by_passage[alike] - 1e-9
    as_much = [at for at, share in by_passage.items() if share >= least]
    is_negated = key in here.negated
    return any(
        key in (there.negated if is_negated else there.stated)
        for there in (index.polarity[at] for at in as_much[:MAX_COMPARED])
    )


def _most_alike(own: set[str], overlap: Overlap, index: PassageIndex) -> int | None:
    """Return the passage that holds most of the sentence by itself, if it is enough."""
    least = ALIKE * overlap.weight
    candidates = [at for at in overlap.window if overlap.by_passage.get(at, 0.0) >= least]
    if not candidates:
        return None
    best = max(candidates, key=lambda at: (overlap.by_passage[at], index.texts[at]))
    return best if _shares_enough(own, best, index) else None


def _shares_enough(own: set[str], passage: int, index: PassageIndex) -> bool:
    """Return whether the two have `MIN_SHARED` terms in common, or most of a short one's."""
    if (
        _is_short_and_same(own, passage, index)
        or len(own & index.keys[passage].exact) >= MIN_SHARED
    ):
        return True
    if own.isdisjoint(SIGNS):
        return False
    there = index.polarity[passage]
    return len(own & there.first.keys()) + len(own & there.signs) >= MIN_SHARED


def _is_short_and_same(own: set[str], passage: int, index: PassageIndex) -> bool:
    """Return whether one of the two is short and says little more than the other.

    `No pets` and `Pets are allowed`: all that the passage says stands in the sentence, or all that
    the sentence says in a passage that has no more than `MIN_SHARED` terms.
    """
    there = index.keys[passage].exact
    shared = len(own & there)
    if not shared or len(there) > MIN_SHARED:
        return False
    return shared == len(there) or (shared > 1 and shared == len(own - SIGNS))
