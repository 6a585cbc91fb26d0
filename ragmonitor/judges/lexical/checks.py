"""Small things that change everything: numbers, units, dates, negations and names.

A sentence may consist of the chunks' own words and still say something else. Each check
compares it with the passages that come closest to it, and says whether the sentence *lacks*
support there or *conflicts* with them. A conflict needs a rival: another number in the same
unit, another month, another name in its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ragmonitor.judges.lexical.evidence import Evidence
from ragmonitor.judges.lexical.passages import OF_NOTE, Index
from ragmonitor.judges.lexical.quantities import is_year
from ragmonitor.judges.lexical.stems import stem
from ragmonitor.judges.lexical.vocabulary import CHINESE_OPPOSITES, OPPOSITES
from ragmonitor.judges.lexical.words import NEGATION, SIGNS, Term

Reason = Literal["content", "number", "unit", "date", "negation", "name"]


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
        found += _negations(content, said, alike, index)
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
    rivals = [term for at in evidence.window for term in index.of_note(at) if term.key not in said]
    return [_finding(term, rivals) for term in missing]


def _finding(term: Term, rivals: Sequence[Term]) -> Finding:
    """Return what it means that a term is missing where others stand in its place."""
    if term.kind == "name":
        return Finding("name", term, any(rival.kind == "name" for rival in rivals))
    if term.kind == "date":
        family = term.key.partition("#")[0]
        return Finding("date", term, any(rival.key.startswith(family) for rival in rivals))
    conflicts = any(rival.kind == "number" and _same_sort(term, rival) for rival in rivals)
    return Finding("date" if _is_year(term) else "number", term, conflicts)


_BEGINS_CLAUSE = frozenset(':.!?"“‘*#>-–—•：。！？|')


def _is_name(text: str, term: Term) -> bool:
    """Return whether a capital is a name's, and not that of a sentence's first word.

    A first word is taken for a name only if another capital follows it: `Randal Kleiser is`.
    An acronym in brackets abbreviates the words before it, which are checked themselves.
    """
    surface = text[term.start : term.end]
    before = text[: term.start].rstrip()[-1:]
    if before in {"(", "（"} and surface.isupper():
        return False
    if before and before not in _BEGINS_CLAUSE:
        return True
    following = text[term.end : term.end + 2]
    return following[:1] == " " and following[1:].isupper() and term.weight == RARE


def _is_spelled_out(text: str, term: Term, index: Index) -> bool:
    """Return whether the chunks hold words with an acronym's letters in order: `UK`."""
    surface = text[term.start : term.end].replace(".", "")
    if not (surface.isupper() and surface.isalpha() and 2 <= len(surface) <= _LONGEST_ACRONYM):
        return False
    words = r"[ -](?:of |the |and |for )?".join(
        rf"{re.escape(c)}\w{{1,24}}" for c in surface.lower()
    )
    spelled = re.compile(rf"\b{words}")
    return any(spelled.search(chunk) for chunk in index.plain)


_LONGEST_ACRONYM = 6

RARE: Final = 1.0
"""Weight of words that are not among the common ones."""


def _is_year(term: Term) -> bool:
    return (term.unit == "year" and is_year(term.key[1:])) or (
        not term.unit and is_year(term.key[1:])
    )


def _same_sort(term: Term, rival: Term) -> bool:
    if _is_year(term) or _is_year(rival):
        return _is_year(term) and _is_year(rival)
    return term.unit == rival.unit


def _units(content: Sequence[Term], evidence: Evidence, index: Index) -> list[Finding]:
    """Find numbers that stand near only with other units."""
    measured = [term for term in content if term.unit and term.kind == "number"]
    if not measured:
        return []
    near = [term for at in evidence.window for term in index.of_note(at) if term.kind == "number"]
    found = []
    for term in measured:
        units = {other.unit for other in near if other.key == term.key}
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


REACH: Final = 24
"""Characters behind a sign of negation within which the next content word is what it turns."""
ALIKE: Final = 0.6
"""Share of a sentence that one passage must hold for their negations to be compared."""
LEAST_SHARED: Final = 3
"""Terms that the two must have in common besides."""


def _negations(content: Sequence[Term], said: set[str], alike: int, index: Index) -> list[Finding]:
    """Find the first word that is negated here and stated in the passage, or the reverse.

    Only where one of the two negates nothing at all: two negations may be turned differently
    and say the same.
    """
    if NEGATION not in said and not index.held(alike).may_negate:
        return []
    here, here_negated = _polarity(content)
    there, there_negated = _polarity(index.terms(alike))
    if bool(here_negated) == bool(there_negated):
        return []
    turned = (here_negated or there_negated) & here.keys() & there.keys()
    first = min((here[key] for key in turned), default=None)
    return [] if first is None else [Finding("negation", first, conflicts=True)]


def _most_alike(said: set[str], evidence: Evidence, index: Index) -> int | None:
    """Return the passage that holds most of the sentence by itself, if it is enough."""
    least = ALIKE * evidence.weight
    candidates = [at for at in evidence.window if evidence.by_passage.get(at, 0.0) >= least]
    if not candidates:
        return None
    best = max(candidates, key=lambda at: (evidence.by_passage[at], index.texts[at]))
    return best if _shares_enough(said, best, index) else None


def _shares_enough(said: set[str], passage: int, index: Index) -> bool:
    """Return whether a sentence and a passage have `LEAST_SHARED` terms in common."""
    if len(said & index.held(passage).exact) >= LEAST_SHARED:
        return True
    if said.isdisjoint(SIGNS):
        return False
    return len(said & {term.key for term in index.terms(passage)}) >= LEAST_SHARED


def _polarity(content: Sequence[Term]) -> tuple[dict[str, Term], set[str]]:
    """Return the content by key, and the keys that a negation turns."""
    by_key: dict[str, Term] = {}
    negated: set[str] = set()
    open_until = -1
    for term in content:
        if term.kind == "negation":
            open_until = term.end + REACH if term.key == NEGATION else -1
            continue
        by_key.setdefault(term.key, term)
        if term.start <= open_until:
            negated.add(term.key)
        open_until = -1
    return by_key, negated
