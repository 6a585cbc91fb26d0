"""A judge and an application, one of which gets worse; and what an inquiry says of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from ragmonitor.estimation.anchors import Anchors
from ragmonitor.estimation.judge_drift import Rises
from ragmonitor.records import Chunk, Interaction, JudgeIdentity

JUDGE = JudgeIdentity(name="model", version="1", kind="LLM")
BEGAN_S = 1_790_000_000.0
PER_HOUR = 180
"""Judged answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What becomes worse, and how far."""

    before: float = 0.04
    """True share of hallucinated answers, before."""
    after: float = 0.04
    """The same, after the change."""
    stricter: float = 0.0
    """Share of fine answers that the judge finds hallucinated after the change."""
    slips: float = 0.01
    """Share of readings in which the judge errs by chance."""
    verdicts: int = 40
    """Between the change and the alarm."""
    history: int = 1_500
    """Verdicts before the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    cause: str
    readings: int


def inquire(world: World, seed: int) -> Found:
    """Let an alarm be raised, and return what is found of its cause."""
    rng = random.Random(seed)
    is_bad: dict[str, bool] = {}
    offends: dict[str, bool] = {}
    anchors, rises = Anchors(per_day=20), Rises()
    now_s, has_changed, number = BEGAN_S, False, 0

    def verdict(identity: str) -> bool:
        strict = has_changed and offends[identity]
        return (is_bad[identity] or strict) ^ (rng.random() < world.slips)

    def answer(after_s: float = 3_600 / PER_HOUR) -> None:
        nonlocal now_s, number
        number += 1
        now_s += after_s
        identity = f"a{number}"
        is_bad[identity] = rng.random() < (world.after if has_changed else world.before)
        offends[identity] = rng.random() < world.stricter
        said = verdict(identity)
        rises.add(now_s, said, 1.0)
        interaction = Interaction(
            id=identity,
            query="?",
            chunks=(Chunk(text="."),),
            answer="!",
            framework="python",
            started_ns=int(now_s * 1e9),
            ended_ns=int(now_s * 1e9),
        )
        anchors.offer([(interaction, said, JUDGE)])

    def read_due(rise: Any = None) -> None:
        for each in anchors.due(now_s, JUDGE, rise=rise):
            anchors.checked(each.id, verdict(each.id), JUDGE, now_s)

    for _ in range(world.history):  # ten days, in which reference answers were read again
        answer(864_000 / world.history)
        read_due()
    has_changed, since_s = True, now_s
    for _ in range(world.verdicts):
        answer()
    anchors.inquire(since_s, now_s)
    while (inquiry := anchors.inquiry) is not None and inquiry.cause == "unknown":
        answer()
        read_due(rises.since(since_s, objective=0.05))
        told = anchors.cause()
        if told is not None and not told.waiting and told.expected_else is not None:
            break
        if now_s - since_s > 8 * 3_600:
            break
    told = anchors.cause()
    assert told is not None
    return Found(cause=told.cause, readings=told.reread)
