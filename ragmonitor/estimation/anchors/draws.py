"""Which anchors are read now: the day's share by lot, a batch, or an inquiry's references."""

from __future__ import annotations

from ragmonitor.estimation.anchors.batches import lasts, of_batch, turn
from ragmonitor.estimation.anchors.inquiry import next_witnesses
from ragmonitor.estimation.anchors.records import DAY_S, Anchor, State, digest


def claimable(state: State, now_s: float, name: str, *, per_day: int) -> list[Anchor]:
    """Return which anchors this judge may read now, the next one first.

    Args:
        state: Changed by it: draws are counted, and a batch may begin. Claims are the caller's.
        now_s: Seconds since the epoch.
        name: Of the judge that is asked to.
        per_day: How many of them each day, while the judge is the one that it was; above 0.
    """
    name = state.aliases.get(name, name)
    if not state.judge:
        state.judge = name
    if not any(anchor.settled for anchor in state.anchors.values()):
        # Nothing to compare a new judge with; whether it is one its first reading will say.
        state.refreeze, state.batch = False, None
        return next_witnesses(state, now_s) or of_day(state, now_s, per_day=per_day)
    batch = state.batch
    if batch is None or batch.to != name:
        if state.judge != name or state.refreeze:
            if not turn(state, now_s, name):
                return []
        elif batch is not None:
            if lasts(batch, now_s):
                return []
            state.batch = None  # whoever wanted the other judge has gone
    if state.batch is not None:
        return of_batch(state, state.batch, now_s)
    return next_witnesses(state, now_s) or of_day(state, now_s, per_day=per_day)


def of_day(state: State, now_s: float, *, per_day: int) -> list[Anchor]:
    """Return the anchor whose turn it is, alone; nothing if it is not time yet."""
    between_s = DAY_S / per_day
    # A clock that was set back must not silence the checks until it is as late again.
    if now_s < state.next_at_s <= now_s + 2 * between_s:
        return []
    state.draws += 1
    free = {i: anchor for i, anchor in state.anchors.items() if anchor.is_free(now_s)}
    candidates = {i: a for i, a in free.items() if not a.settled and not a.reserve}
    settled = {i: anchor for i, anchor in free.items() if anchor.settled}
    # By turns: checks begin with the first anchor and not when the last one has settled.
    drawn_of = candidates if candidates and (state.draws % 2 or not settled) else settled
    if not drawn_of:
        return []
    late_s = now_s - state.next_at_s
    state.next_at_s = now_s + between_s - (late_s if 0 <= late_s < between_s else 0.0)
    if drawn_of is candidates:
        return [min(candidates.values(), key=lambda anchor: anchor.joined_s)]
    return [settled[min(settled, key=lambda i: digest(f"{state.draws} {i}"))]]
