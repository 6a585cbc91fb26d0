"""Which judged answer becomes an anchor, when it is settled, and when it leaves."""

from __future__ import annotations

from typing import Final

from ragmonitor.estimation.anchors.records import Read, State, digest
from ragmonitor.guard import logger
from ragmonitor.records import Chunk, Interaction

ANCHORS_MOST: Final = 100
CHARACTERS_MOST: Final = 60_000
"""Of an anchor's texts; a longer one would be read in many calls."""
COLLECT_S: Final = 7 * 86_400.0
"""For so long hallucinated answers may still take the places of fine ones."""


def place_for(
    state: State, identity: str, hallucinated: bool, judge: str, at_s: float
) -> str | None:
    """Return whose place an answer may take: an anchor's id, or "" for a free one; None: nobody's.

    Hallucinated answers are rare, so fine ones hold their places until they come. Among fine ones
    that have not settled those with the smallest hash stay: a random part of all that were
    offered, the same in every process.
    """
    if identity in state.anchors:
        return None
    if state.anchors and (state.judge != judge or state.batch is not None):
        return None
    checked = [anchor for anchor in state.anchors.values() if not anchor.reserve]
    bad = sum(anchor.hallucinated is True for anchor in checked)
    if hallucinated and bad >= ANCHORS_MOST // 2:
        return None
    if len(checked) < ANCHORS_MOST:
        return ""
    if bad >= ANCHORS_MOST // 2 or at_s - state.began_s > COLLECT_S:
        return None
    fine = [anchor for anchor in checked if anchor.hallucinated is False and not anchor.given]
    candidates = [anchor for anchor in fine if not anchor.settled]
    last = max(candidates, key=lambda anchor: anchor.lot, default=None)
    if hallucinated:
        last = last or max(fine, key=lambda anchor: anchor.lot, default=None)
    elif last is not None and digest(identity) > last.lot:
        return None
    return None if last is None else last.id


def settle(state: State, identity: str, verdict: bool) -> None:
    """Take in what its judge says of a candidate; one of which it says something else leaves."""
    anchor = state.anchors[identity]
    if anchor.hallucinated is None:
        anchor.hallucinated = verdict
        if anchor.said is not None and anchor.said is not verdict:
            logger.warning(
                "ragmonitor: the judge reads an anchor unlike its file says: %s, not %s: %s",
                _word(verdict),
                _word(anchor.said),
                identity,
            )
    elif verdict is anchor.hallucinated:
        anchor.agreed += 1
    else:
        leave(state, identity)


def leave(state: State, identity: str) -> None:
    """Give the place up; what a person gave is not taken in again."""
    anchor = state.anchors.pop(identity)
    if anchor.given:
        state.left.append(identity)


def begin_anew(state: State, read: Read) -> None:
    """Give up candidates of a judge that is another one now, before any of them has settled."""
    for identity, anchor in [*state.anchors.items()]:
        if anchor.given:
            anchor.hallucinated, anchor.agreed = None, 0
        else:
            leave(state, identity)
    state.judge = read.by


def bare(interaction: Interaction) -> Interaction:
    """Return what a judge reads of an interaction, and no more."""
    return Interaction(
        id=interaction.id,
        query=interaction.query,
        chunks=tuple(Chunk(text=chunk.text, id=chunk.id) for chunk in interaction.chunks),
        answer=interaction.answer,
        framework=interaction.framework,
        started_ns=interaction.started_ns,
        ended_ns=interaction.ended_ns,
    )


def characters(interaction: Interaction) -> int:
    """Return how long a text the judge would read of it."""
    chunks = sum(len(chunk.text) for chunk in interaction.chunks)
    return len(interaction.query) + len(interaction.answer) + chunks


def _word(hallucinated: bool) -> str:
    return "hallucinated" if hallucinated else "fine"
