"""Asks old answers, read again after an alarm, whether the judge or the application explains it.

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

from ragmonitor.estimation.anchors.anchor_set import (
    Anchor,
    AnchorSet,
    Inquiry,
    Outcome,
    Rise,
    digest,
)
from ragmonitor.records import AlarmCause

ERROR: Final = 0.05
"""Chance of either wrong verdict, at most."""
MIN_EXPLAINED: Final = 0.75
"""The judge explains a rise if it accounts for at least this share of it."""
MIN_RISE: Final = 0.005
"""A smaller rise is not asked about: it would take thousands of readings."""
MIN_SHARES_RATIO: Final = 1.2
"""Nor is one that would flip hardly more witnesses than the judge's self-disagreement does."""
MAX_RESERVE: Final = 500
"""Fine answers kept for inquiries, beside the anchors that are checked every day."""
RENEWED_S: Final = 7 * 86_400.0
"""Within so long each of them is replaced by a newer one."""
MAX_AT_ONCE: Final = 8
"""Witnesses read at a time: a decision waits for no more than these."""
MAX_TRIES: Final = 3
_PRIOR_PAIRS: Final = 50.0
_PRIOR_FLIPS: Final = 1.0
"""A judge of which nothing is known finds one fine answer in fifty hallucinated when it reads it
again."""


def self_disagreement(anchors: AnchorSet) -> tuple[float, float]:
    """Return how often the judge finds a fine answer hallucinated when it reads it again; 0 to 1.

    Mean and standard deviation of the posterior of a Beta(1, 49) prior, from the readings of
    reference answers that were due.
    """
    pairs = anchors.pairs + _PRIOR_PAIRS
    mean = (anchors.pairs_flipped + _PRIOR_FLIPS) / pairs
    return min(0.25, mean), math.sqrt(mean * (1 - mean) / (pairs + 1))


def expected_shares(anchors: AnchorSet, inquiry: Inquiry) -> tuple[float, float] | None:
    """Return the share of fine witnesses that flip if it is not the judge, and if it is.

    None: the rise is not known yet, or too small to be asked about.
    """
    rise = inquiry.rise
    if rise is None or rise.size < MIN_RISE:
        return None
    mean, deviation = self_disagreement(anchors)
    # A judge that is thought steadier than it is would be blamed.
    same = mean + deviation
    # All of the rise comes from answers that were fine: before, 1 - `before` of all were.
    stricter = mean + MIN_EXPLAINED * rise.size / max(0.05, 1.0 - rise.before)
    return (same, min(0.95, stricter)) if stricter > MIN_SHARES_RATIO * same else None


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


def learn_rise(inquiry: Inquiry, rise: Rise | None) -> None:
    """Take in how much the rate has risen, if this rests on more verdicts than what is known."""
    known = 0 if inquiry.rise is None else inquiry.rise.verdicts
    if rise is not None and rise.verdicts >= known:
        inquiry.rise = rise


def witnesses(anchors: AnchorSet, inquiry: Inquiry) -> Iterator[Anchor]:
    """Yield the anchors that may be read: fine ones, judged before the rate began to rise."""
    for anchor in anchors.anchors.values():
        if (
            anchor.hallucinated is False
            and (anchor.in_reserve or anchor.is_confirmed)
            and anchor.joined_s < inquiry.since_s
            and inquiry.tries.get(anchor.id, 0) < MAX_TRIES
            and anchor.id not in inquiry.flips
        ):
            yield anchor


def next_witnesses(anchors: AnchorSet, now_s: float) -> list[Anchor]:
    """Return which witnesses to read next, in an order that is random and alike everywhere."""
    inquiry = anchors.inquiry
    if inquiry is None or inquiry.is_decided or expected_shares(anchors, inquiry) is None:
        return []
    waiting = [*witnesses(anchors, inquiry)]
    free = [anchor for anchor in waiting if anchor.is_free(now_s)]
    under_way = len(waiting) - len(free)
    free.sort(key=lambda anchor: digest(f"{inquiry.opened_s} {anchor.id}"))
    return free[: max(0, MAX_AT_ONCE - under_way)]


def add_testimony(anchors: AnchorSet, anchor: Anchor, hallucinated: bool | None) -> Outcome | None:
    """Take in what the judge says of a witness now; None: no inquiry asked for it."""
    inquiry = anchors.inquiry
    if inquiry is None or inquiry.is_decided:
        return None
    if all(each is not anchor for each in witnesses(anchors, inquiry)):
        return None
    shares = expected_shares(anchors, inquiry)
    if shares is None:
        return None
    if hallucinated is None:
        inquiry.tries[anchor.id] = inquiry.tries.get(anchor.id, 0) + 1
        return "missing"
    same, stricter = shares
    inquiry.expected_else, inquiry.expected_judge = same, stricter
    inquiry.flips[anchor.id] = hallucinated
    inquiry.log_ratio += (
        math.log(stricter / same) if hallucinated else math.log((1 - stricter) / (1 - same))
    )
    if inquiry.log_ratio >= -math.log(ERROR):
        inquiry.cause = "judge"
    elif inquiry.log_ratio <= math.log(ERROR):
        inquiry.cause = "application"
    anchors.note_check(hallucinated)
    return "flipped" if hallucinated else "same"


def cause_of(anchors: AnchorSet) -> AlarmCause | None:
    """Return what is known of the active alarm's cause; None: nothing is asked."""
    inquiry = anchors.inquiry
    if inquiry is None:
        return None
    shares = expected_shares(anchors, inquiry)
    needed = None if shares is None else max(readings_needed(*shares))
    if inquiry.is_decided:
        shares = inquiry.expected_else, inquiry.expected_judge
    return AlarmCause(
        cause=inquiry.cause,
        since_s=inquiry.since_s,
        reread=len(inquiry.flips),
        flipped=sum(inquiry.flips.values()),
        expected_else=None if shares is None else shares[0],
        expected_judge=None if shares is None else shares[1],
        needed=needed,
        waiting=sum(1 for _ in witnesses(anchors, inquiry)),
    )


def reserve_place(anchors: AnchorSet, at_s: float) -> str | None:
    """Return whose place a fine answer may take in the reserve: an id, or "" for a free one.

    None: nobody's. The oldest gives way, so seldom that the reserve reaches back a week.
    """
    if anchors.inquiry is not None:
        return None
    if has_room(anchors):
        return ""
    reserve, between_s = anchors.reserve, RENEWED_S / MAX_RESERVE
    # One of the future came while a clock was ahead: it must not keep others out until then.
    if any(abs(at_s - each.joined_s) < between_s for each in reserve):
        return None
    return min(reserve, key=lambda anchor: anchor.joined_s).id


def has_room(anchors: AnchorSet) -> bool:
    """Return whether the reserve has a free place."""
    return len(anchors.reserve) < MAX_RESERVE
