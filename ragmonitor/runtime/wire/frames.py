"""The four bytes before each record, and the compression of what follows them."""

from __future__ import annotations

import threading
from functools import cache
from typing import Final, Literal

from ragmonitor.runtime.errors import MissingExtraError, WireError

VERSION: Final = 1
"""The version that is written; those before and after it are read as well."""
MAX_BYTES: Final = 4 * 2**20
"""Bytes of a record before compression: what is longer is cut by a writer, refused by a reader."""
HEADER_BYTES: Final = 4
LEVEL: Final = 1
"""The level of Zstandard: as small as zlib 1, in less than half of its time (measured)."""

# MessagePack never uses it, and no UTF-8 text has it: what is no record is seen at once.
_MAGIC: Final = 0xC1

Kind = Literal[b"i", b"r", b"f", b"m"]
"""An `Interaction`, a `Report`, people's `Feedback`, or a message of a monitor or its worker."""

COMPRESSED: Final = 2
"""The flag of bytes that are one Zstandard frame. An unknown flag makes them unreadable."""


def framed(kind: Kind, body: bytes, *, compressed: bool) -> bytes:
    """Return a record's bytes with their header.

    Raises:
        MissingExtraError: They are to be compressed, and `zstandard` is not installed.
    """
    if compressed:
        body = _codecs().compressor.compress(body)
    return bytes((_MAGIC, kind[0], VERSION, COMPRESSED * compressed)) + body


def unframed(data: bytes, kind: Kind) -> bytes | memoryview:
    """Return the body, at most `MAX_BYTES` of it.

    Raises:
        WireError: These are no bytes of such a record, of a version that is read here.
        MissingExtraError: They are compressed, and `zstandard` is not installed.
    """
    flags = _flags(data, kind)
    body = memoryview(data)[HEADER_BYTES:]
    if len(body) > MAX_BYTES:
        raise WireError(f"a record of {len(body)} bytes; the limit is {MAX_BYTES}")
    return _decompressed(body) if flags & COMPRESSED else body


def require_compression() -> None:
    """Raise `MissingExtraError` if records cannot be compressed here."""
    _codecs()


def is_kind(data: bytes, kind: Kind) -> bool:
    """Return whether these bytes begin as a record of this kind."""
    return data[:2] == bytes((_MAGIC, kind[0]))


def _flags(data: bytes, kind: bytes) -> int:
    if len(data) < HEADER_BYTES or data[0] != _MAGIC:
        raise WireError("these bytes are no record of ragmonitor")
    if data[1] != kind[0]:
        raise WireError("these bytes are a record of another kind")
    if not max(1, VERSION - 1) <= data[2] <= VERSION + 1:
        raise WireError(
            f"a record of version {data[2]}; this release reads up to {VERSION + 1}: "
            "update the older side, one version at a time"
        )
    if data[3] & ~COMPRESSED:
        raise WireError("a record with an unknown flag: update this side")
    return data[3]


def _decompressed(body: memoryview) -> bytes:
    codecs = _codecs()
    try:
        # A frame says how long its content is, and the library makes room for as much.
        if codecs.content_size(body) > MAX_BYTES:
            raise WireError(f"a record is longer than {MAX_BYTES} bytes when decompressed")
        content: bytes = codecs.decompressor.decompress(
            body, max_output_size=MAX_BYTES, allow_extra_data=False
        )
    except (codecs.error, MemoryError) as error:
        raise WireError("the compressed bytes of a record are damaged") from error
    return content


class _Codecs(threading.local):
    """A compressor and a decompressor for each thread: making them takes as long as using them."""

    def __init__(self) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("zstandard, which compresses records,", "zstd") from None
        self.compressor = zstandard.ZstdCompressor(level=LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()
        self.content_size = zstandard.frame_content_size
        self.error = zstandard.ZstdError


@cache
def _codecs() -> _Codecs:
    return _Codecs()
