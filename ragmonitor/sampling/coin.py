"""The coin: one number from an id, the same in every process."""

from __future__ import annotations

import hashlib


def coin(interaction_id: str) -> float:
    """Return a number in [0, 1), uniform over ids; an answer is judged if it is below its chance.

    A higher chance keeps what a lower one kept.
    """
    # A keyed hash and not the id's own bits: the tracer's ratio sampler reads those, and two
    # decisions on the same bits are one decision.
    digest = hashlib.blake2b(interaction_id.encode(), digest_size=7, key=b"ragmonitor").digest()
    # 53 bits, all that a float in [0, 1) can hold exactly.
    return (int.from_bytes(digest, "big") >> 3) / 2**53
