"""Checks of the details that change a meaning: numbers, units, dates, negations, names, roles.

A sentence may consist of the chunks' own words and still say something else. Each check
compares it with the passages that come closest to it, and says whether the sentence *lacks*
support there or *conflicts* with them. A conflict needs a rival: another number in the same
unit, another month, another name in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ragmonitor.judges.builtin.chinese_names import missing_names
from ragmonitor.judges.builtin.overlap import Overlap
from ragmonitor.judges.builtin.passage_index import DETAIL_KINDS, PassageIndex, detail_class
from ragmonitor.judges.builtin.polarity import Polarity, polarity, scopes_of
from ragmonitor.judges.builtin.roles import acts_of, is_reversed
from ragmonitor.judges.builtin.stems import stem
from ragmonitor.judges.builtin.text_terms import DENYING, MAY_NEGATE, NEGATION, SIGNS, Term
from ragmonitor.judges.builtin.word_lists import (
    CHINESE_OPPOSITES,
    GRANTS,
    OPPOSITES,
    SAYS_NO_MORE,
    UNITS,
)
from ragmonitor.judges.sentences import HAN
from ragmonitor.patterns import lazy_pattern
from ragmonitor.records import Reason


@dataclass(slots=True)
class FailedCheck:
    """One failed check."""

    reason: Reason
    term: Term
    """The term of the sentence that failed."""
    conflicts: bool
    """Whether the chunks say something else in its place, rather than nothing."""
    evidence: str = ""
    """The field of a structured chunk that says so, and its value."""


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
    if any(term.kind == "pair" for term in overlap.missing):
        near = (index.names[at] for at in overlap.window)  # few sentences ask for them
        for term, has_rival in missing_names(text, overlap.missing, near):
            failed.append(FailedCheck("name", term, has_rival))
    alike = _most_alike(own, overlap, index)
    if alike is not None and alike not in index.rendered:
        may_negate = not own.isdisjoint(MAY_NEGATE) or index.keys[alike].may_negate
        here = polarity(text, content) if may_negate else None
        failed += _opposites(text, content, alike, index, here)
        if here is not None:
            failed += _negations(text, here, alike, overlap, index)
        failed += _roles(text, content, alike, overlap, index)
    if own.isdisjoint({NEGATION, *DENYING}) and not any(
        check.reason == "negation" for check in failed
    ):
        failed += _affirmed(text, content, own, overlap, index)
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
    classes = [detail_class(term) for term in missing]
    has_rival = {
        rivals: any(not of.get(rivals, set()) <= own for of in near) for rivals in set(classes)
    }
    return [
        FailedCheck(_reason(term, rivals), term, has_rival[rivals])
        for term, rivals in zip(missing, classes, strict=True)
    ]


def _reason(term: Term, rivals: str) -> Reason:
    """Return which check a missing number, date or name of a class fails."""
    if term.kind == "name":
        return "name"
    return "date" if term.kind == "date" or rivals == "a year" else "number"


_BEGINS_CLAUSE = frozenset(':.!?"“‘*#>-–—•：。！？|')


def _is_name(text: str, term: Term) -> bool:
    """Return whether a capital belongs to a name, and not to a sentence's first word.

    A first word is taken for a name only if another capital follows it: `Randal Kleiser is`.
    An acronym in brackets abbreviates the words before it, which are checked themselves. A unit
    behind a number is no name: `4.99 USD`.
    """
    surface = text[term.start : term.end]
    if surface.lower() in UNITS and _ENDS_IN_FIGURE.search(
        text, max(0, term.start - 2), term.start
    ):
        return False
    before = text[max(0, term.start - _MAX_BACK) : term.start].rstrip()[-1:]
    if before in {"(", "（"} and surface.isupper():
        return False
    if before and before not in _BEGINS_CLAUSE:
        return True
    following = text[term.end : term.end + 2]
    return following[:1] == " " and following[1:].isupper() and term.weight == RARE


_ENDS_IN_FIGURE: Final = lazy_pattern(r"\d\s?\Z")
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
    text: str, content: Sequence[Term], alike: int, index: PassageIndex, here: Polarity | None
) -> list[FailedCheck]:
    """Find words that the chunks lack near by and whose opposite the most alike passage has.

    Both must be negated or neither: `not open` says what `closed` says.
    """
    own = {term.key for term in content}
    if own.isdisjoint(_OPPOSITE):
        return []
    present = index.keys[alike].exact
    there = None if here is None else index.polarity[alike]
    failed = [
        FailedCheck("negation", term, conflicts=True)
        for term in content
        if term.key in _OPPOSITE
        and not any(term.key in index.keys[at].exact for at in index.windows[alike])
        and (opposite := _OPPOSITE[term.key] & present)
        and _OPPOSITE[term.key].isdisjoint(own)
        and (here is None or there is None or _is_opposed(term.key, opposite, here, there))
    ]
    if any(check.term.key not in _SIDES for check in failed) and _has_other_scope(
        text, alike, index
    ):
        return []
    return failed


_SIDES: Final = frozenset(map(stem, ["before", "after", "above", "below", "inside", "outside"]))


def _has_other_scope(text: str, passage: int, index: PassageIndex) -> bool:
    """Return whether a sentence speaks of another side of a limit: `after 3 pm`, not `before`."""
    return not scopes_of(text) <= index.polarity[passage].scopes


def _is_opposed(key: str, opposite: set[str], here: Polarity, there: Polarity) -> bool:
    """Return whether a word and its opposite are used alike, and nothing else is negated once."""
    if key in here.unsure or not opposite.isdisjoint(there.unsure):
        return False
    if (key in here.negated) != (not opposite.isdisjoint(there.negated)):
        return False
    rest = len(there.negated) - len(opposite & there.negated)
    return bool(here.negated - {key}) == bool(rest)


ALIKE: Final = 0.6
"""Share of a sentence that one passage must hold for their negations to be compared."""
MIN_SHARED: Final = 3
"""Terms that the two must have in common besides."""


def _negations(
    text: str, here: Polarity, alike: int, overlap: Overlap, index: PassageIndex
) -> list[FailedCheck]:
    """Find the first word that is negated here and stated in the passage, or the reverse.

    But for what both negate, one of the two must negate nothing at all: two negations may negate
    different words and say the same.
    """
    there = index.polarity[alike]
    agreed = here.negated & there.negated
    negates_more, denies_more = (len(each.negated) > len(agreed) for each in (here, there))
    if negates_more == denies_more or _has_opposite(here, there) or here.scopes - there.scopes:
        return []
    for key, term in here.first.items():  # in the sentence's order
        if key in here.unsure or key in there.unsure or key not in there.first:
            continue
        if agreed and term.kind == "pair":  # how far a negation reaches is not known exactly
            continue
        if (key in here.negated) != (key in there.negated):
            is_limited = (key in here.limited) != (key in there.limited)
            if is_limited and not _is_part(text, index.texts[alike]):
                continue
            if key in there.stated and key not in here.negated:
                # Of something else, which the words behind it name: `支持快充，不支持无线充电`.
                continue
            if _stands_elsewhere(key, here, overlap, alike, index):
                return []
            return [FailedCheck("negation", term, conflicts=True)]
    return []


def _has_opposite(here: Polarity, there: Polarity) -> bool:
    """Return whether one of the two says `closed` where the other says `open`."""
    return any(
        key not in there.first and any(each in there.first for each in _OPPOSITE[key])
        for key in here.first.keys() & _OPPOSITE.keys()
    )


_CHARACTERS: Final = lazy_pattern(rf"[{HAN}]|[^\W_{HAN}]+")


_MAX_TIMES: Final = 32
"""A passage may be so many times as long as a sentence, to say the same of the same."""


def _is_part(text: str, passage: str) -> bool:
    """Return whether a text has no word, however small, that a passage lacks."""
    if len(passage) > _MAX_TIMES * len(text):
        return False
    words = set(_CHARACTERS.findall(text.lower())) - SAYS_NO_MORE
    return words <= set(_CHARACTERS.findall(passage.lower()))


def _roles(
    text: str, content: Sequence[Term], alike: int, overlap: Overlap, index: PassageIndex
) -> list[FailedCheck]:
    """Find verbs whose doer and other the passages near by exchange, and none has as they are."""
    near = dict.fromkeys([*index.windows[alike], *islice(overlap.by_passage, MAX_COMPARED)])
    acts = acts_of(text, content)
    others = [other for at in near for other in index.acts[at]] if acts else []
    return [
        FailedCheck("role", act.term, conflicts=True) for act in acts if is_reversed(act, others)
    ]


_AFFIRMS: Final = lazy_pattern(
    r"\A\W{0,4}(?:yes|sure|certainly|of course|absolutely|是的|可以|能|有|对|当然|会|支持|提供)"
    r"|\b(?:can|may|could)\b|可以|能够|需要|必须|已|了",
    re.IGNORECASE,
)
"""The words by which an answer affirms, whatever its verb."""
_GRANTS: Final = frozenset(map(stem, GRANTS))
_MAX_SHORT: Final = 4.0
_MAX_OTHER: Final = 1.0
"""Terms of an answer that affirms, and of those that its passage lacks. A pair counts half."""
_MAX_KEYS: Final = 2 * _MAX_SHORT + len(SIGNS)
"""Keys of an answer that may be so short."""


def _affirmed(
    text: str, content: Sequence[Term], own: set[str], overlap: Overlap, index: PassageIndex
) -> list[FailedCheck]:
    """Find what a short sentence affirms, in other words, of what a short passage denies.

    `You can pay cash` against `We do not take cash`.
    """
    if not overlap.window or len(own) > _MAX_KEYS or _size(own) > _MAX_SHORT:
        return []
    if not _AFFIRMS.search(text, 0, _MAX_BACK):
        return []
    by_passage = overlap.by_passage
    at = max(overlap.window, key=lambda at: (by_passage.get(at, 0.0), index.texts[at]))
    keys, most = index.keys[at], by_passage.get(at, 0.0)
    if not keys.may_negate or not most or len(keys.exact) > 2 * _MAX_SHORT:
        return []
    if _size(keys.exact) > _MAX_SHORT:
        return []
    there = index.polarity[at]
    shared = own & there.first.keys()
    other = [term for term in content if term.key not in shared]
    denied = there.negated - there.stated
    is_denied = not shared.isdisjoint(denied) or not _GRANTS.isdisjoint(denied)
    if not shared or not is_denied or not there.unsure.isdisjoint(own):
        return []
    if _has_other_scope(text, at, index):
        return []
    if _size({term.key for term in other}) > _MAX_OTHER or any(
        term.kind in DETAIL_KINDS for term in other
    ):
        return []
    if any(
        share >= most - 1e-9 and not index.polarity[one].negated
        for one, share in islice(by_passage.items(), MAX_COMPARED)
    ):
        return []
    return [
        FailedCheck("negation", term, conflicts=True)
        for term in other or [term for term in content if term.key in denied]
    ]


def _size(keys: Iterable[str]) -> float:
    """Return how many terms there are; Chinese characters and pairs of them count half."""
    return sum([0.5 if key[0] > _HAN_FROM else 1.0 for key in keys if key not in SIGNS])


_HAN_FROM: Final = "\u3000"


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
    """Return the passage that holds most of the sentence by itself, if it is enough.

    Neither a word whose opposite may stand in its place counts, nor what a negation would swallow.
    """
    weight = overlap.weight - sum(
        [
            term.weight
            for term in overlap.missing
            if term.key in _OPPOSITE or (term.kind == "pair" and not _MODAL.isdisjoint(term.key))
        ]
    )
    candidates = [
        at for at in overlap.window if overlap.by_passage.get(at, 0.0) >= ALIKE * weight > 0
    ]
    if not candidates:
        return None
    best = max(candidates, key=lambda at: (overlap.by_passage[at], index.texts[at]))
    return best if _shares_enough(own, best, index) else None


_MODAL: Final = frozenset("有能会是曾可得需")


def _shares_enough(own: set[str], passage: int, index: PassageIndex) -> bool:
    """Return whether the two have `MIN_SHARED` terms in common, or most of a short one's."""
    there = index.keys[passage].exact
    shared = len(own & there)
    if shared and not own.isdisjoint(_OPPOSITE):
        shared += sum(not _OPPOSITE[key].isdisjoint(there) for key in own & _OPPOSITE.keys())
    if shared >= MIN_SHARED or _is_short_and_same(own, passage, index):
        return True
    if own.isdisjoint(SIGNS):
        return False
    polarities = index.polarity[passage]
    return len(own & polarities.first.keys()) + len(own & polarities.signs) >= MIN_SHARED


def _is_short_and_same(own: set[str], passage: int, index: PassageIndex) -> bool:
    """Return whether one of the two is short and says little more than the other.

    `No pets` and `Pets are allowed`: all that the passage says stands in the sentence, or all that
    the sentence says in the passage.
    """
    there = index.keys[passage].exact
    shared = len(own & there)
    if not shared:
        return False
    is_whole = len(there) <= MIN_SHARED and shared == len(there)
    missing = own - SIGNS - there
    if len(missing) == 1 and index.keys[passage].may_negate:
        # The pair of characters between which a sign of negation stands there.
        missing = {key for key in missing if key[0] <= _HAN_FROM}
    return is_whole or (shared > 1 and not missing)
