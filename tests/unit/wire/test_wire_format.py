"""Versions, limits and fallbacks of records as bytes."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields, replace
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Probe,
    Retrieval,
    SpanReference,
    Usage,
)
from ragmonitor.runtime.errors import WireError
from ragmonitor.runtime.feedback import Feedback, feedback_of
from ragmonitor.runtime.wire import (
    MAX_BYTES,
    VERSION,
    decode,
    decode_message,
    encode,
    encode_message,
)

RECORDED = Path(__file__).parent / "interaction-version-1.hex"
CHUNKS = (
    Chunk(text="The tower is 300 m tall.", id="a", score=0.75, metadata={"page": 3, "tags": ["x"]}),
    Chunk(text="塔高三百米。", id="b"),
)
TOWER = Interaction(
    id="0af7651916cd43dd8448eb211c80319c",
    query="How tall is the tower?",
    chunks=CHUNKS,
    not_shown=(Chunk(text="It is painted."),),
    answer="It is 300 m tall.",
    reference="300 m",
    reference_chunks=CHUNKS[:1],
    framework="langchain",
    started_ns=1_700_000_000_000_000_000,
    ended_ns=1_700_000_001_500_000_000,
    name="tower",
    status="partial",
    error="TimeoutError: 3 s",
    retrievals=(
        Retrieval(query="tower", chunks=CHUNKS, started_ns=1, ended_ns=2, name="r", error="e"),
    ),
    generations=(
        Generation(
            output="It is 300 m tall.",
            started_ns=3,
            ended_ns=4,
            input=(Message(role="user", text="…"),),
            model="m",
            provider="p",
            usage=Usage(input_tokens=12, output_tokens=7),
            error="e",
            first_token_ns=3,
            finish_reason="stop",
        ),
    ),
    usage=Usage(input_tokens=12, output_tokens=7),
    caller=SpanReference(trace_id="0" * 31 + "1", span_id="0" * 15 + "1", trace_state="a=b"),
    target=SpanReference(trace_id="0" * 31 + "2", span_id="0" * 15 + "2", sampled=False),
    session_id="s",
    user_id="u",
    tags=("t",),
    attributes={"route": "towers"},
    capture_incomplete=True,
    redacted=2,
    probe=Probe(golden="g", outcome="answered", expects_refusal=True, knows_chunks=False),
    first_token_ns=1_700_000_000_500_000_000,
)


def rewritten(data: bytes, change: Any) -> bytes:
    """Return the bytes of a record whose fields `change` has changed in place."""
    plain = msgspec.msgpack.decode(data[4:])
    change(plain)
    return data[:4] + msgspec.msgpack.encode(plain)


def recorded() -> bytes:
    return bytes.fromhex(RECORDED.read_text())


def test_every_field_is_in_the_recorded_bytes():
    """The record of the file has no default anywhere, so that no field can be lost unseen."""
    for of in (TOWER, TOWER.retrievals[0], TOWER.generations[0], TOWER.chunks[0]):
        plain = type(of)(**{each.name: getattr(of, each.name) for each in fields(of)})
        defaults = [each.name for each in fields(of) if getattr(plain, each.name) == each.default]
        assert defaults == []


def test_bytes_of_version_1_are_read():
    """What the first version wrote is read, field by field."""
    assert decode(recorded()) == TOWER


def add_fields(plain: Any) -> None:
    plain["mood"] = {"kind": ["new"]}
    plain["chunks"][0]["page"] = 3
    plain["retrievals"][0]["chunks"][0]["page"] = 3


@pytest.mark.parametrize("version", [VERSION, VERSION + 1])
def test_unknown_fields_are_skipped(version: int):
    """A newer release may write fields of which this one knows nothing, at any depth."""
    data = bytearray(rewritten(encode(TOWER), add_fields))
    data[2] = version
    assert decode(bytes(data)) == TOWER


def test_missing_fields_have_their_defaults():
    """An older release may not know the newest fields."""
    data = rewritten(encode(TOWER), lambda plain: plain.pop("redacted"))
    assert decode(data) == replace(TOWER, redacted=0)


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain.pop("id"),
        lambda plain: plain.update(query=3),
        lambda plain: plain.update(status="gone"),
        lambda plain: plain.update(chunks=[None]),
        lambda plain: plain.update(attributes={"a": 1}),
        lambda plain: plain.update(started_ns="now"),
    ],
)
def test_a_field_of_another_type_is_refused(change: Any):
    """A record that is read has its declared types."""
    with pytest.raises(WireError):
        decode(rewritten(encode(TOWER), change))


def test_a_record_that_is_too_long_is_refused():
    """By who writes it: it is counted there, and not cut."""
    with pytest.raises(WireError, match="the limit is"):
        encode(replace(TOWER, answer="x" * MAX_BYTES))


def test_a_class_of_the_application_s_own_does_not_travel():
    """Of an enumeration that no other process can import its text and number do."""

    class Kind(StrEnum):
        STARS = "stars"

    class Thumb(IntEnum):
        UP = 1

    given = feedback_of("a1", Thumb.UP, kind=Kind.STARS, at_s=1.0)
    _, (read,) = decode_message(encode_message("feedback", given), Feedback)
    assert (type(read.kind), read.kind, read.score) == (str, "stars", 1.0)


@pytest.mark.parametrize("metadata", [{"hash": 2**70}, {"half": "\ud800"}, {"own": object()}])
def test_a_record_that_cannot_be_written_is_refused(metadata: dict[str, Any]):
    """Capture lets none through; another part's own fails alone and is counted."""
    with pytest.raises(WireError, match="cannot be written"):
        encode(replace(TOWER, chunks=(Chunk(text="a", metadata=metadata),)))


def test_hostile_bytes_take_bounded_memory():
    """The most that as many bytes as are read can ask for is known, and refused or freed."""
    maps = MAX_BYTES - 4_096
    body = (
        msgspec.msgpack.encode({"metadata": 0})[:-1] + b"\xdd" + maps.to_bytes(4) + b"\x80" * maps
    )
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decode(encode(TOWER)[:4] + body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * MAX_BYTES


@pytest.mark.parametrize("version", [0, VERSION + 2, 255])
def test_other_versions_are_refused(version: int):
    """More than one version away, fields may mean something else."""
    data = bytearray(encode(TOWER))
    data[2] = version
    with pytest.raises(WireError, match="version"):
        decode(bytes(data))
