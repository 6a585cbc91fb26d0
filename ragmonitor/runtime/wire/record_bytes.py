"""Records as MessagePack: maps by field name, so that readers skip the fields they do not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Real
from typing import Any, Final, get_type_hints

import msgspec
from msgspec.structs import asdict

from ragmonitor.records import Cause, Interaction, JudgeIdentity, Report, Scored, Unscored
from ragmonitor.runtime.errors import WireError
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.wire.fitting import fitting, without_metadata
from ragmonitor.runtime.wire.frames import MAX_BYTES, Flag, Kind, framed, unframed

MAX_INTEGER_BYTES: Final = 129
"""The bytes of an integer beyond 64 bits: 1,024 bits and its sign, as capture keeps them."""
MAX_FOREIGN_CHARACTERS: Final = 1_000
"""Characters of the text that stands for an object of the application's own class."""

# MessagePack's extension types; a number is never used again for something else.
_TEXT: Final = 1
_INTEGER: Final = 2
_PAIRS: Final = 3


def encode(interaction: Interaction, *, compressed: bool = False) -> bytes:
    """Return a record as bytes: a header of four, and at most `MAX_BYTES` before compression.

    A record as capture makes it (`Recorder`, blocks of plain code) comes back equal. In metadata of
    other records, sets and tuples come back as lists, and objects as the text that they print as. A
    longer record is cut; `was_cut` tells.

    Args:
        interaction: Its fields are of their declared types.
        compressed: By Zstandard; worth its time where bytes are stored or sent far.

    Raises:
        MissingExtraError: It is to be compressed, and `zstandard` is not installed.
    """
    return _encoded(b"i", interaction, compressed=compressed)


def decode(data: bytes) -> Interaction:
    """Return the record of these bytes.

    Unknown fields are skipped, and missing ones have their defaults.

    Raises:
        WireError: They cannot be read: damaged, too long, or more than one version away.
        MissingExtraError: They are compressed, and `zstandard` is not installed.
    """
    interaction: Interaction = decoded(b"i", data, Interaction)
    return interaction


def encode_report(report: Report, *, compressed: bool = False) -> bytes:
    """Return a report with its interaction as bytes. As `encode`."""
    return _encoded(b"r", report, compressed=compressed)


def decode_report(data: bytes) -> Report:
    """Return the report of these bytes. Raises as `decode`."""
    read = decoded(b"r", data, report_shape(has_interaction=True))
    try:
        return report_of(read)
    except ValueError as error:
        raise WireError(str(error)) from None


def encode_feedback(feedback: Feedback, *, compressed: bool = False) -> bytes:
    """Return what a person said of an answer as bytes; its fields are short, so none is cut."""
    flags, body = packed(feedback)
    return framed(b"f", flags, body, compressed=compressed)


def decode_feedback(data: bytes) -> Feedback:
    """Return the feedback of these bytes. Raises as `decode`."""
    feedback: Feedback = decoded(b"f", data, Feedback)
    return feedback


def encode_refreeze() -> bytes:
    """Return the request to freeze the reference answers anew: `is_kind` says all of it."""
    return framed(b"j", *packed({}), compressed=False)


def encode_message(message: Any) -> bytes:
    """Return plain values, or records of simple fields, as bytes."""
    return framed(b"m", *packed(message), compressed=False)


def decode_message(data: bytes) -> Any:
    """Return the plain values of these bytes. Raises as `decode`."""
    return decoded(b"m", data, Any)


def _encoded(kind: Kind, record: Interaction | Report, *, compressed: bool) -> bytes:
    flags, body = packed(record)
    if len(body) > MAX_BYTES:
        for shorter in fitting(record):
            flags, body = packed(shorter)
            flags |= Flag.CUT
            if len(body) <= MAX_BYTES:
                break
    return framed(kind, flags, body, compressed=compressed)


def packed(record: Any) -> tuple[int, bytes]:
    """Return a record, or plain values that hold some, as MessagePack."""
    try:
        return 0, _ENCODER.encode(record)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        pass
    try:
        return Flag.ESCAPED, _ENCODER.encode(_escaped(record))
    except RecursionError:
        if not isinstance(record, Interaction | Report):
            raise
        # Only metadata can be nested so deeply, or contain itself.
        return Flag.ESCAPED | Flag.CUT, _ENCODER.encode(_escaped(without_metadata(record)))


