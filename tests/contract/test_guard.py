"""Answers are judged before anybody sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from ragmonitor import JudgeError, Monitor

CHUNKS = ["Parcels may be returned within 30 days.", "保修期为两年。"]
GOOD = "Parcels may be returned within 30 days."
BAD = "Parcels may be returned within 90 days."


@pytest.fixture(scope="module")
def monitor() -> Iterator[Monitor]:
    """Build a monitor that serves nothing."""
    with Monitor(service="contract-guard", server=False) as monitor:
        yield monitor


def test_a_whole_answer_is_checked(monitor: Monitor) -> None:
    """The assessment says whether it is hallucinated, where, and what the words are."""
    fine = monitor.check(GOOD, CHUNKS, "How long do returns take?")
    assert fine.hallucinated is False
    found = monitor.check(f"{GOOD} {BAD}", CHUNKS, "How long do returns take?")
    assert found.hallucinated
    (sentence,) = found.counted_findings
    assert (sentence.text, sentence.words, sentence.chunks) == (BAD, ("90",), (0,))
    assert found.risk is not None
    assert fine.risk is not None
    assert found.risk > fine.risk


@pytest.mark.parametrize("answer", ["", "   ", "I don't know.", "Thank you!", "\x00\ud800", "???"])
def test_there_is_always_an_assessment(monitor: Monitor, answer: str) -> None:
    """Whatever is passed; where nothing is claimed there is nothing to say."""
    assert monitor.check(answer, CHUNKS).hallucinated is None
    assert monitor.check(answer, []).hallucinated is None


def test_what_is_too_long_raises_one_error(monitor: Monitor) -> None:
    """Nothing else is raised."""
    with pytest.raises(JudgeError) as caught:
        monitor.check(GOOD, ["A parcel is a parcel. " * 10_000])
    assert caught.value.cause == "too_long"


async def pieces(text: str, size: int) -> AsyncIterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_comes_sentence_by_sentence_each_judged(monitor: Monitor, size: int) -> None:
    """The texts together are the stream, to the letter; findings stand with their sentence."""
    text = f"  {GOOD}  {BAD}\n\n保修期为两年。保修期为五年。 Thank you!"

    async def read() -> list[tuple[str, list[str]]]:
        guarded = monitor.guarded(pieces(text, size), CHUNKS, "How long?")
        return [(each.text, [s.text for s in each.findings]) async for each in guarded]

    told = asyncio.run(read())
    assert "".join(text for text, _ in told) == text
    assert [finding for _, findings in told for finding in findings] == [BAD, "保修期为五年。"]
    assert all(finding in text for text, findings in told for finding in findings)


def test_a_sentence_is_shown_when_it_has_ended_and_not_before(monitor: Monitor) -> None:
    """It is not held back until the whole answer has ended, either."""
    log: list[str] = []

    async def stream() -> AsyncIterator[str]:
        for piece in (
            "Parcels may be ",
            "returned within 90 days. ",
            f"{GOOD} ",
            f"{GOOD} ",
            "Bye!",
        ):
            log.append(f"said {piece.strip()}")
            yield piece

    async def read() -> None:
        async for each in monitor.guarded(stream(), CHUNKS):
            log.append(f"shown {each.text.strip()}")

    asyncio.run(read())
    shown = log.index(f"shown {BAD}")
    assert log.index("said returned within 90 days.") < shown < log.index("said Bye!")


def test_an_error_of_the_stream_is_raised_where_it_occurs(monitor: Monitor) -> None:
    """What came before is shown."""

    async def stream() -> AsyncIterator[str]:
        yield f"{GOOD} {GOOD} {BAD} "
        raise OSError("the model is gone")

    shown: list[str] = []

    async def read() -> None:
        async for each in monitor.guarded(stream(), CHUNKS):
            shown.append(each.text)

    with pytest.raises(OSError, match="the model is gone"):
        asyncio.run(read())
    assert "".join(shown).startswith(GOOD)
