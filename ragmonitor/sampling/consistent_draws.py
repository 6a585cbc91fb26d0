"""Draws by a hash of an id, the same in every process."""

from __future__ import annotations

import hashlib

from ragmonitor.records import Interaction
from ragmonitor.sampling.trace_randomness import place_of


def uniform_of(interaction_id: str) -> float:
    """Return a number in [0, 1), uniform over ids; below its probability an answer is drawn.

    A higher probability keeps what a lower one kept.
    """
    # A keyed hash and not the id's own bits: the tracer's ratio sampler reads those, and two
    # decisions on the same bits are one decision.
    digest = hashlib.blake2b(interaction_id.encode(), digest_size=7, key=b"ragmonitor").digest()
    # 53 bits, all that a float in [0, 1) can hold exactly.
    return (int.from_bytes(digest, "big") >> 3) / 2**53


def is_drawn(interaction: Interaction, probability: float, *, by_session: bool = False) -> bool:
    """Return whether this answer is drawn at this probability; the same in every process.

    The number is that of the session, where asked for and given; else the randomness of the
    caller's trace, where OpenTelemetry's consistent sampling left any; else that of the
    interaction's id.
    """
    if probability >= 1:
        return True
    if by_session and interaction.session_id:
        return uniform_of(interaction.session_id) < probability
    caller = interaction.caller
    if caller is not None and caller.trace_state:
        found = place_of(caller)
        if found is not None:
            place, among = found
            # In whole numbers: a float has not the room for 56 bits.
            return place < round(probability * among)
    return uniform_of(interaction.id) < probability
