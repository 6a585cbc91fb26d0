"""How much of a sentence the chunks support, and where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.lexical.passages import Index, Passages, number
from ragmonitor.judges.lexical.quantities import kept_digits
from ragmonitor.judges.lexical.words import Term

LOOSE_CREDIT: Final = 0.75
"""Of a word of which the chunks hold only the first letters: `organised` for `organisation`."""
NEAR: Final = 0.8
"""See `Evidence.closeness`."""
EVERYWHERE: Final = (12, 300)
"""Least and most passages from which a term tells no place: it is then close to everything."""
STEPS: Final = 300_000
"""Places that are looked at for all terms of one answer, some 0.1 s; see `everywhere_from`."""
ENOUGH: Final = 0.9
"""Share of a sentence's support that its evidence explains before it is complete."""
LEAST_GAIN: Final = 0.08
"""Share of a sentence's content that one more chunk must add to be named as evidence."""


@dataclass(slots=True)
class Evidence:
    """What the chunks hold of one sentence."""

    weight: float
    """Of all the sentence's content; 0: it has none."""
    support: float
    """Share of that content which stands in the chunks, anywhere. More chunks never lower it."""
    closeness: float
    """Share which stands close together, where that is largest: `NEAR` of it counts what three
    neighbouring sentences of one chunk hold, the rest what one sentence does. More chunks never
    lower it."""
    missing: Sequence[Term]
    """What stands nowhere in the chunks."""
    chunks: tuple[int, ...]
    """The fewest chunks that explain the support, best first (greedily)."""
    window: Passages
    """Positions of the passages that come closest to the sentence; empty if none does."""
    by_passage: Mapping[int, float]
    """For each passage, the weight that it holds."""
    by_window: Mapping[int, float]
    """For each passage, the weight that it and its neighbours hold."""
    by_chunk: Mapping[int, Sequence[int]]
    """For each chunk that holds anything, the positions of the terms that it holds, ascending."""


NOTHING: Final = Evidence(0.0, 0.0, 0.0, (), (), (), {}, {}, {})


def everywhere_from(terms: int) -> int:
    """Return in how many passages a term stands everywhere, for so many terms to be looked for.

    300 as far as that makes no more than `STEPS`; the more terms, the fewer, so that the time is
    linear in their number.
    """
    least, most = EVERYWHERE
    return max(least, min(most, STEPS // max(1, terms)))


def gather(content: Sequence[Term], index: Index, everywhere_at: int = EVERYWHERE[1]) -> Evidence:
    """Return what the chunks hold of a sentence's terms, whatever the order of the chunks.

    Args:
        content: The sentence's terms.
        index: The chunks.
        everywhere_at: See `everywhere_from`.
    """
    gains = [term.weight for term in content]
    weight = sum(gains)
    if not weight:
        return NOTHING
    everywhere = 0.0
    missing: list[Term] = []
    by_passage: defaultdict[int, float] = defaultdict(float)
    by_window: defaultdict[int, float] = defaultdict(float)
    by_chunk: defaultdict[int, list[int]] = defaultdict(list)
    exact, windows, chunk_of = index.exact, index.windows, index.chunk_of
    for position, term in enumerate(content):
        gain = gains[position]
        if not gain:
            continue
        places = exact.get(term.key)
        if places is None:
            places, gain = _loosely(term, index)
            gains[position] = gain
            if not gain:
                missing.append(term)
                continue
        if len(places) > everywhere_at:
            everywhere += gain
            for chunk in index.chunks_of(places, everywhere_at):
                by_chunk[chunk].append(position)
            continue
        if len(places) == 1:
            (place,) = places
            by_passage[place] += gain
            by_chunk[chunk_of[place]].append(position)
            for middle in windows[place]:
                by_window[middle] += gain
            continue
        unseen = 0
        holder = -1
        for place in places:
            by_passage[place] += gain
            chunk = chunk_of[place]
            if chunk != holder:
                holder = chunk
                by_chunk[chunk].append(position)
            near = windows[place]
            for middle in near:
                if middle >= unseen:
                    by_window[middle] += gain
            unseen = near[-1] + 1
    together = NEAR * max(by_window.values(), default=0.0)
    closer = (1.0 - NEAR) * max(by_passage.values(), default=0.0)
    return Evidence(
        weight,
        min(1.0, sum(gains) / weight),
        min(1.0, (together + closer + everywhere) / weight),
        missing,
        _fewest(by_chunk, gains, weight, index),
        _closest(index, by_window),
        by_passage,
        by_window,
        by_chunk,
    )


def _loosely(term: Term, index: Index) -> tuple[Sequence[int], float]:
    """Return where what counts for a term that is missing stands, and how much of it that is."""
    if term.kind == "pair":
        return (), 0.0
    places = index.loose.get(term.prefix)
    if places or (term.kind == "number" and _is_rounded(term, index)):
        return places or (), term.weight * LOOSE_CREDIT
    return (), 0.0


def _is_rounded(term: Term, index: Index) -> bool:
    """Return whether a number of the chunks, rounded, is this one: `6.6 million` for 6,572,728."""
    value = number(term.key)
    digits = 0 if value is None else kept_digits(term.key[1:])
    return bool(digits) and value in index.rounded(digits)


def _closest(index: Index, by_window: Mapping[int, float]) -> Passages:
    """Return the window with the most of the sentence; ties are settled by text, not by order."""
    if not by_window:
        return ()
    most = max(by_window.values()) - 1e-9
    tied = [at for at, share in by_window.items() if share > most]
    if len(tied) == 1:
        return index.windows[tied[0]]
    return index.windows[min(tied, key=index.ranks().__getitem__)]


def _fewest(
    by_chunk: Mapping[int, Sequence[int]],
    gains: Sequence[float],
    weight: float,
    index: Index,
) -> tuple[int, ...]:
    """Return the chunks that explain the support, each adding the most to those before it.

    Ties are settled by text, so that the chunks' order makes no difference.
    """
    chosen: list[int] = []
    left = dict(by_chunk)
    total = sum(gains)
    enough = ENOUGH * total
    least = LEAST_GAIN * weight
    gained = 0.0
    while left and gained < enough:
        adds = {chunk: sum([gains[term] for term in held]) for chunk, held in left.items()}
        most = max(adds.values())
        tied = [chunk for chunk, added in adds.items() if added == most]
        best = tied[0] if len(tied) == 1 else max(tied, key=index.chunk_ranks().__getitem__)
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
