"""Finished records as compact, versioned bytes, and back.

MessagePack behind a header of four bytes: maps by field name, so that readers skip the fields they
do not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, Literal

import msgspec

from ragmonitor.records import Interaction, Report
from ragmonitor.runtime.errors import WireError

VERSION: Final = 1
"""The version that is written; those before and after it are read as well."""
MAX_BYTES: Final = 4 * 2**20
"""Bytes of a record. A longer one is refused by writer and reader."""
MAX_MESSAGE_BYTES: Final = 2**26
"""Likewise of a message: it may hold every series, or an interaction with its reports."""
HEADER_BYTES: Final = 4
# MessagePack never uses it, and no UTF-8 text has it: what is no record is seen at once.
_MAGIC: Final = 0xC1

Kind = Literal[b"i", b"m"]
"""An `Interaction`, or a message: a name with arguments."""
_MOST: Final[dict[Kind, int]] = {b"i": MAX_BYTES, b"m": MAX_MESSAGE_BYTES}


def encode(interaction: Interaction) -> bytes:
    """Return a record as bytes; its fields are as `capture.sound` makes them.

    Raises:
        WireError: It is too long.
    """
    return _encoded(b"i", interaction)


def decode(data: bytes) -> Interaction:
    """Return the record of these bytes.

    Unknown fields are skipped, and missing ones have their defaults.

    Raises:
        WireError: They cannot be read: damaged, too long, or more than one version away.
    """
    interaction: Interaction = _decoded(b"i", data, Interaction)
    return interaction


def encode_message(name: str, *args: object) -> bytes:
    """Return a name with plain values, or records of simple fields, as bytes. As `encode`."""
    return _encoded(b"m", (name, args))


def decode_message(data: bytes, *shapes: Any) -> tuple[str, Sequence[Any]]:
    """Return the name and the arguments of these bytes. Raises as `decode`.

    Args:
        data: The bytes.
        shapes: The types of the arguments; none: they are plain values.
    """
    typed: Any = tuple.__class_getitem__(shapes) if shapes else list
    name, args = _decoded(b"m", data, tuple.__class_getitem__((str, typed)))
    return name, args


def is_kind(data: bytes, kind: Kind) -> bool:
    """Return whether these bytes begin as a record of this kind."""
    return data[:2] == bytes((_MAGIC, kind[0]))


def _encoded(kind: Kind, record: Any) -> bytes:
    try:
        body = _ENCODER.encode(record)
    except (ValueError, OverflowError, TypeError) as error:
        raise WireError(f"a record cannot be written: {type(error).__name__}") from None
    if len(body) > (most := _MOST[kind]):
        raise WireError(f"a record of {len(body)} bytes; the limit is {most}")
    return bytes((_MAGIC, kind[0], VERSION, 0)) + body


def _decoded(kind: Kind, data: bytes, shape: Any) -> Any:
    if len(data) < HEADER_BYTES or not is_kind(data, kind):
        raise WireError("these bytes are no record of ragmonitor, or one of another kind")
    if not max(1, VERSION - 1) <= data[2] <= VERSION + 1:
        raise WireError(
            f"a record of version {data[2]}; this release reads up to {VERSION + 1}: "
            "update the older side, one version at a time"
        )
    if data[3]:
        raise WireError("a record with an unknown flag: update this side")
    body = memoryview(data)[HEADER_BYTES:]
    if len(body) > (most := _MOST[kind]):
        raise WireError(f"a record of {len(body)} bytes; the limit is {most}")
    try:
        return _decoder(shape).decode(body)
    # Beside the library's own: what a text, a key of a map or a depth can be wrong in.
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise WireError(f"a record cannot be read: {error}"[:300]) from None


_ENCODER: Final = msgspec.msgpack.Encoder()


@cache
def _decoder(shape: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(shape)


# --- reports, in messages -----------------------------------------------------------------------


def without_interaction(report: Report) -> dict[str, Any]:
    """Return a report for a message that has its interaction beside it."""
    return {each.name: getattr(report, each.name) for each in _OF_REPORT}


_OF_REPORT: Final = tuple(each for each in fields(Report) if each.name != "interaction")
