"""How much of a sentence the chunks support, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.lexical.passages import Index, number
from ragmonitor.judges.lexical.quantities import rounds_to
from ragmonitor.judges.lexical.words import Term

LOOSE_CREDIT: Final = 0.75
"""Of a word of which the chunks hold only the first letters: `organised` for `organisation`."""
ENOUGH: Final = 0.9
"""Share of what the chunks support of a sentence that its evidence explains before it is complete."""
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
    """Share which stands in three neighbouring sentences of one chunk, where that is largest.
    More chunks never lower it."""
    missing: tuple[Term, ...]
    """What stands nowhere in the chunks."""
    chunks: tuple[int, ...]
    """The fewest chunks that explain the support, best first (greedily)."""
    window: tuple[int, ...]
    """Positions of the passages that come closest to the sentence; empty if none does."""
    by_window: Mapping[int, float]
    """For each passage, the weight that it and its neighbours hold."""
    by_chunk: Mapping[int, set[int]]
    """For each chunk that holds anything, the positions of the terms that it holds."""


NOTHING: Final = Evidence(0.0, 0.0, 0.0, (), (), (), {}, {})


def gather(content: Sequence[Term], index: Index) -> Evidence:
    """Return what the chunks hold of a sentence's terms; order of the chunks makes no difference."""
    weight = sum(term.weight for term in content)
    if not weight:
        return NOTHING
    supported = 0.0
    missing = []
    by_window: dict[int, float] = {}
    by_chunk: dict[int, set[int]] = {}
    credits = []
    for position, term in enumerate(content):
        if not term.weight:
            credits.append(0.0)
            continue
        places, is_exact = index.places(term)
        is_rounded = not places and _is_rounded(term, index)
        credit = term.weight * (1.0 if is_exact else LOOSE_CREDIT if places or is_rounded else 0.0)
        credits.append(credit)
        if not credit:
            missing.append(term)
        supported += credit
        _note(index, places, position, credit, by_window, by_chunk)
    window = _closest(index, by_window)
    return Evidence(
        weight=weight,
        support=min(1.0, supported / weight),
        closeness=min(1.0, max(by_window.values(), default=0.0) / weight),
        missing=tuple(missing),
        chunks=_fewest(by_chunk, credits, weight),
        window=window,
        by_window=by_window,
        by_chunk=by_chunk,
    )


def _is_rounded(term: Term, index: Index) -> bool:
    """Return whether a number of the chunks, rounded, is this one: `6.6 million` for 6,572,728."""
    value = number(term.key) if term.kind == "number" else None
    if value is None:
        return False
    return any(rounds_to(exact, term.key[1:]) for exact in index.values)


def _note(
    index: Index,
    places: Sequence[int],
    position: int,
    credit: float,
    by_window: dict[int, float],
    by_chunk: dict[int, set[int]],
) -> None:
    """Add one term's credit to every window and every chunk that holds it, once each."""
    reached = -1
    for place in places:
        for middle in index.window(place):
            if middle > reached:
                by_window[middle] = by_window.get(middle, 0.0) + credit
                reached = middle
        by_chunk.setdefault(index.passages[place].chunk, set()).add(position)


def _closest(index: Index, by_window: dict[int, float]) -> tuple[int, ...]:
    """Return the window with the most of the sentence; ties are settled by text, not by order."""
    if not by_window:
        return ()
    most = max(by_window.values())
    passages = index.passages
    best = min(
        (at for at, share in by_window.items() if share > most - 1e-9),
        key=lambda at: (passages[at].text, tuple(passages[i].text for i in index.window(at))),
    )
    return tuple(index.window(best))


def _fewest(
    by_chunk: dict[int, set[int]], credits: Sequence[float], weight: float
) -> tuple[int, ...]:
    """Return the chunks that explain the support, each adding the most to those before it."""
    chosen: list[int] = []
    explained: set[int] = set()
    supported = sum(credits)
    gained = 0.0
    while len(chosen) < len(by_chunk) and gained < ENOUGH * supported:
        gains = {
            chunk: sum(credits[term] for term in held - explained)
            for chunk, held in by_chunk.items()
            if chunk not in chosen
        }
        best = max(gains, key=lambda chunk: (gains[chunk], -chunk))
        if gains[best] < LEAST_GAIN * weight:
            break
        chosen.append(best)
        explained |= by_chunk[best]
        gained += gains[best]
    return tuple(chosen)
