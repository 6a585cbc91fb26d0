"""The built-in judge before an answer is seen: of a whole answer, or of a stream by sentences."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ragmonitor.capture.coercion import sound, text_in
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.judges.sentences import spans
from ragmonitor.records import Assessment, Interaction, SentenceVerdict
from ragmonitor.runtime.errors import JudgeError
from ragmonitor.runtime.guard import shielded

CheckOutcome = Literal["fine", "flagged", "no_claim", "unread"]
"""The outcome of a check: `flagged` where a finding counts, `no_claim` where nothing is asserted,
`unread` where the texts are too long to be read."""

MAX_HELD: Final = 4_000
"""Characters of a stream that are held back at most while a sentence does not end."""
_ENDS: Final = frozenset(".!?。！？…\n")
"""A sentence may have ended where one of these came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedPiece:
    """A piece of a stream that was judged before it is shown: a sentence, with what follows it."""

    text: str
    """The text as it came: the texts of all pieces together are the stream."""
    sentences: tuple[SentenceVerdict, ...] = ()
    """The verdicts on its sentences; offsets are those in `text`. Empty: it could not be read."""
    findings: tuple[SentenceVerdict, ...] = ()
    """Those that are absent from the chunks or contradicted by them, and severe enough to count."""


class AnswerChecks:
    """Has the built-in judge read answers in the caller's own thread."""

    def __init__(self, *, note: Callable[[str, CheckOutcome], None]) -> None:
        """Begin.

        Args:
            note: Counts a decision: `answer` or `sentence`, and what it came to.
        """
        self._judge = BuiltinJudge()
        self._note = note

    def check(self, answer: str, chunks: Iterable[Any], question: str) -> Assessment:
        """Return the assessment of an answer; as `Monitor.check`."""
        return self._read("answer", answer, self._prepared(chunks, question))

    async def guarded(
        self, stream: AsyncIterable[str] | Iterable[str], chunks: Iterable[Any], question: str
    ) -> AsyncGenerator[GuardedPiece, None]:
        """Yield the pieces of a stream, judged; as `Monitor.guarded`."""
        asked = self._prepared(chunks, question)
        held = ""
        # Whoever stops to read stops the model, too.
        async with aclosing(_pieces(stream)) as pieces:
            async for piece in pieces:
                text = piece if type(piece) is str else text_in(piece) or ""
                held += text
                if _ENDS.isdisjoint(text) and len(held) <= MAX_HELD:
                    continue
                at = _end_of_whole_sentences(held)
                if not at and len(held) > MAX_HELD:
                    at = len(held)
                if at:
                    yield self._judged(held[:at], asked)
                    held = held[at:]
            if held:
                yield self._judged(held, asked)

    def _prepared(self, chunks: Iterable[Any], question: str) -> Interaction:
        as_passed: Any = chunks
        return sound(
            Interaction(
                id="check",
                query=question,
                chunks=as_passed,
                answer="",
                framework="python",
                started_ns=0,
                ended_ns=0,
            )
        )

    def _judged(self, text: str, asked: Interaction) -> GuardedPiece:
        with suppress(JudgeError):  # counted; a stream is not ended by what cannot be read
            assessment = self._read("sentence", text, asked)
            return GuardedPiece(
                text=text,
                sentences=assessment.sentences or (),
                findings=() if assessment.evasive else assessment.counted_findings,
            )
        return GuardedPiece(text=text)

    def _read(self, of: str, answer: Any, asked: Interaction) -> Assessment:
        interaction = replace(asked, answer=text_in(answer) or "")
        outcome: CheckOutcome = "unread"
        try:
            assessment = self._judge.read(interaction)
            bad = assessment.hallucinated
            outcome = "no_claim" if bad is None else "flagged" if bad else "fine"
        finally:
            with shielded("count"):
                self._note(of, outcome)
        return assessment


def _end_of_whole_sentences(text: str) -> int:
    """Return where the last sentence begins that may go on; 0: it is the first."""
    sentences = spans(text)
    return sentences[-1][0] if len(sentences) > 1 else 0


async def _pieces(stream: AsyncIterable[str] | Iterable[str]) -> AsyncGenerator[str, None]:
    """Yield the pieces of either kind of stream, and close it in the end."""
    async with AsyncExitStack() as ends:
        if isinstance(stream, AsyncIterable):
            pieces = aiter(stream)
            if (aclose := getattr(pieces, "aclose", None)) is not None:
                ends.push_async_callback(aclose)
            async for piece in pieces:
                yield piece
        else:
            iterator = iter(stream)
            if (close := getattr(iterator, "close", None)) is not None:
                ends.callback(close)
            for piece in iterator:
                yield piece
