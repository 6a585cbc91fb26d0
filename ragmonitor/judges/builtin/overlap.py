"""Measures how much of a sentence the chunks support, and where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.builtin.passage_index import (
    NOWHERE,
    PassageIndex,
    Passages,
    Places,
    number,
)
from ragmonitor.judges.builtin.quantities import kept_digits
from ragmonitor.judges.builtin.text_terms import Term

LOOSE_CREDIT: Final = 0.75
"""Credit for a word of which the chunks hold only the first letters: `organised` for
`organisation`."""
NEAR: Final = 0.8
"""Share of `Overlap.closeness` that three neighbouring sentences count for."""
EVERYWHERE: Final = (12, 300)
"""Fewest and most passages from which on a term tells no place: it is close to everything."""
MAX_STEPS: Final = 300_000
"""Passages that are looked at for all terms of one answer, some 0.1 s; see `everywhere_from`."""
ENOUGH: Final = 0.9
"""Share of a sentence's support that the named chunks explain before they are enough."""
MIN_GAIN: Final = 0.08
"""Share of a sentence's content that one more chunk must add to be named."""


@dataclass(slots=True)
class Overlap:
    """The overlap of one sentence with the chunks."""

    weight: float
    """Weight of all the sentence's content; 0: it has none."""
    support: float
    """Share of that content which stands in the chunks, anywhere. More chunks never lower it."""
    closeness: float
    """Share which stands close together, where that is largest: `NEAR` of it counts what three
    neighbouring sentences of one chunk hold, the rest what one of them holds. More chunks never
    lower it."""
    missing: Sequence[Term]
    """The terms that stand nowhere in the chunks."""
    gains: Sequence[float]
    """What each term counts for, in the sentence's order."""
    by_passage: Mapping[int, float]
    """For each passage, the weight that it holds."""
    by_window: Mapping[int, float]
    """For each passage, the weight that it and its neighbours hold."""
    by_chunk: Mapping[int, Sequence[int]]
    """For each chunk that holds anything, the positions of the terms that it holds, ascending."""
    window: Passages = ()
    """Positions of the passages that come closest to the sentence, see `closest`; only of what is
    checked against them."""


NO_OVERLAP: Final = Overlap(0.0, 0.0, 0.0, (), (), {}, {}, {})


def everywhere_from(terms: int) -> int:
    """Return from how many passages on a term stands everywhere, if so many terms are looked for.

    It is 300 as far as that makes no more than `MAX_STEPS`; the more terms, the fewer, so that the
    time is linear in their number.
    """
    fewest, most = EVERYWHERE
    return max(fewest, min(most, MAX_STEPS // max(1, terms)))


def overlap_of(
    content: Sequence[Term], index: PassageIndex, everywhere_at: int = EVERYWHERE[1]
) -> Overlap:
    """Return what the chunks hold of a sentence's terms, whatever the order of the chunks.

    Args:
        content: The sentence's terms.
        index: The chunks.
        everywhere_at: See `everywhere_from`.
    """
    gains = [term.weight for term in content]
    weight = sum(gains)
    if not weight:
        return NO_OVERLAP
    everywhere = 0.0  # weight of the terms that stand everywhere
    missing: list[Term] = []
    by_passage: defaultdict[int, float] = defaultdict(float)
    by_window: defaultdict[int, float] = defaultdict(float)
    by_chunk: defaultdict[int, list[int]] = defaultdict(list)
    for position, exact in enumerate(_places_of(content, index)):
        gain = gains[position]
        if not gain:
            continue
        places = exact or _loosely(content[position], index)
        if places is None:
            gains[position] = 0.0
            missing.append(content[position])
            continue
        if exact is None:
            gains[position] = gain = gain * LOOSE_CREDIT
        passages, windows, chunks = places
        if len(passages) <= everywhere_at:
            for passage in passages:
                by_passage[passage] += gain
            for middle in windows:
                by_window[middle] += gain
        else:
            everywhere += gain
            chunks = index.some_chunks(places, everywhere_at)
        for chunk in chunks:
            by_chunk[chunk].append(position)
    most = max(by_window.values(), default=0.0)
    closer = (1.0 - NEAR) * max(by_passage.values(), default=0.0)
    return Overlap(
        weight,
        min(1.0, sum(gains) / weight),
        min(1.0, (NEAR * most + closer + everywhere) / weight),
        missing,
        gains,
        by_passage,
        by_window,
        by_chunk,
    )


def _places_of(content: Sequence[Term], index: PassageIndex) -> list[Places | None]:
    """Return where each term stands; None: nowhere."""
    keys = [term.key for term in content]
    return list(map(index.exact.of(set(keys)).get, keys))


def _loosely(term: Term, index: PassageIndex) -> Places | None:
    """Return where a missing term stands loosely: by its prefix, or as a number that is rounded.

    `6.6 million` stands for 6,572,728, and then `NOWHERE`; None: it is missing.
    """
    if term.prefix:
        return index.loose.of({term.prefix}).get(term.prefix)
    if term.kind != "number":
        return None
    digits = kept_digits(term.key[1:])
    near = index.rounded[digits] if digits else ()
    return NOWHERE if near and number(term.key) in near else None


def closest(overlap: Overlap, index: PassageIndex) -> Passages:
    """Return the passages that come closest to a sentence, a window; none if none holds any of it.

    Texts break ties, not their order.
    """
    by_window = overlap.by_window
    if not by_window:
        return ()
    least = max(by_window.values()) - 1e-9
    tied = [at for at, share in by_window.items() if share > least]
    return index.windows[tied[0] if len(tied) == 1 else index.first_by_text(tied)]


def fewest_chunks(overlap: Overlap, index: PassageIndex) -> tuple[int, ...]:
    """Return the chunks that explain a sentence's support, each adding the most to those before.

    Texts break ties, so that the chunks' order makes no difference.
    """
    gains, weight = overlap.gains, overlap.weight
    chosen: list[int] = []
    left = dict(overlap.by_chunk)
    total = sum(gains)
    enough = ENOUGH * total
    least = MIN_GAIN * weight
    gained = 0.0
    while left and gained < enough:
        adds = {chunk: sum(map(gains.__getitem__, held)) for chunk, held in left.items()}
        most = max(adds.values())
        tied = [chunk for chunk, added in adds.items() if added == most]
        best = tied[0] if len(tied) == 1 else max(tied, key=index.chunk_ranks.__getitem__)
        if most < least:
            break
        chosen.append(best)
        gained += most
        if gained >= enough or total - gained < least - 1e-9:
            break  # no other chunk can add as much
        explained = set(left.pop(best))
        left = {
            chunk: rest
            for chunk, held in left.items()
            if adds[chunk] >= least and (rest := [term for term in held if term not in explained])
        }
    return tuple(chosen)
