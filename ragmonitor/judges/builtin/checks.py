"""Checks of the details of a sentence: numbers, units, dates, names, negations and roles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    conflict,
)
from ragmonitor.judges.builtin.quantities import alternatives, is_year, number_of
from ragmonitor.judges.builtin.terms import UNITS, Key, Term
from ragmonitor.records import Reason

CONTRADICTED_FROM: Final = 0.6
"""Support of all but the conflicting words from which a conflict counts as a contradiction."""
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
    best: Sequence[Chunk],
    evidence: Evidence,
) -> list[FailedCheck]:
    """Return the checks that a sentence fails.

    Args:
        sentence: The sentence.
        missing: Its terms that no chunk holds.
        support: The share of its content that stands in the chunks.
        best: The chunks that hold most of it.
        evidence: All chunks.
    """
    failed = _missing_details(sentence, missing, support, best, evidence) if missing else []
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
        kind = "name" if term.kind == "name" else key[0]
        conflicts = is_borne and any(kind in chunk.kinds for chunk in best)
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
    is_acronym = letters.isupper() and letters.isalpha() and 2 <= len(letters) <= 6
    return is_acronym and any(
        letters.lower() in initials for chunk in chunks for initials in chunk.initials
    )


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
        behind = {other for chunk in best for other in chunk.units.get(str(number.key), ())}
        if behind and "" not in behind and behind.isdisjoint(names):
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
    rivals = set[str]()
    if found:
        rivals = {kind for chunk in best for kind, name in chunk.names if name not in said}
    places = [
        (name.start, name.end, name.kind in rivals)
        for name in found
        if name.kind in rivals or not name.needs_rival
    ]
    for start, end in may_be_persons(said):
        if is_missing(start, end) and any(is_off_by_one(said, start, c.text) for c in best):
            places.append((start, end, True))
    for start, end, has_rival in places:
        around = [missing_at[at] for at in range(start - 1, end) if at in missing_at]
        if around:
            yield FailedCheck("name", said[start:end], has_rival, frozenset(around))


def _exchanged(sentence: ParsedSentence, best: Sequence[Chunk]) -> list[FailedCheck]:
    """Find a verb whose doer and other the chunks exchange."""
    verb = ""
    if sentence.is_chinese:
        if not ACTS.isdisjoint(sentence.weights):
            texts = [passage.text for chunk in best for passage in chunk.passages]
            verb = exchanged_in_chinese(sentence.bare, texts)
    elif [term.kind for term in sentence.terms].count("name") > 1:
        verb = exchanged(sentence.terms, [chunk.order for chunk in best])
    return [FailedCheck("role", verb.strip(".,:;!?'$"), True)] if verb else []


# --- negations ----------------------------------------------------------------------------------

_ALIKE: Final = 0.6
"""Share of a sentence that one passage must hold for their negations to be compared."""
_MAX_SHORT: Final = 4.0
"""Terms of a text that is short: it may say the same of the same in one word less."""


def is_denied(sentence: ParsedSentence, best: Sequence[Chunk]) -> bool:
    """Return whether a chunk may negate something that a sentence says."""
    return any(not chunk.denied.isdisjoint(sentence.wanted) for chunk in best)


def _opposed(sentence: ParsedSentence, best: Sequence[Chunk]) -> list[FailedCheck]:
    """Find what a sentence states and the passage that is most like it negates, or the reverse.

    A passage that is as much alike and agrees outweighs it.
    """
    negates = any(term.key in NEGATIVE for term in sentence.terms)
    if not negates and not is_denied(sentence, best):
        return []
    if negates:
        found = _most_alike(sentence, best)
    else:
        wanted = sentence.wanted.keys()
        found = _alike(sentence, [p for c in best for p in c.negating if wanted & p.denied])
    most = max([share for share, _ in found], default=0.0) - 1e-9
    opposed = [lost for share, lost in found if share >= most]
    if not opposed or not all(opposed):
        return []
    if not negates and any(s >= most and not lost for s, lost in _most_alike(sentence, best)):
        return []
    lost = [t for t in sentence.terms if OPPOSITE.get(t.key, (t.key, 1))[0] in opposed[0]]
    surface = surface_of(lost[0]) if lost else ""
    return [FailedCheck("negation", surface, True, frozenset(term.key for term in lost))]


def _most_alike(sentence: ParsedSentence, best: Sequence[Chunk]) -> list[tuple[float, set[Key]]]:
    return _alike(sentence, [p for chunk in best for p in chunk.similar(sentence.weights)])


def _alike(sentence: ParsedSentence, passages: Sequence[Passage]) -> list[tuple[float, set[Key]]]:
    """Return how much of a sentence the passages that are alike hold, and what they deny of it."""
    wanted, weights = sentence.wanted, sentence.weights
    total = fsum(wanted.values())
    least = 0.0
    """Weight of words that a passage must hold as they are, but for those with opposites."""
    if len(weights) > _MAX_SHORT:
        least = fsum(weight for key, weight in weights.items() if key not in HAS_OPPOSITE)
        least *= _ALIKE / 2 if sentence.is_chinese else _ALIKE
    found: list[tuple[float, set[Key]]] = []
    for passage in passages:
        if fsum(map(weights.__getitem__, weights.keys() & passage.keys)) < least:
            continue
        here, there = sentence.polarity, passage.polarity
        shared = wanted.keys() & there.signs.keys()
        share = fsum(map(wanted.__getitem__, shared))
        if shared and _is_alike(here, there, shared, is_most=share >= _ALIKE * total):
            found.append((share, conflict(here, there)))
    return found


def _is_alike(here: Polarity, there: Polarity, shared: set[Key], *, is_most: bool) -> bool:
    size, own, other = _size(shared), _size(here.signs), _size(there.signs)
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
