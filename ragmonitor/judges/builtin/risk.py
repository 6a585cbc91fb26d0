"""The risk that something in an answer is hallucinated, 0 to 1, not calibrated."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ragmonitor.judges.builtin.overlap import Overlap
from ragmonitor.records import Reason

NOTHING_SAID: Final = 0.1
"""Risk of a sentence without content (`Yes.`): nothing to check, and not nothing said."""
QUESTION_SHARE: Final = 0.5
"""Share of a question back: it may presuppose what the chunks lack, and asserts less."""
REFUSAL: Final = 0.02
"""Risk of an answer that declines."""
DECAY: Final = 0.5
"""The weight of the next worst sentence, relative to the one before it."""
PENALTIES: Final[dict[Reason, float]] = {
    "content": 0.0,  # the support says it already
    "number": 0.5,
    "date": 0.5,
    "negation": 0.5,
    "role": 0.5,
    "unit": 0.3,
    "name": 0.3,
    "field": 0.8,
}
"""Share of the remaining trust in a sentence that a failed check takes away."""


def sentence_risk(overlap: Overlap, reasons: Collection[Reason]) -> float:
    """Return 1 - closeness-weighted support * product over failed checks (1 - penalty), 0 to 1.

    Half of the credit is for standing in the chunks at all, half for standing close together.
    """
    if not overlap.weight:
        return NOTHING_SAID
    trust = (overlap.support + overlap.closeness) / 2
    for reason in sorted(set(reasons)):
        trust *= 1.0 - PENALTIES[reason]
    return 1.0 - trust


def answer_risk(risks: Sequence[float]) -> float:
    """Return sum(r_i * 2**-i) / sum(2**-i) over the sentences' risks, worst first; 0 if none.

    The worst sentence weighs at least half, whatever the answer's length, and no sentence made
    worse ever lowers it.
    """
    ordered = sorted(risks, reverse=True)
    weights = [DECAY**rank for rank in range(min(len(ordered), _LAST_RANK))]
    if not weights:
        return 0.0
    return sum(r * w for r, w in zip(ordered, weights, strict=False)) / sum(weights)


_LAST_RANK = 50
"""Sentences further down weigh less than a float can tell."""
