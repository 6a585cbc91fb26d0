"""Records as MessagePack: maps by field name, so that readers skip the fields they do not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from numbers import Real
from typing import Any, Final, get_type_hints

import msgspec
from msgspec.structs import asdict

from ragmonitor.records import Cause, Interaction, JudgeIdentity, Report, Scored, Unscored
from ragmonitor.runtime.errors import WireError
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.wire.fitting import fitting
from ragmonitor.runtime.wire.frames import MAX_BYTES, Kind, framed, unframed

MAX_FOREIGN_CHARACTERS: Final = 1_000
"""Characters of the text that stands for an object of the application's own class."""


def encode(interaction: Interaction, *, compressed: bool = False) -> bytes:
    """Return a record as bytes: a header of four, and at most `MAX_BYTES` before compression.

    A record as capture makes it comes back equal, but for halves of characters and integers beyond
    64 bits. A longer record is cut.

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
    return framed(b"f", packed(feedback), compressed=compressed)


def decode_feedback(data: bytes) -> Feedback:
    """Return the feedback of these bytes. Raises as `decode`."""
    feedback: Feedback = decoded(b"f", data, Feedback)
    return feedback


def encode_message(message: Any) -> bytes:
    """Return plain values, or records of simple fields, as bytes."""
    return framed(b"m", packed(message), compressed=False)


def decode_message(data: bytes) -> Any:
    """Return the plain values of these bytes. Raises as `decode`."""
    return decoded(b"m", data, Any)


def _encoded(kind: Kind, record: Interaction | Report, *, compressed: bool) -> bytes:
    body = packed(record)
    if len(body) > MAX_BYTES:
        for shorter in fitting(record.interaction if isinstance(record, Report) else record):
            body = packed(
                replace(record, interaction=shorter, assessment=None)
                if isinstance(record, Report)
                else shorter
            )
            if len(body) <= MAX_BYTES:
                break
    return framed(kind, body, compressed=compressed)


def packed(record: Any) -> bytes:
    """Return a record, or plain values that hold some, as MessagePack."""
    try:
        return _ENCODER.encode(record)
    except (UnicodeEncodeError, OverflowError):
        return _ENCODER.encode(_plain(record))


def decoded(kind: Kind, data: bytes, shape: Any) -> Any:
    """Return a value of this shape. Raises as `decode`."""
    body = unframed(data, kind)
    try:
        return _decoder(shape).decode(body)
    # Beside the library's own: what a text, a key of a map or a depth can be wrong in.
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise WireError(f"a record cannot be read: {error}"[:300]) from None


def _plain(value: Any) -> Any:
    """Return a record as plain values that MessagePack has.

    Half of a character becomes `?`, and an integer beyond 64 bits a text that says so.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {_plain(str(key)): _plain(each) for key, each in value.items()}
    return value


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


@cache
def _decoder(shape: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(shape)


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
