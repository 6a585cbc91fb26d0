"""Decides which anchors are read now: the day's share, all of them, or an inquiry's witnesses."""

from __future__ import annotations

from ragmonitor.estimation.anchors.anchor_set import DAY_S, Anchor, AnchorSet, digest
from ragmonitor.estimation.anchors.inquiry import next_witnesses
from ragmonitor.estimation.anchors.judge_change import begin_rereading, due_members, lasts


def due_anchors(anchors: AnchorSet, now_s: float, judge: str, *, per_day: int) -> list[Anchor]:
    """Return which anchors this judge may read now, the next one first.

    Args:
        anchors: Changed by it: draws are counted, and a rereading may begin. Claims are the
            caller's.
        now_s: Seconds since the epoch.
        judge: Identity of the judge that would read.
        per_day: How many of them each day, while the judge is the one that it was; above 0.
    """
    if not anchors.has_confirmed:
        # There is nothing to compare a new judge with.
        if anchors.judge != judge:
            anchors.forget_verdicts()
            anchors.judge = judge
        anchors.is_refreeze_requested, anchors.rereading = False, None
    rereading = anchors.rereading
    if rereading is not None and rereading.judge != judge:
        if lasts(rereading, now_s):
            return []
        rereading = anchors.rereading = None  # whoever wanted the other judge has gone
    if rereading is None and (anchors.judge != judge or anchors.is_refreeze_requested):
        rereading = begin_rereading(anchors, now_s, judge)
        if rereading is None:
            return []
    if rereading is not None:
        return due_members(anchors, rereading, now_s)
    return next_witnesses(anchors, now_s) or _of_the_day(anchors, now_s, per_day=per_day)


def _of_the_day(anchors: AnchorSet, now_s: float, *, per_day: int) -> list[Anchor]:
    """Return the anchor whose turn it is, alone; nothing if it is not time yet."""
    between_s = DAY_S / per_day
    # A clock that was set back must not silence the checks until it is as late again.
    if now_s < anchors.next_check_s <= now_s + 2 * between_s:
        return []
    anchors.draws += 1
    free = [anchor for anchor in anchors.anchors.values() if anchor.is_free(now_s)]
    candidates = [each for each in free if not each.is_confirmed and not each.in_reserve]
    confirmed = [each for each in free if each.is_confirmed]
    # By turns: checks begin with the first confirmed anchor and not with the last one.
    is_check = bool(confirmed) and not (candidates and anchors.draws % 2)
    if not confirmed and not candidates:
        return []
    late_s = now_s - anchors.next_check_s
    anchors.next_check_s = now_s + between_s - (late_s if 0 <= late_s < between_s else 0.0)
    if is_check:
        return [min(confirmed, key=lambda each: digest(f"{anchors.draws} {each.id}"))]
    return [min(candidates, key=lambda each: each.joined_s)]
