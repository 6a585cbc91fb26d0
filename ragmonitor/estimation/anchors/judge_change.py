"""Has all anchors read by a judge whose identity is new, and freezes its verdicts."""

from __future__ import annotations

from typing import Final

from ragmonitor.estimation.anchors.anchor_set import (
    CLAIM_S,
    DAY_S,
    Anchor,
    AnchorSet,
    JudgeChange,
    Outcome,
    Rereading,
)
from ragmonitor.estimation.beta import beta_share

MAX_TRIES: Final = 5
"""After so many readings without a verdict the change does without that anchor. Between them the
pause doubles, from `CLAIM_S`: two and a half hours in all, longer than most outages of a
provider."""
REREADING_S: Final = 3_600.0
"""A rereading that takes longer gives way to another judge."""

FLIPS_EXPECTED: Final = 0.03
"""Share of anchors on which two readings by one judge differ."""
SIGNIFICANT: Final = 0.01


def begin_rereading(anchors: AnchorSet, now_s: float, judge: str) -> Rereading | None:
    """Have all anchors read by a judge, if nothing speaks against it.

    A judge that was replaced is not turned back to within a day: while a service is being rolled
    out, old and new processes share the anchors, and each would have them all read for its own.
    """
    last = anchors.last_change
    is_back = last is not None and judge == last.before and judge != anchors.judge
    if last is not None and is_back and 0 <= now_s - last.at_s < DAY_S:
        return None
    anchors.rereading = Rereading(
        judge=judge,
        began_s=now_s,
        members=[each.id for each in anchors.anchors.values() if each.is_confirmed],
        is_requested=anchors.is_refreeze_requested,
    )
    anchors.is_refreeze_requested = False
    return anchors.rereading


def lasts(rereading: Rereading, now_s: float) -> bool:
    """Return whether its judge may still finish it before another one may begin."""
    return 0 <= now_s - rereading.began_s < REREADING_S


def due_members(anchors: AnchorSet, rereading: Rereading, now_s: float) -> list[Anchor]:
    """Return which anchors the judge may read now.

    Only one until that has a verdict: a provider that is down costs a few calls, not hundreds.
    """
    waiting = [
        anchors.anchors[each]
        for each in rereading.members
        if each in anchors.anchors and each not in rereading.verdicts
    ]
    free = [anchor for anchor in waiting if anchor.is_free(now_s)]
    if any(verdict is not None for verdict in rereading.verdicts.values()):
        return free
    return free[:1] if len(free) == len(waiting) else []


def add_verdict(
    anchors: AnchorSet, anchor: Anchor, verdict: bool | None, judge: str, at_s: float
) -> Outcome | None:
    """Take in a verdict on one of the members; None: the rereading does not wait for it."""
    rereading = anchors.rereading
    if rereading is None or anchor.id not in rereading.members or anchor.id in rereading.verdicts:
        return None
    if verdict is None or judge != rereading.judge:
        tries = rereading.tries[anchor.id] = rereading.tries.get(anchor.id, 0) + 1
        anchor.claimed_until_s = at_s + CLAIM_S * 2 ** (tries - 1)
        if tries >= MAX_TRIES:
            rereading.verdicts[anchor.id] = None
        return "missing"
    rereading.verdicts[anchor.id] = verdict
    flipped = verdict is not anchor.hallucinated
    anchors.note_check(flipped)
    return "flipped" if flipped else "same"


def freeze_if_complete(anchors: AnchorSet, at_s: float) -> JudgeChange | None:
    """Make the new judge's verdicts the frozen ones once it has read every member."""
    rereading = anchors.rereading
    if rereading is None:
        return None
    members = [anchors.anchors[each] for each in rereading.members if each in anchors.anchors]
    if any(anchor.id not in rereading.verdicts for anchor in members):
        return None
    verdicts = {
        anchor.id: verdict
        for anchor in members
        if (verdict := rereading.verdicts[anchor.id]) is not None
    }
    change = _change_of(anchors, rereading, verdicts, at_s)
    for identity, anchor in [*anchors.anchors.items()]:
        anchor.flipped = False
        if identity in verdicts:
            # Of those that flipped the new judge has said so once; the others it has confirmed.
            if verdicts[identity] is not anchor.hallucinated:
                anchor.hallucinated, anchor.confirmations = verdicts[identity], 0
        elif anchor.is_own:
            anchor.hallucinated, anchor.confirmations = None, 0
        else:
            anchors.remove(identity)
    anchors.judge, anchors.rereading, anchors.last_change = rereading.judge, None, change
    # Another judge's verdicts on old answers say nothing of why this one's rate rises.
    anchors.inquiry = None
    anchors.pairs = anchors.pairs_flipped = 0.0
    return change


def _change_of(
    anchors: AnchorSet, rereading: Rereading, verdicts: dict[str, bool], at_s: float
) -> JudgeChange:
    flipped = [
        each for each in verdicts if verdicts[each] is not anchors.anchors[each].hallucinated
    ]
    stricter = sum(verdicts[each] for each in flipped)
    p_value = chance_of_flips(len(flipped), len(verdicts))
    return JudgeChange(
        before=anchors.judge,
        after=rereading.judge,
        at_s=at_s,
        checked=len(verdicts),
        missing=len(rereading.members) - len(verdicts),
        flipped=len(flipped),
        to_hallucinated=stricter,
        to_fine=len(flipped) - stricter,
        p_value=p_value,
        drifted=p_value < SIGNIFICANT and not rereading.is_requested,
    )


def chance_of_flips(flips: int, n: int) -> float:
    """Return the chance that one judge finds at least so many of n anchors otherwise than before.

    Source:
        NIST Digital Library of Mathematical Functions, 8.17.5: the binomial tail.
    """
    return beta_share(FLIPS_EXPECTED, flips, n - flips + 1) if flips else 1.0
