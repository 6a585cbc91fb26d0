"""Laws of records as bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragmonitor.records import Interaction, Report
from ragmonitor.runtime.errors import WireError
from ragmonitor.runtime.wire import MAX_BYTES, decode, decode_report, encode, encode_report
from ragmonitor.runtime.wire.frames import COMPRESSED, framed
from tests.support.wire_records import interactions, is_same, reports


@given(interactions, st.booleans())
def test_a_record_comes_back_equal(interaction: Interaction, compressed: bool):
    """Every field, whatever it holds, with and without compression."""
    assert is_same(decode(encode(interaction, compressed=compressed)), interaction)


@given(reports, st.booleans())
def test_a_report_comes_back_equal(report: Report, compressed: bool):
    """With its interaction, its assessment and its evaluations in order."""
    assert is_same(decode_report(encode_report(report, compressed=compressed)), report)


def read(data: bytes) -> Any:
    """Return the record; None where it is refused by the one error there is."""
    try:
        return decode(data)
    except WireError:
        return None


@given(interactions, st.booleans(), st.data())
def test_what_is_cut_off_is_refused(interaction: Interaction, compressed: bool, data):
    """No beginning of a record passes for one."""
    whole = encode(interaction, compressed=compressed)
    assert read(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


@given(interactions, st.booleans(), st.data())
def test_damaged_bytes_are_read_or_refused(interaction: Interaction, compressed: bool, data):
    """Changed bytes give a record of the declared types, or `WireError`; nothing else."""
    damaged = bytearray(encode(interaction, compressed=compressed))
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)):
        damaged[place] ^= data.draw(st.integers(1, 255))
    found = read(bytes(damaged))
    assert found is None or decode(encode(found)).id == found.id


@given(st.integers(0, 255), st.binary(max_size=200))
@example(0, b"\x91" * 100_000)
@example(0, b"\x81\xa6chunks\xdd\xff\xff\xff\xff")
def test_any_bytes_are_read_or_refused(flags: int, body: bytes):
    """Whatever follows a header: claims of more than there is, depths, extension types."""
    header = bytearray(framed(b"i", b"", compressed=False))
    header[3] = flags
    assert read(bytes(header) + body) is None


@given(st.binary(max_size=20))
def test_bytes_of_others_are_refused(data: bytes):
    """What has no header of ours is no record."""
    assert read(data) is None


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "undeclared"])
def test_a_decompression_bomb_is_refused(declared: bool):
    """A frame of more than the limit is not unpacked, whether or not it says how long it is."""
    import zstandard

    compressor = zstandard.ZstdCompressor(write_content_size=declared)
    bomb = compressor.compress(b"\x00" * (64 * MAX_BYTES))
    with pytest.raises(WireError):
        decode(bytes((0xC1, ord("i"), 1, COMPRESSED)) + bomb)
