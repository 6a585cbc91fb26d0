"""Laws of records as bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ragmonitor.records import Interaction
from ragmonitor.runtime.errors import WireError
from ragmonitor.runtime.wire import decode, encode
from tests.support.wire_records import interactions, is_same


@given(interactions)
def test_a_record_comes_back_equal(interaction: Interaction):
    """Every field, whatever it holds."""
    assert is_same(decode(encode(interaction)), interaction)


def read(data: bytes) -> Any:
    """Return the record; None where it is refused by the one error there is."""
    try:
        return decode(data)
    except WireError:
        return None


@given(interactions, st.data())
def test_what_is_cut_off_is_refused(interaction: Interaction, data):
    """No beginning of a record passes for one."""
    whole = encode(interaction)
    assert read(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


@given(interactions, st.data())
def test_damaged_bytes_are_read_or_refused(interaction: Interaction, data):
    """Changed bytes give a record of the declared types, or `WireError`; nothing else."""
    damaged = bytearray(encode(interaction))
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)):
        damaged[place] ^= data.draw(st.integers(1, 255))
    found = read(bytes(damaged))
    assert found is None or decode(encode(found)).id == found.id


@given(st.integers(0, 255), st.binary(max_size=200))
@example(0, b"\x91" * 100_000)
@example(0, b"\x81\xa6chunks\xdd\xff\xff\xff\xff")
def test_any_bytes_are_read_or_refused(flags: int, body: bytes):
    """Whatever follows a header: claims of more than there is, depths, extension types."""
    header = bytearray(b"\xc1i\x01\x00")
    header[3] = flags
    assert read(bytes(header) + body) is None


@given(st.binary(max_size=20))
def test_bytes_of_others_are_refused(data: bytes):
    """What has no header of ours is no record."""
    assert read(data) is None
