"""Adds what the fields of structured chunks say to a sentence's support and failed checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ragmonitor.judges.builtin.checks import FailedCheck
from ragmonitor.judges.builtin.overlap import Overlap
from ragmonitor.judges.builtin.passage_index import PassageIndex
from ragmonitor.judges.builtin.structured import Spans
from ragmonitor.judges.builtin.text_terms import Term

SAID_FROM: Final = 0.8
"""Share of a sentence's content in one sentence of prose from which that is what it repeats."""
PLAIN_CREDIT: Final = 0.5
"""Credit for a missing plain word beside what a field bears out: fields have few verbs."""
_PLAIN: Final = frozenset({"word", "pair"})


def with_fields(
    text: str,
    content: Sequence[Term],
    overlap: Overlap,
    failed: Sequence[FailedCheck],
    index: PassageIndex,
) -> tuple[Overlap, Sequence[FailedCheck]]:
    """Return a sentence's overlap and failed checks, with what fields say of it.

    What a field bears out is supported, whatever words it is in. Of what fields speak of, no other
    check is made. They object to nothing that a sentence of prose says.

    Args:
        text: The sentence.
        content: Its terms, one at least.
        overlap: What the chunks hold of them.
        failed: The checks of their words that fail.
        index: The chunks.
    """
    if not failed and _is_said(overlap, index):
        return overlap, failed
    reading = index.fields.read(text, content)
    if reading is None or not (reading.supported or reading.findings):
        return overlap, failed
    supported = Spans(reading.supported)
    covered = [term for term in content if supported.hold(term)]
    read_spans = Spans([*reading.supported, *(each[:2] for each in reading.findings)])
    kept = [check for check in failed if not read_spans.hold(check.term)]
    kept += [
        FailedCheck("field", _term_at(content, each.start), each.conflicts, each.label)
        for each in sorted(reading.findings)
    ]
    return _supported(overlap, covered), sorted(kept, key=lambda check: check.term.start)


def _is_said(overlap: Overlap, index: PassageIndex) -> bool:
    """Return whether a passage that is no row of structured data holds most of the sentence."""
    held = [weight for at, weight in overlap.by_passage.items() if at not in index.rendered]
    return max(held, default=0.0) >= SAID_FROM * overlap.weight > 0


def _term_at(content: Sequence[Term], start: int) -> Term:
    """Return the first term that ends behind an offset."""
    return next((term for term in content if term.end > start), content[-1])


def _supported(overlap: Overlap, covered: Sequence[Term]) -> Overlap:
    """Return an overlap in which the covered terms, given in order, stand close together."""
    if not overlap.weight:
        return overlap
    gained = 0.0
    supported = set(covered)
    for term in overlap.missing:
        if term in supported:
            gained += term.weight / overlap.weight
        elif covered and term.kind in _PLAIN:
            gained += PLAIN_CREDIT * term.weight / overlap.weight
    close = sum(term.weight for term in covered) / overlap.weight
    return replace(
        overlap,
        support=min(1.0, overlap.support + gained),
        closeness=min(1.0, max(overlap.closeness + gained, close)),
        missing=[term for term in overlap.missing if term not in supported],
    )
