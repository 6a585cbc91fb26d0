"""Whether questions and retrievals are still what they used to be."""

from ragmonitor.estimation.drift.watching import (
    EMPTY_RETRIEVAL,
    NOVEL_QUESTION,
    SIGNALS,
    STATE_VERSION,
    TOLERATE,
    WEAK_RETRIEVAL,
    Drift,
    Observed,
)

__all__ = [
    "EMPTY_RETRIEVAL",
    "NOVEL_QUESTION",
    "SIGNALS",
    "STATE_VERSION",
    "TOLERATE",
    "WEAK_RETRIEVAL",
    "Drift",
    "Observed",
]
