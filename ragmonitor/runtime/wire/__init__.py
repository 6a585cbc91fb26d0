"""Finished records as compact, versioned bytes, and back."""

from ragmonitor.runtime.wire.frames import MAX_BYTES, VERSION, is_kind, require_compression
from ragmonitor.runtime.wire.record_bytes import (
    decode,
    decode_feedback,
    decode_message,
    decode_report,
    encode,
    encode_feedback,
    encode_message,
    encode_report,
)

__all__ = [
    "MAX_BYTES",
    "VERSION",
    "decode",
    "decode_feedback",
    "decode_message",
    "decode_report",
    "encode",
    "encode_feedback",
    "encode_message",
    "encode_report",
    "is_kind",
    "require_compression",
]
