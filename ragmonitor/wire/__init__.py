"""Finished records as compact, versioned bytes, and back."""

from ragmonitor.wire.frames import MAX_BYTES, VERSION, is_kind, require_compression, was_cut
from ragmonitor.wire.record_bytes import (
    decode,
    decode_feedback,
    decode_message,
    decode_report,
    encode,
    encode_feedback,
    encode_message,
    encode_refreeze,
    encode_report,
)
from ragmonitor.wire.settled_bytes import (
    Decided,
    SettledAnswer,
    decode_alarms,
    decode_decided,
    decode_pending,
    decode_settled,
    encode_alarms,
    encode_decided,
    encode_pending,
    encode_settled,
)

__all__ = [
    "MAX_BYTES",
    "VERSION",
    "Decided",
    "SettledAnswer",
    "decode",
    "decode_alarms",
    "decode_decided",
    "decode_feedback",
    "decode_message",
    "decode_pending",
    "decode_report",
    "decode_settled",
    "encode",
    "encode_alarms",
    "encode_decided",
    "encode_feedback",
    "encode_message",
    "encode_pending",
    "encode_refreeze",
    "encode_report",
    "encode_settled",
    "is_kind",
    "require_compression",
    "was_cut",
]
