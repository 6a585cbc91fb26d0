"""Checks of the details of a sentence: numbers, units, dates, names, negations and roles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import fsum
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.evidence import Chunk, Evidence, Passage
from ragmonitor.judges.builtin.names import (
    ACTS,
    chinese_names,
    exchanged,
    exchanged_in_chinese,
    is_off_by_one,
    may_be_persons,
)
from ragmonitor.judges.builtin.parsed_sentences import ParsedSentence
from ragmonitor.judges.builtin.polarity import (
    HAS_OPPOSITE,
    NEGATIVE,
    OPPOSITE,
    Polarity,
    chinese_polarity,
    conflict,
    english_polarity,
)
from ragmonitor.judges.builtin.quantities import alternatives, is_year, number_of
from ragmonitor.judges.builtin.terms import UNITS, Key, Term
from ragmonitor.records import Reason

CONTRADICTED_FROM: Final = 0.6
"""Support of all but the conflicting words from which a conflict counts as a contradiction."""
_MAX_CLOSE: Final = 2
"""Chunks that a sentence is compared with closely: those that hold most of it."""
_MAX_LOOKED: Final = 2_000
_MAX_ACRONYMS: Final = 8
_DETAILS: Final = frozenset({"number", "date", "time", "name"})


class FailedCheck(NamedTuple):
    """A detail of a sentence that the chunks do not bear out."""

    reason: Reason
    surface: str
    conflicts: bool
    """Whether the chunks say something else in its place."""
    keys: frozenset[Key] = frozenset()
    """The keys of the terms that it is about."""
    evidence: str = ""
    """The field that says otherwise, as `price: $449`."""


def surface_of(term: Term) -> str:
    """Return a term as it stands in the text, without the signs around it."""
    return term.surface if term.kind == "pair" else term.surface.strip(".,:;!?'$")


def failed_checks(
    sentence: ParsedSentence,
    missing: Sequence[Term],
    support: float,
    held: Mapping[int, float],
    evidence: Evidence,
) -> list[FailedCheck]:
    """Return the checks that a sentence fails.

    Args:
        sentence: The sentence.
        missing: Its terms that no chunk holds.
        support: The share of its content that stands in the chunks.
        held: What each chunk holds of it.
        evidence: The chunks.
    """
    best = evidence.closest(held, _MAX_CLOSE)
    failed = _missing_details(sentence, missing, support, best, evidence)
    failed += _wrong_units(sentence.terms, best, evidence)
    if sentence.is_chinese and missing:
        failed += _chinese_names(sentence, missing, best)
    if best:
        failed += _opposed(sentence, best)
        failed += _exchanged(sentence, best)
    return failed


def _missing_details(
    sentence: ParsedSentence,
    missing: Sequence[Term],
    support: float,
    best: Sequence[Chunk],
    evidence: Evidence,
) -> list[FailedCheck]:
    """Find numbers, dates and names that the chunks lack.

    They conflict if the chunks have another in their place.
    """
    details = [t for t in missing if t.kind in _DETAILS and _is_detail(t, sentence.bare)]
    if not details:
        return []
    rest = sentence.weight - sum(term.weight for term in details)
    is_borne = support * sentence.weight >= CONTRADICTED_FROM * rest > 0
    units = {n.key: str(unit.key) for n, unit in pairwise(sentence.terms) if unit.kind == "unit"}
    failed: list[FailedCheck] = []
    acronyms = 0
    for term in details:
        key = str(term.key)
        if term.kind == "name":
            acronyms += term.surface.isupper()
            if acronyms <= _MAX_ACRONYMS and _is_spelled_out(term, evidence.chunks):
                continue
        is_date = term.kind == "date" or is_year(key, units.get(key, ""))
        reason: Reason = "name" if term.kind == "name" else "date" if is_date else "number"
        conflicts = is_borne and any(
            chunk.has_name if term.kind == "name" else chunk.has_kind(key[0]) for chunk in best
        )
        failed.append(FailedCheck(reason, surface_of(term), conflicts, frozenset({key})))
    return failed


def _is_detail(term: Term, said: str) -> bool:
    """Return whether a missing capital is a name's, and not a sentence's first word.

    A first word is taken for a name only if another capital follows it: `Randal Kleiser is`. An
    acronym in brackets abbreviates the words before it, which are checked themselves. A unit is
    no name.
    """
    if not term.weight or term.surface.lower() in UNITS:
        return False
    at = said.find(term.surface, 0, _MAX_LOOKED) if term.kind == "name" else -1
    if at < 0:
        return True
    end = at + len(term.surface)
    before, behind = said[max(0, at - 8) : at].rstrip()[-1:], said[end : end + 2]
    if before in {"(", "（"} and term.surface.strip("().").isupper():
        return False
    if before and before not in ':.!?"“‘*#>-–—•：。！？|':
        return True
    is_followed = behind[:1] == " " and behind[1:].isupper() and term.surface[-1].isalnum()
    return is_followed and term.weight == 1.0


def _is_spelled_out(term: Term, chunks: Sequence[Chunk]) -> bool:
    """Return whether the chunks hold words with an acronym's letters, in order: `UK`."""
    letters = term.surface.strip(".,:'()").replace(".", "")
    if not (letters.isupper() and letters.isalpha() and 2 <= len(letters) <= 6):
        return False
    pattern = r"\b" + r"\w{1,24}[ -](?:(?:of|the|and|for) )?".join(letters) + r"\w{1,24}"
    return any(re.search(pattern, chunk.text, re.IGNORECASE) for chunk in chunks)


