"""How much of a sentence the chunks support, and where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.lexical.passages import Index, number
from ragmonitor.judges.lexical.quantities import rounds_to
from ragmonitor.judges.lexical.words import Term

LOOSE_CREDIT: Final = 0.75
"""Of a word of which the chunks hold only the first letters: `organised` for `organisation`."""
NEAR: Final = 0.8
"""See `Evidence.closeness`."""
EVERYWHERE: Final = 300
"""Passages from which a term tells no place: it is then close to everything. Bounds the work."""
ENOUGH: Final = 0.9
"""Share of a sentence's support that its evidence explains before it is complete."""
LEAST_GAIN: Final = 0.08
"""Share of a sentence's content that one more chunk must add to be named as evidence."""


@dataclass(frozen=True, slots=True)
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
    missing: tuple[Term, ...]
    """What stands nowhere in the chunks."""
    chunks: tuple[int, ...]
    """The fewest chunks that explain the support, best first (greedily)."""
    window: tuple[int, ...]
    """Positions of the passages that come closest to the sentence; empty if none does."""
    by_passage: Mapping[int, float]
    """For each passage, the weight that it holds."""
    by_window: Mapping[int, float]
    """For each passage, the weight that it and its neighbours hold."""
    by_chunk: Mapping[int, set[int]]
    """For each chunk that holds anything, the positions of the terms that it holds."""


NOTHING: Final = Evidence(0.0, 0.0, 0.0, (), (), (), {}, {}, {})


def gather(content: Sequence[Term], index: Index) -> Evidence:
    """Return what the chunks hold of a sentence's terms, whatever the order of the chunks."""
    weight = sum(term.weight for term in content)
    if not weight:
        return NOTHING
    everywhere = 0.0
    missing = []
    gains: list[float] = []
    by_passage: defaultdict[int, float] = defaultdict(float)
    by_window: defaultdict[int, float] = defaultdict(float)
    by_chunk: defaultdict[int, set[int]] = defaultdict(set)
    passages, windows = index.passages, index.windows
    for position, term in enumerate(content):
        places, gain = _credit(term, index) if term.weight else ((), 0.0)
        gains.append(gain)
        if not gain:
            if term.weight:
                missing.append(term)
            continue
        if len(places) > EVERYWHERE:
            everywhere += gain
            for chunk in {passages[place].chunk for place in places}:
                by_chunk[chunk].add(position)
            continue
        unseen = 0
        for place in places:
            by_passage[place] += gain
            by_chunk[passages[place].chunk].add(position)
            for middle in windows[place]:
                if middle >= unseen:
                    by_window[middle] += gain
                    unseen = middle + 1
    near = NEAR * max(by_window.values(), default=0.0)
    nearer = (1.0 - NEAR) * max(by_passage.values(), default=0.0)
    return Evidence(
        weight=weight,
        support=min(1.0, sum(gains) / weight),
        closeness=min(1.0, (near + nearer + everywhere) / weight),
        missing=tuple(missing),
        chunks=_fewest(by_chunk, gains, weight, index.plain),
        window=_closest(index, by_window),
        by_passage=by_passage,
        by_window=by_window,
        by_chunk=by_chunk,
    )


def _credit(term: Term, index: Index) -> tuple[Sequence[int], float]:
    """Return where a term stands, and how much of its weight that supports."""
    places = index.exact.get(term.key)
    if places:
        return places, term.weight
    places = index.loose.get(term.prefix)
    if places or (term.kind == "number" and _is_rounded(term, index)):
        return places or (), term.weight * LOOSE_CREDIT
    return (), 0.0


_ROUNDING = 0.06
"""Relative error beyond which no number with two digits kept is a rounding of another."""


def _is_rounded(term: Term, index: Index) -> bool:
    """Return whether a number of the chunks, rounded, is this one: `6.6 million` for 6,572,728."""
    value = number(term.key)
    if value is None:
        return False
    near = _ROUNDING * abs(value)
    return any(
        abs(exact - value) <= near and rounds_to(exact, term.key[1:]) for exact in index.values
    )


def _closest(index: Index, by_window: dict[int, float]) -> tuple[int, ...]:
    """Return the window with the most of the sentence; ties are settled by text, not by order."""
    if not by_window:
        return ()
    most = max(by_window.values())
    passages = index.passages
    best = min(
        (at for at, share in by_window.items() if share > most - 1e-9),
        key=lambda at: (passages[at].text, tuple(passages[i].text for i in index.windows[at])),
    )
    return tuple(index.windows[best])


def _fewest(
    by_chunk: Mapping[int, set[int]],
    gains: Sequence[float],
    weight: float,
    texts: Sequence[str],
) -> tuple[int, ...]:
    """Return the chunks that explain the support, each adding the most to those before it.

    Ties are settled by text, so that the chunks' order makes no difference.
    """
    chosen: list[int] = []
    left = {chunk: sorted(held) for chunk, held in by_chunk.items()}
    enough = ENOUGH * sum(gains)
    gained = 0.0
    while left and gained < enough:
        adds = {chunk: sum(gains[term] for term in held) for chunk, held in left.items()}
        best = max(adds, key=lambda chunk: (adds[chunk], texts[chunk]))
        if adds[best] < LEAST_GAIN * weight:
            break
        chosen.append(best)
        gained += adds[best]
        explained = by_chunk[best]
        left = {
            chunk: rest
            for chunk, held in left.items()
            if chunk != best and (rest := [term for term in held if term not in explained])
        }
    return tuple(chosen)
