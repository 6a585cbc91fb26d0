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
    OPPOSITE,
    OTHERS,
    SIGNS,
    Polarity,
    conflict,
)
from ragmonitor.judges.builtin.quantities import alternatives, is_year, number_of
from ragmonitor.judges.builtin.terms import UNITS, Key, Term
from ragmonitor.records import Reason

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
    best: Sequence[Chunk],
    evidence: Evidence,
) -> list[FailedCheck]:
    """Return the checks that a sentence fails, all but that of negations.

    Args:
        sentence: The sentence.
        missing: Its terms that no chunk holds.
        best: The chunks that hold most of it.
        evidence: All chunks.
    """
    failed = _missing_details(sentence, missing, best, evidence) if missing else []
    if "unit" in sentence.kinds:
        failed += _wrong_units(sentence.terms, best, evidence)
    if sentence.is_chinese and missing:
        failed += _chinese_names(sentence, missing, best)
    return failed + _exchanged(sentence, best, evidence)


def _missing_details(
    sentence: ParsedSentence,
    missing: Sequence[Term],
    best: Sequence[Chunk],
    evidence: Evidence,
) -> list[FailedCheck]:
    """Find numbers, dates and names that the chunks lack.

    They conflict if the chunks have another in their place.
    """
    details = [t for t in missing if t.kind in _DETAILS and _is_detail(t, sentence.bare)]
    if not details:
        return []
    units = {n.key: str(unit.key) for n, unit in pairwise(sentence.terms) if unit.kind == "unit"}
    failed: list[FailedCheck] = []
    acronyms = 0
    for term in details:
        key = str(term.key)
        if term.kind == "name":
            acronyms += term.surface.isupper()
            if acronyms <= _MAX_ACRONYMS and _is_spelled_out(term, evidence):
                continue
        is_date = term.kind == "date" or is_year(key, units.get(key, ""))
        reason: Reason = "name" if term.kind == "name" else "date" if is_date else "number"
        kind = "name" if term.kind == "name" else key[0]
        conflicts = any(kind in chunk.kinds for chunk in best)
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


def _is_spelled_out(term: Term, evidence: Evidence) -> bool:
    """Return whether the chunks hold words with an acronym's letters, in order: `UK`."""
    letters = term.surface.strip(".,:'()").replace(".", "")
    is_acronym = letters.isupper() and letters.isalpha() and 2 <= len(letters) <= 6
    return is_acronym and letters.lower() in evidence.initials


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
    if 2 <= len(digits) <= 12 and digits.isdecimal() and evidence.has_rounded(value, len(digits)):
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


def _exchanged(
    sentence: ParsedSentence, best: Sequence[Chunk], evidence: Evidence
) -> list[FailedCheck]:
    """Find a verb whose doer and other the chunks exchange."""
    verb = ""
    if sentence.is_chinese:
        if any(key in evidence.where for key in ACTS.intersection(sentence.keys)):
            verb = exchanged_in_chinese(sentence.bare, [chunk.acts for chunk in best])
    elif sentence.kinds.count("name") > 1:
        verb = exchanged(sentence.terms, [chunk.order for chunk in best], evidence.where)
    return [FailedCheck("role", verb.strip(".,:;!?'$"), True)] if verb else []


# --- negations ----------------------------------------------------------------------------------

_ALIKE: Final = 0.6
"""Share of a sentence that one passage must hold for their negations to be compared."""
_MIN_SHARED: Final = 1.2
"""Weight that a passage must share with a sentence to deny a clause of it; in Chinese half."""
_MAX_SHORT: Final = 4.0
"""Terms of a text that is short: it may say the same of the same in one word less."""


def opposing(sentence: ParsedSentence, best: Sequence[Chunk]) -> list[Passage]:
    """Return the passages with a sign that may reach a word of a sentence, or an opposite of one.

    Only these may conflict with a sentence without a sign.
    """
    wanted = sentence.wanted
    found = [p for chunk in best for p in chunk.denying if not p.denied.isdisjoint(wanted)]
    others = set[Key]().union(*[OTHERS[key] for key in HAS_OPPOSITE.intersection(sentence.keys)])
    for chunk in best if others else ():
        if not others.isdisjoint(chunk.keys):
            found += [p for p in chunk.passages if not others.isdisjoint(p.keys)]
    return found


def is_denied(sentence: ParsedSentence, opposing: Sequence[Passage]) -> bool:
    """Return whether one of some passages shares enough with a sentence to deny a clause of it."""
    least = _MIN_SHARED / 2 if sentence.is_chinese else _MIN_SHARED
    return any(passage.share(sentence.weights) >= least for passage in opposing)


def opposed(
    sentence: ParsedSentence, best: Sequence[Chunk], opposing: Sequence[Passage]
) -> list[FailedCheck]:
    """Find what a sentence states and the passages that are most like it negate, or the reverse.

    Args:
        sentence: The sentence.
        best: The chunks that hold most of it.
        opposing: Their passages that may conflict with it if it has no sign.
    """
    if not opposing and SIGNS.isdisjoint(sentence.keys):
        return []
    weights, wanted = sentence.weights, sentence.wanted
    least = 0.0
    """Weight of words that a passage must hold as they are, but for those with opposites."""
    if len(weights) > _MAX_SHORT:
        least = fsum(weight for key, weight in weights.items() if key not in HAS_OPPOSITE)
        least *= _ALIKE / 2 if sentence.is_chinese else _ALIKE
    if SIGNS.isdisjoint(sentence.keys) and not any(p.share(weights) >= least for p in opposing):
        return []
    similar = [passage for chunk in best for passage in chunk.similar(weights, least)]
    enough = _ALIKE * fsum(wanted.values())
    here = sentence.polarity
    found: list[tuple[float, Polarity]] = []
    for passage in similar:
        there = passage.polarity
        shared = wanted.keys() & there.signs.keys()
        share = fsum(map(wanted.__getitem__, shared))
        if shared and _is_alike(here, there, shared, is_most=share >= enough):
            found.append((share, there))
    most = max([share for share, _ in found], default=0.0) - 1e-9
    denied = [conflict(here, there) for share, there in found if share >= most]
    if not denied or not all(denied):
        return []
    lost = [t for t in sentence.terms if OPPOSITE.get(t.key, (t.key, 1))[0] in denied[0]]
    surface = surface_of(lost[0]) if lost else ""
    return [FailedCheck("negation", surface, True, frozenset(term.key for term in lost))]


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
