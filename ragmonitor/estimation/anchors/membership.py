"""Decides which judged answer becomes an anchor, when it is confirmed, and when it leaves."""

from __future__ import annotations

from typing import Final

from ragmonitor.estimation.anchors.anchor_set import Anchor, AnchorSet
from ragmonitor.estimation.anchors.inquiry import reserve_place
from ragmonitor.guard import logger
from ragmonitor.records import Interaction

MAX_ANCHORS: Final = 100
MAX_CHARACTERS: Final = 60_000
"""The characters of an anchor's texts; a longer one would be read in many calls."""
MAX_RESERVE_CHARACTERS: Final = 12_000
COLLECT_S: Final = 7 * 86_400.0
"""For so long hallucinated answers may still take the places of fine ones."""


def place_for(
    anchors: AnchorSet, interaction: Interaction, hallucinated: bool, judge: str
) -> tuple[str, bool] | None:
    """Return whose place an answer takes: an anchor's id or "" for a free one; None: nobody's.

    With it stands whether that is a place in the reserve. Hallucinated answers are rare, so fine
    ones hold their places until they come.
    """
    at_s, size = interaction.ended_ns / 1e9, characters(interaction)
    if size > MAX_CHARACTERS or interaction.id in anchors.anchors:
        return None
    if anchors.anchors and (anchors.judge != judge or anchors.rereading is not None):
        return None
    place = _checked_place(anchors, hallucinated, at_s)
    if place is not None:
        return place, False
    if hallucinated or size > MAX_RESERVE_CHARACTERS:
        return None
    place = reserve_place(anchors, at_s)
    return None if place is None else (place, True)


def _checked_place(anchors: AnchorSet, hallucinated: bool, at_s: float) -> str | None:
    checked = anchors.checked
    bad = sum(anchor.hallucinated is True for anchor in checked)
    if hallucinated and bad >= MAX_ANCHORS // 2:
        return None
    if len(checked) < MAX_ANCHORS:
        return ""
    if not hallucinated or at_s - anchors.began_s > COLLECT_S:
        return None
    fine = [anchor for anchor in checked if anchor.hallucinated is False and not anchor.is_own]
    # The newest candidate: most has been paid for the oldest confirmed one.
    last = max(fine, key=lambda each: (not each.is_confirmed, each.joined_s), default=None)
    return None if last is None else last.id


def confirm(anchors: AnchorSet, anchor: Anchor, verdict: bool) -> None:
    """Take in another verdict on a candidate; one of which the judge says two things leaves."""
    if anchor.hallucinated is None:
        anchor.hallucinated = verdict
        if anchor.label is not None and anchor.label is not verdict:
            logger.warning(
                "ragmonitor: the judge reads a reference answer unlike its file says: %s, not %s: "
                "%s",
                _word(verdict),
                _word(anchor.label),
                anchor.id,
            )
    elif verdict is anchor.hallucinated:
        anchor.confirmations += 1
    else:
        anchors.remove(anchor.id)


def characters(interaction: Interaction) -> int:
    """Return how long a text the judge would read of it."""
    chunks = sum(len(chunk.text) for chunk in interaction.chunks)
    return len(interaction.query) + len(interaction.answer) + chunks


def _word(hallucinated: bool) -> str:
    return "hallucinated" if hallucinated else "fine"
