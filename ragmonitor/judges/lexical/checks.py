"""Small things that change everything: numbers, units, dates, negations and names.

A sentence may consist of the chunks' own words and still say something else. Each check
compares it with the passages that come closest to it, and says whether the sentence *lacks*
support there or *conflicts* with them. A conflict needs a rival: another number in the same
unit, another month, another name in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ragmonitor.judges.lexical.evidence import Evidence
from ragmonitor.judges.lexical.passages import Index
from ragmonitor.judges.lexical.quantities import is_year
from ragmonitor.judges.lexical.stems import stem
from ragmonitor.judges.lexical.vocabulary import CHINESE_OPPOSITES, OPPOSITES
from ragmonitor.judges.lexical.words import NEGATION, Term

Reason = Literal["content", "number", "unit", "date", "negation", "name"]


@dataclass(frozen=True, slots=True)
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
    near = [term for at in evidence.window for term in index.passages[at].terms]
    said = {term.key for term in content}
    rivals = [term for term in near if term.key not in said]
    found = [
        finding
        for term in evidence.missing
        if term.kind != "name" or _is_name(text, content, term)
        if (finding := _missing(term, rivals)) is not None
    ]
    found += _units(content, near)
    alike = _most_alike(content, evidence, index)
    if alike is not None:
        found += _opposites(content, near, alike)
        found += _negations(content, alike)
    return sorted(found, key=lambda finding: finding.term.start)


def _missing(term: Term, rivals: Iterable[Term]) -> Finding | None:
    """Return the finding for a term that stands nowhere in the chunks, if it is one of note."""
    if term.kind == "name":
        return Finding("name", term, any(rival.kind == "name" for rival in rivals))
    if term.kind == "date":
        family = term.key.partition("#")[0]
        return Finding("date", term, any(rival.key.startswith(family) for rival in rivals))
    if term.kind == "number":
        conflicts = any(rival.kind == "number" and _same_sort(term, rival) for rival in rivals)
        return Finding("date" if _is_year(term) else "number", term, conflicts)
    return None


_BEGINS_CLAUSE = frozenset(":.!?\"“‘*#>-–—•：。！？|")


def _is_name(text: str, content: Sequence[Term], term: Term) -> bool:
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


RARE: Final = 1.0
"""Weight of words that are not among the common ones."""


def _is_year(term: Term) -> bool:
    return term.unit == "year" and is_year(term.key[1:]) or not term.unit and is_year(term.key[1:])


def _same_sort(term: Term, rival: Term) -> bool:
    if _is_year(term) or _is_year(rival):
        return _is_year(term) and _is_year(rival)
    return term.unit == rival.unit


def _units(content: Sequence[Term], near: Sequence[Term]) -> list[Finding]:
    """Find numbers that stand near only with other units."""
    found = []
    for term in content:
        if term.kind != "number" or not term.unit:
            continue
        units = {other.unit for other in near if other.key == term.key}
        if units and term.unit not in units and "" not in units:
            found.append(Finding("unit", term, conflicts=True))
    return found


_OPPOSITE: Final[dict[str, set[str]]] = {}
for _left, _right in (*((stem(a), stem(b)) for a, b in OPPOSITES), *CHINESE_OPPOSITES):
    _OPPOSITE.setdefault(_left, set()).add(_right)
    _OPPOSITE.setdefault(_right, set()).add(_left)


def _opposites(
    content: Sequence[Term], near: Sequence[Term], alike: Sequence[Term]
) -> list[Finding]:
    """Find words that the closest passages lack and whose opposite the most alike one has."""
    said = {term.key for term in content}
    close = {term.key for term in near}
    there = {term.key for term in alike}
    return [
        Finding("negation", term, conflicts=True)
        for term in content
        if (against := _OPPOSITE.get(term.key))
        and term.key not in close
        and not against.isdisjoint(there)
        and against.isdisjoint(said)
    ]


REACH: Final = 24
"""Characters behind a sign of negation within which the next content word is what it turns."""
ALIKE: Final = 0.6
"""Share of a sentence that one passage must hold for their negations to be compared."""
LEAST_SHARED: Final = 3
"""Terms that the two must have in common besides."""


def _negations(content: Sequence[Term], alike: Sequence[Term]) -> list[Finding]:
    """Find the first word that is negated here and stated in the passage, or the reverse.

    Only where one of the two negates nothing at all: two negations may be turned differently
    and say the same.
    """
    here, here_negated = _polarity(content)
    there, there_negated = _polarity(alike)
    if bool(here_negated) == bool(there_negated):
        return []
    turned = (here_negated or there_negated) & here.keys() & there.keys()
    first = min((here[key] for key in turned), default=None)
    return [] if first is None else [Finding("negation", first, conflicts=True)]


def _most_alike(content: Sequence[Term], evidence: Evidence, index: Index) -> Sequence[Term] | None:
    """Return the terms of the single passage that holds most of the sentence, if it is enough."""
    weights = {term.key: term.weight for term in content if term.weight}
    best: tuple[float, str, Sequence[Term]] | None = None
    for at in evidence.window:
        passage = index.passages[at]
        shared = weights.keys() & {term.key for term in passage.terms}
        share = sum(sorted(weights[key] for key in shared))
        if share < ALIKE * evidence.weight or len(shared) < LEAST_SHARED:
            continue
        if best is None or (share, passage.text) > best[:2]:
            best = share, passage.text, passage.terms
    return best[2] if best else None


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
