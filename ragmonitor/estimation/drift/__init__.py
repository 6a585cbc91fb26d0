"""Whether questions and retrievals are still what they used to be."""

from ragmonitor.estimation.drift.watching import (
    SIGNALS,
    STATE_VERSION,
    TOLERATE,
    Drift,
    Observed,
)

__all__ = [
    "SIGNALS",
    "STATE_VERSION",
    "TOLERATE",
    "Drift",
    "Observed",
]
