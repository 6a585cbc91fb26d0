"""Long evidence is spread over several calls, and their replies are joined again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Final

from ragmonitor.judges.reply import ParsedReply, worst
from ragmonitor.judges.tokens import CHARACTERS_PER_TOKEN, estimate_tokens
from ragmonitor.records import SentenceVerdict, Severity, Verdict
from ragmonitor.runtime.patterns import lazy_pattern

CHUNK_FRAME_TOKENS: Final = 8
"""Tokens of the number and border of one chunk in the prompt."""
_BREAKS: Final = (
    lazy_pattern(r"\n\s*\n"),
    lazy_pattern(r"\n|[.!?。！？]\s?"),
    lazy_pattern(r"\s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A chunk, or the piece of it that one call takes."""

    position: int
    """The chunk's position, from 0."""
    text: str


def spread(chunks: Sequence[str], *, room_tokens: float) -> list[list[Part]]:
    """Return the chunks in their order, for one call or as many as their length needs.

    Neighbours stay together as far as they fit: a sentence that rests on two chunks can only be
    credited by a call that sees both.

    Args:
        chunks: Texts; shape (n_chunks,).
        room_tokens: Limit for the chunks of one call, by `estimate_tokens`; a longer chunk is cut.
    """
    calls: list[list[Part]] = [[]]
    left = room_tokens
    for position, chunk in enumerate(chunks):
        for text in _cut(chunk, room_tokens - CHUNK_FRAME_TOKENS):
            size = estimate_tokens(text) + CHUNK_FRAME_TOKENS
            if size > left and calls[-1]:
                calls.append([])
                left = room_tokens
            calls[-1].append(Part(position=position, text=text))
            left -= size
    return calls


def join(
    replies: Sequence[ParsedReply], calls: Sequence[Sequence[Part]], *, n_chunks: int
) -> ParsedReply:
    """Return the joined reply; a field that one of the calls left unread is unread.

    A sentence is supported if a call supports it, contradicted if none does and one contradicts
    it. That the chunks lack something is right only if it is right of all of them. Relevancy is
    the calls' mean, evasiveness what most of them say, a cut chunk as relevant as its best part.

    Args:
        replies: One per call; shape (n_calls,).
        calls: The parts that each call was shown; shape (n_calls, parts).
        n_chunks: The number of chunks of the interaction.
    """
    if len(replies) == 1 and len(calls[0]) == n_chunks:
        return replies[0]
    verdicts, best = [], [0.0] * n_chunks
    for reply, parts in zip(replies, calls, strict=True):
        verdicts.append([_moved(each, parts) for each in reply.sentences or ()])
        for part, rating in zip(parts, reply.chunk_relevance or (), strict=False):
            best[part.position] = max(best[part.position], rating)

    def of_all(field: str, joined: Callable[[list[Any]], Any]) -> Any:
        values = [getattr(reply, field) for reply in replies]
        return None if None in values else joined(values)

    return ParsedReply(
        sentences=of_all("sentences", lambda _: tuple(map(_joined, zip(*verdicts, strict=True)))),
        relevancy=of_all("relevancy", fmean),
        evasive=of_all("evasive", lambda said: 2 * sum(said) > len(said)),
        chunk_relevance=of_all("chunk_relevance", lambda _: tuple(best)),
        problems=tuple(
            f"call {number}: {problem}"
            for number, reply in enumerate(replies, 1)
            for problem in reply.problems
        ),
    )


def _moved(verdict: SentenceVerdict, parts: Sequence[Part]) -> SentenceVerdict:
    """Return the verdict with chunks numbered as in the whole."""
    positions = dict.fromkeys(parts[index].position for index in verdict.chunks)
    return replace(verdict, chunks=tuple(positions))


def _joined(said: Sequence[SentenceVerdict]) -> SentenceVerdict:
    """Return what calls say of one sentence, together."""
    supporting = [each for each in said if each.verdict is Verdict.SUPPORTED and each.chunks]
    if supporting:
        # A number that one of them found is found.
        first = min(supporting, key=lambda each: bool(each.reasons))
        return replace(first, chunks=_all_chunks(supporting))
    claims = [each for each in said if each.verdict is not Verdict.NO_CLAIM]
    for verdict in (Verdict.CONTRADICTED, Verdict.ABSENT):
        against = [each for each in said if each.verdict is verdict]
        # Whether a sentence claims anything does not depend on the chunks: the majority knows.
        is_claim = verdict is Verdict.CONTRADICTED or 2 * len(claims) > len(said)
        if against and is_claim:
            severities = [each.severity for each in against]
            # Of a sentence that no call supports, one that finds it minor saw what it stretches.
            is_minor = verdict is Verdict.ABSENT and Severity.MINOR in severities
            return replace(
                against[0],
                chunks=_all_chunks(against),
                words=tuple(dict.fromkeys(word for each in against for word in each.words)),
                severity=Severity.MINOR if is_minor else worst(severities),
            )
    lacking = len(claims) == len(said) and all(c.verdict is Verdict.SUPPORTED for c in claims)
    verdict = Verdict.SUPPORTED if lacking else Verdict.NO_CLAIM
    return replace(said[0], verdict=verdict, chunks=(), words=(), reasons=(), severity=None)


def _all_chunks(said: Sequence[SentenceVerdict]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(chunk for each in said for chunk in each.chunks))


def _cut(text: str, room_tokens: float) -> list[str]:
    """Return the text in pieces that fit, cut behind a paragraph, a sentence or a word."""
    pieces: list[str] = []
    start = 0
    max_characters = max(1, int(room_tokens * CHARACTERS_PER_TOKEN) + 1)
    while True:
        # No more than could fit at best: the rest is not measured again for every piece.
        near = text[start : start + max_characters]
        tokens = estimate_tokens(near)
        if not near or (tokens <= room_tokens and start + len(near) == len(text)):
            return [*pieces, near]
        length = max(1, int(len(near) * min(1.0, room_tokens / tokens)))
        while length > 1 and estimate_tokens(near[:length]) > room_tokens:
            length = max(1, length * 9 // 10)
        end = _break_before(near, length)
        pieces.append(near[:end])
        start += end


def _break_before(text: str, length: int) -> int:
    for breaks in _BREAKS:
        ends = [match.end() for match in breaks.finditer(text, length // 2, length)]
        if ends:
            return ends[-1]
    return length
