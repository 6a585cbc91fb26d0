"""Interactions with made-up questions: what a shop is asked about, and what it is not."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import wait

from ragmonitor.estimation.drift import InputDrift
from ragmonitor.records import Chunk, Interaction

Template = tuple[str, tuple[str, ...], tuple[str, ...]]

ASKED: tuple[Template, ...] = (
    (
        "How do I return {} that I bought {}?",
        ("shoes", "a jacket", "a lamp", "headphones", "a kettle", "a toy"),
        ("last week", "online", "in the store", "at the sale", "yesterday"),
    ),
    (
        "When will my {} be delivered to {}?",
        ("parcel", "order", "package", "replacement", "letter"),
        ("Berlin", "my office", "the store", "Paris", "a locker"),
    ),
    (
        "Can I pay {} with {}?",
        ("an invoice", "my order", "a subscription", "the shipping fee"),
        ("a credit card", "a voucher", "bank transfer", "instalments", "cash"),
    ),
    (
        "Why was my {} {}?",
        ("refund", "account", "discount code", "payment", "application"),
        ("rejected", "delayed", "blocked", "cancelled", "changed"),
    ),
    (
        "怎么退换{}，{}可以吗？",
        ("鞋子", "衣服", "台灯", "耳机", "玩具"),
        ("上周买的", "网上买的", "打折时买的", "昨天买的"),
    ),
)
UNASKED: tuple[Template, ...] = (
    (
        "Which {} orbits {}?",
        ("comet", "asteroid", "moon", "probe", "nebula"),
        ("Jupiter", "Saturn", "Neptune", "Mercury", "Pluto"),
    ),
    (
        "Who composed the {} in {}?",
        ("symphony", "sonata", "quartet", "opera", "requiem"),
        ("1791", "Vienna", "B minor", "Leipzig", "E flat"),
    ),
)


def questions(templates: Sequence[Template], count: int, seed: int = 0) -> list[str]:
    """Return that many questions, drawn evenly."""
    luck = random.Random(seed)
    found = []
    for _ in range(count):
        sentence, first, second = luck.choice(templates)
        found.append(sentence.format(luck.choice(first), luck.choice(second)))
    return found


def interaction(
    query: str,
    *,
    id_: str,
    scores: Sequence[float | None] = (0.9, 0.8),
    chunks: Sequence[Chunk] | None = None,
    **more: object,
) -> Interaction:
    """Return an answered question whose chunks have these scores."""
    found = [Chunk(text="A passage.", score=score) for score in scores]
    return Interaction(
        id=id_,
        query=query,
        chunks=tuple(found if chunks is None else chunks),
        answer="An answer.",
        framework="python",
        started_ns=0,
        ended_ns=1,
        **more,  # type: ignore[arg-type]
    )


def complete(drift: InputDrift, timeout_s: float = 20.0) -> bool:
    """Let a drift share, fit and embed what is under way, at once; return whether it is done."""
    shared, queue = drift._shared, drift._queue
    until_s, is_shared = time.monotonic() + timeout_s, False
    while time.monotonic() < until_s:
        drift._advance()
        if shared._fit is not None:
            shared._fit.hurry.set()
            wait([shared._fit.made], 0.1)
        elif queue is not None and (queue._call is not None or queue._waiting):
            time.sleep(0.001)
        elif drift.reference is None and not is_shared:
            is_shared = True
            shared.share()
        else:
            return True
    return False