def _wrong_units(
    content: Sequence[Term], best: Sequence[Chunk], evidence: Evidence
) -> Iterator[FailedCheck]:
    """Find numbers that stand only with other units."""
    for number, unit in pairwise(content):
        if unit.kind != "unit" or number.kind != "number" or number.key not in evidence.where:
            continue
        names = alternatives(str(unit.key))
        if any((number.key, name) in evidence.beside for name in names):
            continue
        behind = [
            str(chunk.order[at + 1]) if at + 1 < len(chunk.order) else "."
            for chunk in best
            for at in chunk.places_of(number.key)
        ]
        if behind and all(key[0] == "°" and key not in names for key in behind):
            surface = f"{surface_of(number)} {surface_of(unit)}"
            yield FailedCheck("unit", surface, True, frozenset({unit.key}))


_MAX_OPERANDS: Final = 12
"""Numbers of the chunks of which sums and products are looked at; of more, any would be found."""


def follows(term: Term, unit: Key, evidence: Evidence) -> bool:
    """Return whether a missing number follows from those of the chunks.

    It is one of them, rounded to two digits or more; a product (two months of 3,000 are 6,000);
    a sum of two in the same unit; or the hours between two times of day.
    """
    value = number_of(str(term.key))
    if value is None or value <= 0:
        return False
    digits = str(term.key)[1:].replace(".", "").strip("0")
    if 2 <= len(digits) <= 12 and digits.isdecimal() and value in evidence.rounded(len(digits)):
        return True
    operands = list(evidence.numbers)
    if len(operands) > _MAX_OPERANDS:
        return False
    for at, (left, own) in enumerate(operands):
        for right, other in operands[at + 1 :]:
            few, many = sorted((left, right))
            if few.is_integer() and 2 <= few <= 31 and many >= 20 and few * many == value:
                return True
            if own == other == unit and left + right == value:
                return True
    if unit != "°hour":
        return False
    times = [time for chunk in evidence.chunks for time in chunk.times]
    return any(last - first == 60 * value for first, last in pairwise(times))


def _chinese_names(
    sentence: ParsedSentence, missing: Sequence[Term], best: Sequence[Chunk]
) -> Iterator[FailedCheck]:
    """Find Chinese names that the chunks lack, whole."""
    said = sentence.bare
    pairs = [term for term in missing if term.kind == "pair"]

    missing_at = {term.at: term.key for term in pairs}

    def is_missing(start: int, end: int) -> bool:
        return any(at in missing_at for at in range(start, end - 1))

    found = [name for name in chinese_names(said) if is_missing(name.start, name.end)]
    persons = [place for place in may_be_persons(said) if is_missing(*place)]
    if not found and not persons:
        return
    rivals = {kind for chunk in best for kind, name in chunk.names if name not in said}
    places = [
        (name.start, name.end, name.kind in rivals)
        for name in found
        if name.kind in rivals or not name.needs_rival
    ]
    for start, end in persons:
        if any(is_off_by_one(said, start, chunk.text) for chunk in best):
            places.append((start, end, True))
    for start, end, has_rival in places:
        around = [missing_at[at] for at in range(start - 1, end) if at in missing_at]
        if around:
            yield FailedCheck("name", said[start:end], has_rival, frozenset(around))


def _exchanged(sentence: ParsedSentence, best: Sequence[Chunk]) -> list[FailedCheck]:
    """Find a verb whose doer and other the chunks exchange."""
    verb = ""
    if sentence.is_chinese:
        if any(term.key in ACTS for term in sentence.terms):
            verb = exchanged_in_chinese(sentence.bare, [chunk.acts for chunk in best]) or ""
    elif [term.kind for term in sentence.terms].count("name") > 1:
        term = exchanged(sentence.terms, best)
        verb = surface_of(term) if term else ""
    return [FailedCheck("role", verb, True)] if verb else []


# --- negations ----------------------------------------------------------------------------------

_ALIKE: Final = 0.6
"""Share of a sentence that one passage must hold for their negations to be compared."""
_MAX_SHORT: Final = 4.0
"""Terms of a text that is short: it may say the same of the same in one word less."""


