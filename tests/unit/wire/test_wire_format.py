"""Versions, limits and fallbacks of records as bytes."""

from __future__ import annotations

import datetime as dt
import decimal
import sys
import tracemalloc
import types
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ragmonitor.errors import MissingExtraError, WireError
from ragmonitor.feedback import feedback_of
from ragmonitor.records import (
    Assessment,
    Cause,
    Chunk,
    Generation,
    Interaction,
    JudgeIdentity,
    Message,
    Probe,
    Report,
    Retrieval,
    Scored,
    SentenceVerdict,
    Severity,
    SpanReference,
    Unscored,
    Usage,
    Verdict,
)
from ragmonitor.wire import (
    MAX_BYTES,
    VERSION,
    decode,
    decode_feedback,
    decode_report,
    encode,
    encode_feedback,
    encode_report,
    frames,
    is_kind,
    was_cut,
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
JUDGE = JudgeIdentity(name="builtin", version="1", kind="CODE")
REPORT = Report(
    interaction=TOWER,
    judge=JUDGE,
    evaluations=(
        Scored(evaluator="faithfulness@1", judge=JUDGE, score=1.0),
        Unscored(evaluator="answer_relevancy@1", judge=JUDGE, cause=Cause.NO_QUERY, detail="d"),
    ),
    assessment=Assessment(
        judge=JUDGE,
        language="en",
        sentences=(
            SentenceVerdict(
                text="It is 300 m tall.",
                start=0,
                end=17,
                verdict=Verdict.ABSENT,
                severity=Severity.MINOR,
            ),
        ),
        answer_relevancy=None,
        evasive=False,
        chunk_relevance=(1.0, 0.5),
    ),
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


def test_version_1_is_what_is_written():
    """The bytes of a record change only with the version."""
    assert encode(TOWER) == recorded()


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


@pytest.mark.parametrize("version", [0, VERSION + 2, 255])
def test_other_versions_are_refused(version: int):
    """More than one version away, fields may mean something else."""
    data = bytearray(encode(TOWER))
    data[2] = version
    with pytest.raises(WireError, match="version"):
        decode(bytes(data))


def test_an_unknown_flag_is_refused():
    """A reader that does not know a flag cannot read what it announces."""
    data = bytearray(encode(TOWER))
    data[3] |= 128
    with pytest.raises(WireError, match="flag"):
        decode(bytes(data))


def test_a_report_is_no_interaction():
    """The header says what the bytes are."""
    with pytest.raises(WireError, match="another kind"):
        decode(encode_report(REPORT))
    with pytest.raises(WireError, match="another kind"):
        decode_report(encode(TOWER))


def test_a_report_comes_back():
    """With scored and unscored evaluations in their order."""
    assert decode_report(encode_report(REPORT)) == REPORT


def test_an_evaluation_of_neither_kind_is_refused():
    """It has a score or a cause."""
    data = rewritten(encode_report(REPORT), lambda plain: plain["evaluations"][0].pop("score"))
    with pytest.raises(WireError, match="neither"):
        decode_report(data)


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


class Text(str):
    __slots__ = ()


class Broken:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ((1, (2,)), [1, [2]]),
        ({3}, [3]),
        (Text("text"), "text"),
        (decimal.Decimal("1.50"), "1.50"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (types.MappingProxyType({"a": Text("b")}), {"a": "b"}),
        (bytearray(b"b"), b"b"),
        (complex(1, 2), "(1+2j)"),
        (Broken(), "Broken"),
        (2**5000, "an integer of 5001 bits"),
        ([Text("\ud800"), (2**70,), {"\ud800": {1}}], ["\ud800", [2**70], {"\ud800": [1]}]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_bytes_of_its_own_is_written_readably(value: Any, read: Any):
    """In metadata, beside which nothing is lost."""
    chunk = Chunk(text="t", metadata={"odd": value, "page": 3})
    found = decode(encode(replace(TOWER, chunks=(chunk,))))
    assert found == replace(TOWER, chunks=(Chunk(text="t", metadata={"odd": read, "page": 3}),))


def test_a_text_of_a_class_of_its_own_is_whole():
    """It does not stand for itself by the beginning of what it prints as, like an object."""
    long = Text("It is 300 m tall. " * 1_000)
    record = replace(TOWER, answer=long, chunks=(Chunk(text=long, metadata={"page": long}),))
    assert decode(encode(record)) == record


@pytest.mark.parametrize("text", ["plain", "\ud800"])
def test_metadata_that_contains_itself_is_left_out(text: str):
    """The record goes on without metadata, and says that it was cut."""
    ring: list[Any] = [text]
    ring.append(ring)
    data = encode(replace(TOWER, chunks=(Chunk(text="t", metadata={"ring": ring}),)))
    assert was_cut(data)
    assert decode(data).chunks == (Chunk(text="t"),)


MEGABYTE = "x" * 2**20


@pytest.mark.parametrize(
    ("long", "kept"),
    [
        (
            replace(
                TOWER,
                generations=(
                    replace(TOWER.generations[0], input=(Message(role="user", text=4 * MEGABYTE),)),
                ),
            ),
            ("query", "answer", "not_shown", "caller", "attributes", "capture_incomplete"),
        ),
        (
            replace(
                TOWER,
                capture_incomplete=False,
                not_shown=(Chunk(text=4 * MEGABYTE),),
                chunks=(Chunk(text=3 * MEGABYTE),),
            ),
            ("query", "answer", "chunks", "caller", "attributes", "capture_incomplete"),
        ),
        (
            replace(TOWER, answer=5 * MEGABYTE),
            ("id", "query", "status", "usage", "caller", "target", "attributes", "tags"),
        ),
    ],
    ids=["prompt", "not shown", "answer"],
)
def test_what_no_score_rests_on_is_cut_first(long: Interaction, kept: tuple[str, ...]):
    """Prompts and metadata, then texts that the model did not see, then all beginnings only."""
    data = encode(long)
    found = decode(data)
    assert len(data) <= MAX_BYTES + 4
    assert was_cut(data)
    assert [getattr(found, name) for name in kept] == [getattr(long, name) for name in kept]


def test_what_a_score_rests_on_is_never_cut_silently():
    """Where question, chunks or answer had to be cut, the record is incomplete."""
    found = decode(encode(replace(TOWER, answer=5 * MEGABYTE, capture_incomplete=False)))
    assert found.capture_incomplete
    assert found.answer == "x" * 100_000


def test_a_long_report_loses_its_assessment_last():
    """Its evaluations stay."""
    data = encode_report(replace(REPORT, interaction=replace(TOWER, answer=5 * MEGABYTE)))
    found = decode_report(data)
    assert was_cut(data)
    assert found.evaluations == REPORT.evaluations
    assert found.assessment is None
    shorter = encode_report(
        replace(REPORT, interaction=replace(TOWER, not_shown=(Chunk(text=5 * MEGABYTE),)))
    )
    assert decode_report(shorter).assessment == REPORT.assessment


def test_the_shortest_form_of_everything_fits():
    """Every text, label and list as long as it likes, of characters that take three bytes."""
    text, labels = "\ud800" * 300_000, {"\ud800" * 600 + str(n): "词" * 9_999 for n in range(300)}
    chunks = tuple(Chunk(text=text[:20_000], id=text[:600]) for _ in range(300))
    everything = replace(
        TOWER,
        query=text,
        answer=text,
        reference=text,
        chunks=chunks,
        not_shown=chunks,
        name=text,
        error=text,
        session_id=text,
        user_id=text,
        tags=tuple(labels),
        attributes=labels,
        caller=replace(TOWER.target, trace_state=text),
    )
    data = encode(everything)
    assert len(data) <= MAX_BYTES + 4
    assert decode(data).id == TOWER.id


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


def test_compression_without_its_library_says_what_to_install(monkeypatch):
    """Writing and reading name the extra."""
    data = encode(TOWER, compressed=True)
    frames._codecs.cache_clear()
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"ragmonitor\[zstd\]"):
        encode(TOWER, compressed=True)
    with pytest.raises(MissingExtraError, match=r"ragmonitor\[zstd\]"):
        decode(data)


def test_feedback_comes_back_equal_and_is_no_interaction():
    """Also with a lone surrogate in the comment, as a browser may send one."""
    told = feedback_of("a" * 32, False, comment="wrong \ud800", kind="stars", at_s=1.5)
    data = encode_feedback(told, compressed=True)
    assert decode_feedback(data) == told
    assert is_kind(data, b"f")
    with pytest.raises(WireError):
        decode(data)
    with pytest.raises(WireError):
        decode_feedback(encode(TOWER))
