"""Golden questions: questions with known answers, made, asked in production, guarded in CI."""

from ragmonitor.goldens.golden import (
    Golden,
    GoldensError,
    ReferenceChunk,
    golden_id,
    read_goldens,
    write_goldens,
)

__all__ = [
    "Golden",
    "GoldensError",
    "ReferenceChunk",
    "golden_id",
    "read_goldens",
    "write_goldens",
]
