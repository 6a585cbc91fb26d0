"""Long evidence is spread over several calls, and their replies are joined again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ragmonitor.judges.reply import Entry, ParsedReply, worst
from ragmonitor.judges.tokens import CHARACTERS_PER_TOKEN, estimate_tokens
from ragmonitor.records import Severity, Verdict
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
    readings: Sequence[ParsedReply], calls: Sequence[Sequence[Part]], *, n_chunks: int
) -> ParsedReply:
    """Return the joined reply; a field that one of the calls left unread is unread.

    A sentence is supported if a call supports it, contradicted if none does and one contradicts
    it; of its severity see `_severity`. That the chunks lack something is right only if it is right
    of all of them. Relevancy is the calls' mean, evasiveness what most of them say, a cut chunk as
    relevant as its best part.

    Args:
        readings: One per call; shape (n_calls,).
        calls: The parts that each call was shown; shape (n_calls, parts).
        n_chunks: The number of chunks of the interaction.
    """
    if len(readings) == 1 and len(calls[0]) == n_chunks:
        return readings[0]
    entries = [
        _moved(reading.entries, parts)
        for reading, parts in zip(readings, calls, strict=True)
        if reading.entries is not None
    ]
    relevancies = [r.relevancy for r in readings if r.relevancy is not None]
    evasive = [r.evasive for r in readings if r.evasive is not None]
    return ParsedReply(
        entries=tuple(_joined(each) for each in zip(*entries, strict=True))
        if len(entries) == len(readings)
        else None,
        relevancy=sum(relevancies) / len(relevancies)
        if len(relevancies) == len(readings)
        else None,
        evasive=2 * sum(evasive) > len(evasive) if len(evasive) == len(readings) else None,
        chunk_relevance=_ratings(readings, calls, n_chunks),
        problems=tuple(
            f"call {number}: {problem}"
            for number, reading in enumerate(readings, 1)
            for problem in reading.problems
        ),
    )


def _moved(entries: Sequence[Entry], parts: Sequence[Part]) -> list[Entry]:
    """Return the entries with chunks numbered as in the whole."""
    return [
        replace(entry, chunks=tuple(dict.fromkeys(parts[index].position for index in entry.chunks)))
        for entry in entries
    ]


def _joined(entries: Sequence[Entry]) -> Entry:
    supporting = [each for each in entries if each.verdict is Verdict.SUPPORTED and each.chunks]
    if supporting:
        doubted = all(entry.reasons for entry in supporting)
        return Entry(
            verdict=Verdict.SUPPORTED,
            chunks=tuple(dict.fromkeys(c for entry in supporting for c in entry.chunks)),
            words=supporting[0].words if doubted else (),
            reasons=supporting[0].reasons if doubted else (),
        )
    for verdict in (Verdict.CONTRADICTED, Verdict.ABSENT):
        against = [entry for entry in entries if entry.verdict is verdict]
        claims = [entry for entry in entries if entry.verdict is not Verdict.NO_CLAIM]
        # Whether a sentence claims anything does not depend on the chunks: the majority knows.
        is_claim = verdict is Verdict.CONTRADICTED or 2 * len(claims) > len(entries)
        if against and is_claim:
            return Entry(
                verdict=verdict,
                chunks=tuple(dict.fromkeys(c for entry in against for c in entry.chunks)),
                words=tuple(dict.fromkeys(w for entry in against for w in entry.words)),
                severity=_severity(verdict, [entry.severity for entry in against]),
            )
    lacking = all(entry.verdict is Verdict.SUPPORTED for entry in entries)
    return Entry(verdict=Verdict.SUPPORTED if lacking else Verdict.NO_CLAIM)


def _severity(verdict: Verdict, severities: Sequence[Severity | None]) -> Severity | None:
    """Return the severity of what some calls object to.

    Of a sentence that no call supports, a call that finds it minor has seen what it stretches. Of
    contradictions the worst counts.
    """
    if verdict is Verdict.ABSENT and Severity.MINOR in severities:
        return Severity.MINOR
    return worst(severities)


def _ratings(
    readings: Sequence[ParsedReply], calls: Sequence[Sequence[Part]], n_chunks: int
) -> tuple[float, ...] | None:
    best = [0.0] * n_chunks
    for reading, parts in zip(readings, calls, strict=True):
        if reading.chunk_relevance is None:
            return None
        for part, rating in zip(parts, reading.chunk_relevance, strict=True):
            best[part.position] = max(best[part.position], rating)
    return tuple(best)


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
