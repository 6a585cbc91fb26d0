"""Sums in short buckets of time: what they are called, how they add, where a draw is placed.

A bucket has a name, which is a letter and the second that it begins at, and holds vectors of
floats by field.

* `b`: bets, `BET_S` of the time at which answers were *drawn*, by the store's clock;
* `r`, `h`: means, `MEAN_S` and an hour of the time at which answers were *given*;
* `c`: log gains of comparisons, by blocks of `MEAN_S`;
* `p`, `q`: verdicts by what predicted them, by the hour and by the day;
* `series`: what counters show. It is never folded and never dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from operator import add
from typing import Final, NamedTuple

BET_S: Final = 10
MEAN_S: Final = 300
HOUR_S: Final = 3_600
DAY_S: Final = 86_400

Rows = dict[str, list[float]]
"""Vectors by field."""
Increments = dict[str, Rows]
"""What is to be added, by bucket. The bucket `b` is the one of now, by the store's clock."""


def merge(into: Rows, rows: Mapping[str, Sequence[float]]) -> None:
    """Add vectors to vectors, field by field.

    >>> sums = {"hallucination": [1.0, 2.0]}
    >>> merge(sums, {"hallucination": [1.0, 0.5], "refusal": [3.0]})
    >>> sums
    {'hallucination': [2.0, 2.5], 'refusal': [3.0]}
    """
    for name, row in rows.items():
        known = into.get(name)
        into[name] = list(row) if known is None else [*map(add, known, row)]


def merge_buckets(into: Increments, more: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
    """Add buckets to buckets."""
    for name, rows in more.items():
        merge(into.setdefault(name, {}), rows)


class Placed(NamedTuple):
    """Increments whose draws have a bucket."""

    increments: Increments
    bucket: int
    """The bucket that draws went to."""
    late: int
    """Bets that came after their bucket was closed, and were left out."""


def place(increments: Increments, now_s: float, closed: int) -> Placed:
    """Put draws into the bucket of now, and leave out bets on buckets that are closed.

    A verdict may be late because it is bad: if bad ones are held back and then arrive together,
    bets taken late raise false alarms. Its draw counted as fine when the bucket closed, and stays
    so; in the means, which are other buckets, the verdict counts at any lateness.

    Args:
        increments: As they came.
        now_s: By the store's clock. One that steps back opens no bucket that is closed.
        closed: The last bucket whose bets have been evaluated; -1: none.
    """
    bucket = max(int(now_s // BET_S) * BET_S, closed + BET_S if closed >= 0 else 0)
    placed: Increments = {}
    late = 0
    for name, rows in increments.items():
        if name[0] != "b":
            merge(placed.setdefault(name, {}), rows)
        elif name == "b" or int(name[1:]) > closed:
            merge(placed.setdefault(f"b{bucket}" if name == "b" else name, {}), rows)
        else:
            late += len(rows)
    return Placed(placed, bucket, late)


def packed(row: Sequence[float]) -> bytes:
    """Return a vector as little-endian doubles."""
    return struct.pack(f"<{len(row)}d", *row)


def unpacked(blob: bytes) -> list[float]:
    """Return the vector that `packed` packed."""
    return list(struct.unpack(f"<{len(blob) // 8}d", blob))
