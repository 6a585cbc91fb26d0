"""What is decided of an answer, and of a stream, before it is seen."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from ragmonitor.pipeline.answer_checks import AnswerChecks, GuardedPiece

CHUNKS = ("Shipping to Berlin takes 2 days. Parcels may be returned within 30 days.",)
GOOD = "Shipping to Berlin takes 2 days."
BAD = "Parcels may be returned within 90 days."


def checks(noted: list[tuple[str, str]] | None = None) -> AnswerChecks:
    """Return checks that note what they decide."""
    found: list[tuple[str, str]] = [] if noted is None else noted
    return AnswerChecks(note=lambda of, outcome: found.append((of, outcome)))


def guarded(
    stream: Iterable[str], chunks: Sequence[object] = CHUNKS, by: AnswerChecks | None = None
) -> list[GuardedPiece]:
    """Return all pieces of an asynchronous stream."""

    async def pieces() -> AsyncIterator[str]:
        for piece in stream:
            yield piece

    async def read() -> list[GuardedPiece]:
        return [each async for each in (by or checks()).guarded(pieces(), chunks, "")]

    return asyncio.run(read())


def test_a_sentence_without_an_end_is_not_held_for_ever():
    """It passes once it is longer than what is held back."""
    found = guarded(["word " * 100] * 20)
    assert len(found) > 1
    assert "".join(each.text for each in found) == "word " * 2_000


def test_a_stream_that_cannot_be_read_passes():
    """Without verdicts, and noted as unread."""
    noted: list[tuple[str, str]] = []
    found = guarded([GOOD, " ", BAD], ["word " * 50_000], by=checks(noted))
    assert "".join(each.text for each in found) == f"{GOOD} {BAD}"
    assert not any(each.sentences or each.findings for each in found)
    assert {outcome for _, outcome in noted} == {"unread"}


def test_a_piece_without_a_text_raises_nothing():
    """As the last one of OpenAI's streams, whose content is None: the others are the stream."""
    found = guarded([GOOD, " And", None, 7, object(), " so."])  # type: ignore[list-item]
    assert "".join(each.text for each in found) == f"{GOOD} And7 so."


def test_to_stop_reading_closes_the_stream():
    """The model is not asked for more than somebody reads."""
    is_closed = []

    async def endless() -> AsyncIterator[str]:
        try:
            while True:
                yield f"{BAD} "
        finally:
            is_closed.append(True)

    async def first() -> GuardedPiece:
        stream = checks().guarded(endless(), CHUNKS, "")
        async for piece in stream:
            await stream.aclose()
            return piece
        raise AssertionError

    assert asyncio.run(first()).findings
    assert is_closed == [True]