def decoded(kind: Kind, data: bytes, shape: Any) -> Any:
    """Return a value of this shape. Raises as `decode`."""
    flags, body = unframed(data, kind)
    try:
        if flags & Flag.ESCAPED:
            return msgspec.convert(_untyped(body), shape)
        return _decoder(shape).decode(body)
    # Beside the library's own: what a text, a key of a map or a depth can be wrong in.
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise WireError(f"a record cannot be read: {error}"[:300]) from None


def _escaped(value: Any) -> Any:
    """Return a record as plain values, with extension types where MessagePack has no value."""
    if isinstance(value, str):
        return _escaped_text(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return _escaped_integer(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_escaped(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _escaped(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        keys = [_escaped_text(str(key)) for key in value]
        pairs = list(zip(keys, map(_escaped, value.values()), strict=True))
        if all(isinstance(key, str) for key in keys):
            return dict(pairs)
        # An extension is no key of a map.
        return msgspec.msgpack.Ext(_PAIRS, _ENCODER.encode(pairs))
    return value


def _escaped_integer(value: int) -> Any:
    length = value.bit_length() // 8 + 1
    if length > MAX_INTEGER_BYTES:
        return f"an integer of {value.bit_length()} bits"
    return msgspec.msgpack.Ext(_INTEGER, value.to_bytes(length, signed=True))


def _escaped_text(text: str) -> Any:
    try:
        text.encode()
    except UnicodeEncodeError:
        return msgspec.msgpack.Ext(_TEXT, text.encode("utf-8", "surrogatepass"))
    return str.__str__(text)


def _extension(code: int, content: memoryview) -> Any:
    """Return the value of an extension type. Raises `ValueError`."""
    if code == _TEXT:
        return str(content, "utf-8", "surrogatepass")
    if code == _INTEGER and len(content) <= MAX_INTEGER_BYTES:
        return int.from_bytes(content, signed=True)
    if code == _PAIRS:
        return dict(_untyped(content))
    raise ValueError(f"an unknown extension type {code}")


def _foreign(value: Any) -> Any:
    """Return what stands for an object of the application's own class."""
    try:
        if isinstance(value, str):  # of a class of its own, such as a parser's
            return str.__str__(value)
        if isinstance(value, Mapping):
            return {str(key): each for key, each in value.items()}
        if isinstance(value, int):
            return int(value)
        if isinstance(value, Real):
            return float(value)
        return str(value)[:MAX_FOREIGN_CHARACTERS]
    except Exception:  # noqa: BLE001 - anybody's methods; the type is what is left to say
        return type(value).__name__


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_foreign)
_UNTYPED: Final = msgspec.msgpack.Decoder(ext_hook=_extension)


def _untyped(body: bytes | memoryview) -> Any:
    return _UNTYPED.decode(body)


@cache
def _decoder(shape: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(shape, ext_hook=_extension)


class Evaluated(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A `Scored` or an `Unscored`: only one of them has a cause."""

    evaluator: str
    judge: JudgeIdentity
    score: float | None = None
    explanation: str = ""
    cause: Cause | None = None
    detail: str = ""

    def evaluation(self) -> Scored | Unscored:
        """Return the one that it is. Raises `ValueError`: it is neither."""
        name, judge = self.evaluator, self.judge
        if self.cause is not None:
            return Unscored(evaluator=name, judge=judge, cause=self.cause, detail=self.detail)
        if self.score is None:
            raise ValueError("an evaluation has neither a score nor a cause")
        return Scored(evaluator=name, judge=judge, score=self.score, explanation=self.explanation)


@cache
def report_shape(*, has_interaction: bool) -> type[msgspec.Struct]:
    """Return `Report` with evaluations of one type, since the library tells no two apart."""
    hints = get_type_hints(Report) | {"evaluations": tuple[Evaluated, ...]}
    members: list[Any] = [
        (each.name, hints[each.name], *(() if each.default is MISSING else (each.default,)))
        for each in fields(Report)
        if has_interaction or each.name != "interaction"
    ]
    return msgspec.defstruct("_Report", members, kw_only=True)


def report_of(read: msgspec.Struct, **known: Any) -> Report:
    """Return the report of such a value. Raises `ValueError`: an evaluation is none."""
    values = asdict(read) | known
    values["evaluations"] = tuple([each.evaluation() for each in values["evaluations"]])
    return Report(**values)
