"""What is decided of an answer, and of a stream, before it is seen."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.answer_checks import AnswerChecks, GuardedPiece
from ragmonitor.errors import JudgeError
from ragmonitor.records import Cause, Chunk, Severity, Verdict

CHUNKS = ("Shipping to Berlin takes 2 days. Parcels may be returned within 30 days.",)
GOOD = "Shipping to Berlin takes 2 days."
BAD = "Parcels may be returned within 90 days."


def checks(noted: list[tuple[str, str]] | None = None) -> AnswerChecks:
    """Return checks that note what they decide."""
    found: list[tuple[str, str]] = [] if noted is None else noted
    return AnswerChecks(
        min_severity=Severity.MAJOR,
        note=lambda of, outcome: found.append((of, outcome)),
    )


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


def test_an_answer_is_checked():
    """A sentence that a chunk contradicts is found; what was decided is noted."""
    noted: list[tuple[str, str]] = []
    by = checks(noted)
    assert by.check(GOOD, [Chunk(text=CHUNKS[0])], "").hallucinated is False
    found = by.check(f"{GOOD} {BAD}", CHUNKS, "How long do returns take?")
    assert found.hallucinated
    assert [each.verdict for each in found.counted_findings] == [Verdict.CONTRADICTED]
    by.check("Hello!", CHUNKS, "")
    assert noted == [("answer", "fine"), ("answer", "flagged"), ("answer", "no_claim")]


@pytest.mark.parametrize("answer", ["", None, 7, b"bytes", object(), "\ud800", ["a", "b"]])
@pytest.mark.parametrize("chunks", [(), None, "one text", [None, 3, object()], iter(()), {"a": 1}])
def test_odd_input_raises_nothing(answer: object, chunks: object):
    """Whatever is passed there is an assessment."""
    checks().check(answer, chunks, None)  # type: ignore[arg-type]


def test_texts_that_are_too_long_say_so():
    """That is the one error that is raised, and it is noted."""
    noted: list[tuple[str, str]] = []
    with pytest.raises(JudgeError) as raised:
        checks(noted).check("word " * 50_000, CHUNKS, "")
    assert raised.value.cause is Cause.TOO_LONG
    assert noted == [("answer", "unread")]


def test_a_stream_is_judged_by_sentences():
    """Each sentence comes with its verdict as soon as it has ended, and not before."""
    noted: list[tuple[str, str]] = []
    found = guarded(
        [
            "Shipping to Ber",
            "lin takes 2 days. Par",
            "cels may be ",
            "returned within 90",
            " days.",
        ],
        by=checks(noted),
    )
    assert [each.text for each in found] == [f"{GOOD} ", BAD]
    assert [len(each.findings) for each in found] == [0, 1]
    assert found[1].findings[0].words == ("90",)
    assert noted == [("sentence", "fine"), ("sentence", "flagged")]


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(alphabet="ab .!?。！\n12中文", max_size=120),
    cuts=st.lists(st.integers(0, 120), max_size=12),
)
def test_the_pieces_are_the_stream(text: str, cuts: list[int]):
    """Nothing is lost, added or put in another order, wherever the stream is cut."""
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    stream = [text[a:b] for a, b in pairwise(places)]
    assert "".join(each.text for each in guarded(stream)) == text


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


def test_to_stop_reading_closes_a_stream_of_any_kind():
    """A generator that is not asynchronous, and an iterator that is none but can be closed."""
    is_closed = []

    def endless() -> Iterator[str]:
        try:
            while True:
                yield f"{BAD} "
        finally:
            is_closed.append("generator")

    class Client:
        def __aiter__(self) -> AsyncIterator[str]:
            return self

        async def __anext__(self) -> str:
            return f"{BAD} "

        async def aclose(self) -> None:
            is_closed.append("client")

    async def stop(stream: Iterator[str] | AsyncIterable[str]) -> None:
        pieces = checks().guarded(stream, CHUNKS, "")
        await anext(pieces)
        await pieces.aclose()

    held = endless()  # else it would be closed as garbage
    asyncio.run(stop(held))
    asyncio.run(stop(Client()))
    assert is_closed == ["generator", "client"]


def test_what_the_stream_raises_comes_through():
    """After the pieces that came before."""

    async def broken() -> AsyncIterator[str]:
        yield f"{GOOD} And"
        raise ValueError("the model is gone")

    async def read() -> list[GuardedPiece]:
        stream = checks().guarded(broken(), CHUNKS, "")
        first = await anext(stream)
        with pytest.raises(ValueError, match="the model is gone"):
            await anext(stream)
        return [first]

    assert [each.text for each in asyncio.run(read())] == [f"{GOOD} "]


def test_a_plain_iterator_is_a_stream_too():
    """As of a client that is not asynchronous."""

    async def read() -> list[str]:
        return [each.text async for each in checks().guarded(iter([GOOD]), CHUNKS, "")]

    assert asyncio.run(read()) == [GOOD]
