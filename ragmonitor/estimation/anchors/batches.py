"""All anchors at once: what a change of the judge's identity does."""

from __future__ import annotations

import math
from typing import Final

from ragmonitor.estimation.anchors.places import ANCHORS_MOST, leave
from ragmonitor.estimation.anchors.records import (
    CLAIM_S,
    Anchor,
    Batch,
    Outcome,
    Read,
    RulerChange,
    State,
)

TRIES_MOST: Final = 5
"""After so many readings without a verdict a batch does without that anchor. Between them the pause
doubles, from `CLAIM_S`: two and a half hours in all, longer than most outages of a provider."""
BATCH_S: Final = 3_600.0
"""A batch that takes longer gives way to another judge."""
COOLDOWN_S: Final = 86_400.0
"""A judge that was replaced is not turned back to before: while a service is being rolled out old
and new processes share the anchors, and each would have them all read for its own judge."""

FLIPS_EXPECTED: Final = 0.03
"""Share of anchors on which two readings by one judge differ."""
SIGNIFICANT: Final = 0.01


def binomial_tail(hits: int, n: int, chance: float) -> float:
    """Return the chance of at least `hits` among n independent trials, summed exactly."""
    return min(
        1.0,
        math.fsum(
            math.comb(n, k) * chance**k * (1 - chance) ** (n - k)
            for k in range(max(0, hits), n + 1)
        ),
    )


def turn(state: State, now_s: float, name: str) -> bool:
    """Have all anchors read by another judge; return whether that may begin."""
    if state.batch is not None and lasts(state.batch, now_s):
        return False
    replaced_s = state.past.get(name)
    if replaced_s is not None and 0 <= now_s - replaced_s < COOLDOWN_S:
        return False
    state.batch = Batch(
        to=name,
        began_s=now_s,
        members=[i for i, anchor in state.anchors.items() if anchor.settled],
        asked=state.refreeze,
    )
    state.refreeze = False
    return True


def lasts(batch: Batch, now_s: float) -> bool:
    """Return whether its judge may still finish it before another one may begin."""
    return 0 <= now_s - batch.began_s < BATCH_S


def of_batch(state: State, batch: Batch, now_s: float) -> list[Anchor]:
    """Return whom the judge may read now: one, and the rest once that has a verdict."""
    waiting = [
        state.anchors[i] for i in batch.members if i in state.anchors and i not in batch.verdicts
    ]
    free = [anchor for anchor in waiting if anchor.is_free(now_s)]
    if any(verdict is not None for verdict in batch.verdicts.values()):
        return free
    return free[:1] if len(free) == len(waiting) else []


def take_into(state: State, batch: Batch, read: Read) -> Outcome:
    """Take in what a judge said of one of its members, and return what that says of the judge."""
    outcome: Outcome = "missing"
    if read.verdict is None or read.by != batch.to:
        tries = batch.tries[read.id] = batch.tries.get(read.id, 0) + 1
        state.anchors[read.id].claimed_until_s = read.at_s + CLAIM_S * 2 ** (tries - 1)
        if tries >= TRIES_MOST:
            batch.verdicts[read.id] = None
    else:
        batch.verdicts[read.id] = read.verdict
        flipped = read.verdict is not state.anchors[read.id].hallucinated
        state.note(flipped)
        outcome = "flipped" if flipped else "same"
    return outcome


def is_complete(state: State, batch: Batch) -> bool:
    """Return whether every member has its verdict, has none for good, or has left."""
    return all(member in batch.verdicts for member in batch.members if member in state.anchors)


def freeze(state: State, batch: Batch, at_s: float) -> RulerChange:
    """Make the new judge's verdicts the frozen ones."""
    read = {
        i: verdict
        for i in batch.members
        if i in state.anchors and (verdict := batch.verdicts.get(i)) is not None
    }
    flipped = [i for i, verdict in read.items() if verdict is not state.anchors[i].hallucinated]
    strict = sum(read[i] for i in flipped)
    p_value = binomial_tail(len(flipped), len(read), FLIPS_EXPECTED)
    change = RulerChange(
        before=state.judge,
        after=batch.to,
        at_s=at_s,
        checked=len(read),
        missing=len(batch.members) - len(read),
        flipped=len(flipped),
        to_hallucinated=strict,
        to_fine=len(flipped) - strict,
        p_value=p_value,
        moved=p_value < SIGNIFICANT and not batch.asked,
    )
    for identity, anchor in [*state.anchors.items()]:
        if identity in read:
            # Of those that flipped the new judge has said so once; the others it has confirmed.
            if read[identity] is not anchor.hallucinated:
                anchor.hallucinated, anchor.agreed = read[identity], 0
        elif anchor.given:
            anchor.hallucinated, anchor.agreed = None, 0
        else:
            leave(state, identity)
        anchor.flipped = False
    if state.judge != batch.to:
        state.past[state.judge] = at_s
        state.past.pop(batch.to, None)
        for known in (state.past, state.aliases):
            while len(known) > ANCHORS_MOST:
                del known[next(iter(known))]
    state.judge, state.batch = batch.to, None
    state.last_change = change
    # Another judge's verdicts on old answers say nothing of why this one's rate rises.
    state.inquiry = None
    state.pairs = state.pairs_flipped = 0.0
    return change
