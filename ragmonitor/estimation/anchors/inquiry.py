"""Judge or application: what old answers, read again after an alarm, say of its cause.

The application cannot change answers that were given before the rate began to rise. If the judge
explains the rise, it now finds hallucinations in old answers that it found fine, in about as large
a share of them as the rate has risen by. If the application explains it, the judge says of old
answers what it said. A sequential probability ratio test decides between the two, and reads no more
answers than that takes.

Source:
    Wald (1945), "Sequential tests of statistical hypotheses", Annals of Mathematical Statistics
    16(2), sections 3 (the test) and 4 (expected number of observations). That a likelihood ratio
    reaches 20 with a chance of at most 1 in 20 if its denominator is true is Ville's inequality,
    and holds as well where the alternative is chosen anew before each observation from what does
    not depend on it (Ramdas et al. 2023, "Game-theoretic statistics and safe anytime-valid
    inference", Statistical Science 38(4), section 3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from ragmonitor.estimation.anchors.records import Anchor, Inquiry, Rise, State, digest

ERROR: Final = 0.05
"""Chance of either wrong verdict, at most."""
EXPLAINS: Final = 0.75
"""The judge explains a rise if it accounts for at least this share of it."""
RISE_LEAST: Final = 0.005
"""A smaller rise is not asked about: it would take thousands of readings."""
TOLD_APART: Final = 1.2
"""Nor is one that would flip hardly more references than the judge's self-disagreement does."""
RESERVE_MOST: Final = 500
"""Fine answers kept for inquiries, beside the anchors that are checked every day."""
RENEWED_S: Final = 7 * 86_400.0
"""Within so long each of them is replaced by a newer one."""
RESERVE_CHARACTERS_MOST: Final = 12_000
AT_ONCE: Final = 8
"""References read at a time: a decision waits for no more than these."""
TRIES_MOST: Final = 3
_PRIOR_PAIRS: Final = 50.0
_PRIOR_FLIPS: Final = 1.0
"""A judge of which nothing is known finds one fine answer in fifty hallucinated when it reads it
again."""


def self_disagreement(state: State) -> tuple[float, float]:
    """Return how often the judge finds a fine answer hallucinated when it reads it again; 0 to 1.

    Mean and standard deviation of the posterior of a Beta(1, 49) prior, from answers that were read
    twice.
    """
    pairs = state.pairs + _PRIOR_PAIRS
    mean = (state.pairs_flipped + _PRIOR_FLIPS) / pairs
    return min(0.25, mean), math.sqrt(mean * (1 - mean) / (pairs + 1))


def expected_shares(state: State, inquiry: Inquiry) -> tuple[float, float] | None:
    """Return the share of fine references that flip if it is not the judge, and if it is.

    None: the rise is not known yet, or too small to be asked about.
    """
    rise = inquiry.rise
    if rise is None or rise.size < RISE_LEAST:
        return None
    mean, deviation = self_disagreement(state)
    # A judge that is thought steadier than it is would be blamed.
    same = mean + deviation
    # All of the rise comes from answers that were fine: before, 1 - `before` of all were.
    stricter = mean + EXPLAINS * rise.size / max(0.05, 1.0 - rise.before)
    return (same, min(0.95, stricter)) if stricter > TOLD_APART * same else None


def readings_needed(same: float, stricter: float) -> tuple[float, float]:
    """Return about how many readings a verdict takes if it is not the judge, and if it is.

    Args:
        same: As the first of `expected_shares`; above 0, below `stricter`.
        stricter: As the second; below 1.

    Source:
        Wald (1945), section 4.1: the threshold over the mean step, the overshoot left out.
    """
    to_judge = same * math.log(stricter / same) + (1 - same) * math.log((1 - stricter) / (1 - same))
    if_judge = stricter * math.log(stricter / same) + (1 - stricter) * math.log(
        (1 - stricter) / (1 - same)
    )
    threshold = -math.log(ERROR)
    return threshold / -to_judge, threshold / if_judge


def open_inquiry(state: State, since_s: float, now_s: float) -> bool:
    """Begin to ask why a rate rises; return whether nobody had begun yet."""
    if state.inquiry is not None:
        return False
    state.inquiry = Inquiry(since_s=since_s, opened_s=now_s)
    return True


def learn_rise(inquiry: Inquiry, rise: Rise | None) -> None:
    """Take in how much the rate has risen, if this rests on more verdicts than what is known."""
    known = 0 if inquiry.rise is None else inquiry.rise.verdicts
    if rise is not None and rise.verdicts >= known:
        inquiry.rise = rise


def witnesses(state: State, inquiry: Inquiry) -> Iterator[Anchor]:
    """Yield the references that may be read: fine ones, judged before the rate began to rise."""
    for anchor in state.anchors.values():
        if (
            anchor.hallucinated is False
            and (anchor.reserve or anchor.settled)
            and anchor.joined_s < inquiry.since_s
            and inquiry.tries.get(anchor.id, 0) < TRIES_MOST
            and anchor.id not in inquiry.read
        ):
            yield anchor


def next_witnesses(state: State, now_s: float) -> list[Anchor]:
    """Return whom to read next, in an order that is random and alike in every process."""
    inquiry = state.inquiry
    if inquiry is None or inquiry.cause != "unknown" or expected_shares(state, inquiry) is None:
        return []
    waiting = [*witnesses(state, inquiry)]
    under_way = sum(not anchor.is_free(now_s) for anchor in waiting)
    free = [anchor for anchor in waiting if anchor.is_free(now_s)]
    free.sort(key=lambda anchor: digest(f"{inquiry.opened_s} {anchor.id}"))
    return free[: max(0, AT_ONCE - under_way)]


def testify(state: State, identity: str, hallucinated: bool | None) -> bool:
    """Take in what the judge says of a reference now; return whether an inquiry asked for it."""
    inquiry = state.inquiry
    if inquiry is None or inquiry.cause != "unknown" or identity in inquiry.read:
        return False
    if all(anchor.id != identity for anchor in witnesses(state, inquiry)):
        return False
    shares = expected_shares(state, inquiry)
    if shares is None:
        return False
    if hallucinated is None:
        inquiry.tries[identity] = inquiry.tries.get(identity, 0) + 1
        return True
    same, stricter = shares
    inquiry.expected_else, inquiry.expected_judge = same, stricter
    inquiry.read[identity] = hallucinated
    inquiry.log_ratio += (
        math.log(stricter / same) if hallucinated else math.log((1 - stricter) / (1 - same))
    )
    if inquiry.log_ratio >= -math.log(ERROR):
        inquiry.cause = "judge"
    elif inquiry.log_ratio <= math.log(ERROR):
        inquiry.cause = "application"
    return True


def reserve_place(state: State, identity: str, judge: str, at_s: float) -> str | None:
    """Return whose place a fine answer may take in the reserve: an id, or "" for a free one.

    None: nobody's. The oldest gives way, so seldom that the reserve reaches back a week.
    """
    if identity in state.anchors or state.judge != judge or state.batch is not None:
        return None
    if state.inquiry is not None:
        return None
    if has_room(state):
        return ""
    reserve = [anchor for anchor in state.anchors.values() if anchor.reserve]
    newest = max(anchor.joined_s for anchor in reserve)
    if at_s - newest < RENEWED_S / RESERVE_MOST:
        return None
    return min(reserve, key=lambda anchor: anchor.joined_s).id


def has_room(state: State) -> bool:
    """Return whether the reserve has a free place."""
    return sum(anchor.reserve for anchor in state.anchors.values()) < RESERVE_MOST
