"""Everything that reads what others wrote: it refuses as documented, in time proportional to size.

`make fuzz` does for hours what the first test does for a moment.
"""

import pytest

from tests.reliability.fuzz import turn
from tests.reliability.parsers import check, parsers, remembered
from tests.support.hostile_texts import WRITERS
from tests.support.timing import grows_at_most

PARSERS = parsers()
SMALL, BIG = 25_000, 200_000
"""Bytes: eight times the text."""
LINEAR = 24.0
"""Most that eight times the text may take of CPU time; quadratic work takes 64 times."""
LEAST_S = 2e-3
"""A text that takes less says nothing of how time grows."""


@pytest.mark.parametrize("name", PARSERS)
def test_inputs_that_found_a_defect_find_none(name: str):
    """Each was an exception that no documentation named, or took too long."""
    for data in remembered(name):
        check(PARSERS[name], data)


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_changed_examples_are_read_or_refused(name: str):
    """Cut, doubled, joined, spoiled: nothing but the documented errors, and in time."""
    assert turn(PARSERS[name], 1, 1_000, PARSERS[name].examples) is None


def repeated(piece: bytes, size: int, before: bytes = b"", after: bytes = b"") -> bytes:
    """Return a piece again and again, between the two halves of an example."""
    room = max(0, size - len(before) - len(after))
    return before + piece * (room // max(1, len(piece))) + after


def hostile(name: str):
    """Yield functions from a size to an input: every piece repeated, alone and in an example."""
    parser = PARSERS[name]
    for piece in (*parser.pieces, *parser.examples, *PAIRS):
        yield piece, lambda size, piece=piece: repeated(piece, size)
        example = parser.examples[0]
        at = len(example) // 2
        yield (
            piece,
            lambda size, piece=piece, example=example, at=at: repeated(
                piece, size, example[:at], example[at:]
            ),
        )
    if name in ("judge reply", "redaction", "span"):
        for kind, writer in [*WRITERS.items()][::3]:
            yield kind.encode(), lambda size, writer=writer: written(writer, size)


PAIRS = (b'{"a":', b"[[", b'","', b"a,", b"a\n", b"\\\\", b'"\\"', b"a=b ", b"a b", b"<a", b"''")


def written(writer, size: int) -> bytes:
    """Return the pieces of a writer of hostile texts."""
    pieces, length = [], 0
    while length < size:
        pieces.append(writer(len(pieces)).encode("utf-8", "replace"))
        length += len(pieces[-1])
    return b"".join(pieces)[:size]


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_time_grows_in_proportion_to_the_input(name: str):
    """Up to 200 kB, whatever is repeated in it."""
    parser = PARSERS[name]

    def read(text: str) -> None:
        check(parser, text.encode("latin-1"))

    for piece, made in hostile(name):
        small, big = (made(size).decode("latin-1") for size in (SMALL, BIG))
        assert grows_at_most(LINEAR, read, small, big, least_s=LEAST_S), piece