def _opposed(sentence: ParsedSentence, best: Sequence[Chunk]) -> list[FailedCheck]:
    """Find what a sentence states and the passage that is most like it negates, or the reverse.

    A passage that is as much alike and agrees outweighs it.
    """
    own = {term.key for term in sentence.terms}
    negates = not NEGATIVE.isdisjoint(own)
    if not negates and not _is_denied(own, best):
        return []
    likeness = _Likeness(sentence)
    if negates:
        found = likeness.to([p for chunk in best for p in chunk.similar(likeness.weights)])
    else:
        wanted = likeness.wanted.keys()
        denying = [p for c in best for p in c.negating if not wanted.isdisjoint(p.denied)]
        found = likeness.to(denying)
    most = max([share for share, _ in found], default=0.0) - 1e-9
    opposed = [conflict(likeness.here, there) for share, there in found if share >= most]
    if not opposed or not all(opposed):
        return []
    if not negates:
        others = likeness.to([p for chunk in best for p in chunk.similar(likeness.weights)])
        if any(share >= most and not conflict(likeness.here, there) for share, there in others):
            return []
    lost = [t for t in sentence.terms if OPPOSITE.get(t.key, (t.key, 1))[0] in opposed[0]]
    surface = surface_of(lost[0]) if lost else ""
    keys = frozenset(term.key for term in lost)
    return [FailedCheck("negation", surface, True, keys)]


def may_be_denied(sentence: ParsedSentence, held: Mapping[int, float], evidence: Evidence) -> bool:
    """Return whether the chunks that hold most of a sentence may negate something of it."""
    return _is_denied({term.key for term in sentence.terms}, evidence.closest(held, _MAX_CLOSE))


def _is_denied(own: set[Key], best: Sequence[Chunk]) -> bool:
    """Return whether a chunk negates a key of a sentence, or has the negative of its opposites."""
    if any(not chunk.negated.isdisjoint(own) for chunk in best):
        return True
    bases = {OPPOSITE[key][0] for key in own & HAS_OPPOSITE}
    return bool(bases) and any(
        OPPOSITE[key][0] in bases and OPPOSITE[key][1] < 0
        for chunk in best
        for key in chunk.keys & HAS_OPPOSITE
    )


class _Likeness:
    """How much passages are like a sentence, opposites taken for the same."""

    def __init__(self, sentence: ParsedSentence) -> None:
        self._sentence = sentence
        turned = {term.key for term in sentence.terms} & HAS_OPPOSITE
        self.weights = {term.key: term.weight for term in sentence.terms if term.weight}
        self.wanted = {
            OPPOSITE[key][0] if key in turned else key: weight
            for key, weight in self.weights.items()
        }
        self._total = sum(self.wanted.values())
        self._least = 0.0
        """Weight of words that a passage must hold as they are, but for those with opposites."""
        if len(self.weights) > _MAX_SHORT:
            rest = self._total - fsum(self.weights.get(key, 0.0) for key in turned)
            self._least = rest * (_ALIKE / 2 if sentence.is_chinese else _ALIKE)

    @cached_property
    def here(self) -> Polarity:
        """What the sentence states and what it negates."""
        sentence = self._sentence
        if sentence.is_chinese:
            return chinese_polarity(sentence.bare, sentence.terms)
        return english_polarity([term.key for term in sentence.terms])

    def to(self, passages: Sequence[Passage]) -> list[tuple[float, Polarity]]:
        """Return how much of the sentence the passages that are alike hold, and their polarity."""
        found: list[tuple[float, Polarity]] = []
        for passage in passages:
            held = fsum(self.weights[key] for key in self.weights.keys() & passage.keys)
            if held < self._least:
                continue
            shared = self.wanted.keys() & passage.polarity.signs.keys()
            share = fsum(self.wanted[key] for key in shared)
            if shared and self._is_alike(passage.polarity, shared, share):
                found.append((share, passage.polarity))
        return found

    def _is_alike(self, there: Polarity, shared: set[Key], share: float) -> bool:
        size, own, other = _size(shared), _size(self.here.signs), _size(there.signs)
        is_most = share >= _ALIKE * self._total
        if is_most and len(shared) >= 3:
            return True
        is_whole = (own - size <= 0.5 and own >= 1) or (other <= 3 and size >= other - 0.5)
        if is_whole and (is_most or len(there.signs) == len(shared)):
            return True
        is_short = own <= _MAX_SHORT and other <= _MAX_SHORT and own - size <= 1.5
        return is_short and (bool(there.through) or size < len(shared))


def _size(keys: Iterable[Key]) -> float:
    """Return how many terms there are; pairs of Chinese characters count half."""
    return sum([0.5 if isinstance(key, int) else 1.0 for key in keys])
