"""Parses a judge's reply field by field; a field that cannot be read is None, never 0.

The ladder: the reply as JSON; without fence and thoughts; its balanced object; without trailing
commas. Broken JSON is no reply. Every index and count is checked against the question, so that a
reply about other sentences is none either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from ragmonitor.judges.builtin.parsed_sentences import parse_sentence
from ragmonitor.judges.builtin.speech_acts import SpeechAct, content_count
from ragmonitor.judges.judge_prompts import EXAMPLES
from ragmonitor.judges.unknown_numbers import unknown_figures
from ragmonitor.records import Severity, Verdict
from ragmonitor.runtime.patterns import lazy_pattern

RULES: Final = 5
"""Raised whenever the same reply would be read differently."""

_FIELDS: Final = ("s", "bad", "rel", "evasive", "ctx")
_MAX_CHARACTERS: Final = 20_000
"""Only so many characters of a reply are parsed, thoughts not counted: ten times an honest one."""
_MAX_OBJECTS: Final = 20
_MIN_CLAIM: Final = 3
"""Terms with content from which an answer surely claims something."""
_LETTERS: Final = {"N": Verdict.ABSENT, "X": Verdict.CONTRADICTED, "C": Verdict.CONTRADICTED}
_NO_CLAIM: Final = frozenset("-–—−")
_FINDINGS: Final = (Verdict.ABSENT, Verdict.CONTRADICTED)
_SEVERITIES: Final[dict[object, Severity]] = {
    1: Severity.MINOR,
    2: Severity.MAJOR,
    "minor": Severity.MINOR,
    "major": Severity.MAJOR,
}

_TRAILING_COMMA: Final = lazy_pattern(r",\s*([}\]])")
_SMALL_NUMBER: Final = lazy_pattern(r"[0-9]{1,4}", re.ASCII)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The reply's verdict on one sentence."""

    verdict: Verdict
    chunks: tuple[int, ...] = ()
    """From 0, in the reply's order."""
    words: tuple[str, ...] = ()
    """The words as they stand in the sentence."""
    reasons: tuple[str, ...] = ()
    severity: Severity | None = None
    """The severity of what is absent or contradicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """The fields of a reply; None: nothing that could be trusted."""

    entries: tuple[Entry, ...] | None = None
    """One per sentence, in order."""
    relevancy: float | None = None
    """From 0 to 1."""
    evasive: bool | None = None
    chunk_relevance: tuple[float, ...] | None = None
    """From 0 to 1, one per chunk, in order."""
    problems: tuple[str, ...] = ()
    """One short phrase per unread field, for the judge when it is asked again."""

    @property
    def is_usable(self) -> bool:
        """Whether anything could be read that a score could come from."""
        # Without chunks their ratings are the empty tuple whatever was replied.
        return bool(
            self.entries is not None
            or self.relevancy is not None
            or self.evasive is not None
            or self.chunk_relevance
        )

    def completed_by(self, other: ParsedReply) -> ParsedReply:
        """Return this reading with its gaps filled from another of the same question."""
        return ParsedReply(
            entries=other.entries if self.entries is None else self.entries,
            relevancy=other.relevancy if self.relevancy is None else self.relevancy,
            evasive=other.evasive if self.evasive is None else self.evasive,
            chunk_relevance=(
                other.chunk_relevance if self.chunk_relevance is None else self.chunk_relevance
            ),
            problems=self.problems,
        )


@dataclass(slots=True)
class _Fault:
    """The verdict of `bad` on one sentence."""

    words: list[str] = field(default_factory=list)
    """The words as they stand in it."""
    severities: set[Severity | None] = field(default_factory=set)
    """One of each entry that names the sentence; None: that entry has none."""


def worst(severities: Collection[Severity | None]) -> Severity | None:
    """Return the worst severity; None: it is not known to be major, nor that all are minor."""
    if Severity.MAJOR in severities:
        return Severity.MAJOR
    return Severity.MINOR if set(severities) == {Severity.MINOR} else None


class _UnreadableError(Exception):
    """A field cannot be read; the message tells the judge why."""


def read_reply(
    text: str, *, sentences: Sequence[str], chunks: Sequence[str], question: str = ""
) -> ParsedReply:
    """Return the fields of a reply. Raises nothing, whatever the text.

    Verdicts that the rest of the reply disagrees with are not read. A sentence that the judge calls
    supported keeps that verdict even if a number of it stands in no cited chunk: the number may be
    reckoned or spelled out. It gets the reason `number`.

    Args:
        text: The reply as it came.
        sentences: The answer's sentences, in order; shape (n_sentences,).
        chunks: The chunks' texts, in order; shape (n_chunks,).
        question: Numbers that stand in it need not stand in the chunks.
    """
    fields = find_fields(text, _FIELDS, examples=EXAMPLES)
    problems: list[str] = []

    def read(name: str, reader: Callable[[object], _T]) -> _T | None:
        try:
            if name not in fields:
                raise _UnreadableError("is missing or broken")
            return reader(fields[name])
        except _UnreadableError as reason:
            problems.append(f"{name} {reason}")
            return None

    faults = _read_bad(fields.get("bad"), sentences)
    relevancy = read("rel", lambda value: _whole(value, max_value=3) / 3)
    evasive = read("evasive", _read_flag)

    def agreeing(value: object) -> tuple[Entry, ...]:
        entries = _read_entries(value, len(sentences), len(chunks))
        _check_agreement(entries, faults, sentences, declines=evasive is not False)
        return tuple(
            _with_fault(entry, faults.get(position), sentences[position], chunks, question)
            for position, entry in enumerate(entries)
        )

    entries = read("s", agreeing)
    relevance: tuple[float, ...] | None = ()
    if chunks:
        relevance = read("ctx", lambda value: _read_ratings(value, len(chunks)))
    return ParsedReply(
        entries=entries,
        relevancy=relevancy,
        evasive=evasive,
        chunk_relevance=relevance,
        problems=("no JSON object with bad, s, rel, evasive, ctx",)
        if not fields
        else tuple(problems),
    )


def _check_agreement(
    entries: Sequence[Entry], faults: Collection[int], sentences: Sequence[str], *, declines: bool
) -> None:
    """Raise `_UnreadableError` where the verdicts contradict the rest of the reply."""
    for position, entry in enumerate(entries):
        if position in faults and entry.verdict not in _FINDINGS:
            raise _UnreadableError(f"calls S{position + 1} right, and bad calls it wrong")
    if declines or not entries:
        return
    claims = [entry for entry in entries if entry.verdict is not Verdict.NO_CLAIM]
    if not claims and sum(map(_claims, sentences)) >= _MIN_CLAIM:
        raise _UnreadableError("says that nothing is claimed, of an answer that is not evasive")
    if claims and all(each.verdict is Verdict.SUPPORTED and not each.chunks for each in claims):
        raise _UnreadableError("is [0] for all claims of an answer that is not evasive")


def _claims(sentence: str) -> float:
    """Return how many terms with content a sentence has that the rules take for a claim."""
    parsed = parse_sentence(sentence)
    return content_count(parsed.terms) if parsed.act is SpeechAct.CLAIM else 0.0


def _with_fault(
    entry: Entry, fault: _Fault | None, sentence: str, chunks: Sequence[str], question: str
) -> Entry:
    if entry.verdict in _FINDINGS:
        fault = fault or _Fault()
        return replace(entry, words=tuple(fault.words), severity=worst(fault.severities))
    if entry.verdict is Verdict.SUPPORTED:
        cited = [chunks[position] for position in entry.chunks] or chunks
        unknown = unknown_figures(sentence, question, *cited)
        if unknown:
            return replace(entry, words=unknown, reasons=("number",))
    return entry


# Finding the fields


def find_fields(
    text: str, names: Sequence[str], *, examples: Sequence[Mapping[str, object]] = ()
) -> Mapping[str, object]:
    """Return the reply's fields by name; empty if there are none, or two replies that differ.

    Args:
        text: The reply as it came.
        names: Of the fields; an object without any of them is no reply.
        examples: Which the prompt shows; a model that repeats one has not replied.
    """
    text = text.strip()
    if not text.startswith(("{", "`")):  # else "</think>" is quoted out of the data
        if text.startswith("<think") and "</think" not in text:
            return {}  # cut off in its thoughts: a draft in them is no reply
        text = text.rpartition("</think>")[2].rpartition("</thinking>")[2].strip()
    text = text[:_MAX_CHARACTERS]
    for candidate in (text, _TRAILING_COMMA.sub(r"\1", text)):
        replies: list[Mapping[str, object]] = []
        for value in _replies(candidate, names):
            if value not in (*replies, *examples):
                replies.append(value)
        if replies:
            # A draft and a reply: which is which would be a guess.
            return replies[0] if len(replies) == 1 else {}
    return {}


def _said_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return an object without the names that it gives two values."""
    value = dict(pairs)
    if len(value) < len(pairs):
        for name, first in pairs:
            if name in value and value[name] != first:
                del value[name]
    return value


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_said_once)


def _replies(text: str, names: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield the JSON objects of a text that have one of the fields, whatever is around them."""
    position = text.find("{")
    for _ in range(_MAX_OBJECTS):
        if position < 0:
            return
        end = position + 1
        try:
            value, ended = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            pass
        else:
            if any(name in value for name in names):
                yield value
                end = ended
        position = text.find("{", end)


# Reading one field


def _read_entries(value: object, sentences: int, chunks: int) -> tuple[Entry, ...]:
    values = _listed(value, "S", sentences)
    return tuple(
        _read_entry(entry, f"entry {number}", chunks) for number, entry in enumerate(values, 1)
    )


def _read_entry(value: object, name: str, chunks: int) -> Entry:
    parts = list(value) if isinstance(value, list) else [value]
    if not parts:
        raise _UnreadableError(f"{name} is empty")
    verdict = Verdict.SUPPORTED
    if parts == [None]:
        return Entry(verdict=Verdict.NO_CLAIM)
    if isinstance(parts[0], str):
        letter = parts[0].strip().upper()
        if letter in _NO_CLAIM and len(parts) == 1:
            return Entry(verdict=Verdict.NO_CLAIM)
        if letter in _LETTERS:
            verdict = _LETTERS[letter]
            parts = parts[1:]
    positions: dict[int, None] = {}
    for part in parts:
        number = part.strip().upper().removeprefix("C") if isinstance(part, str) else part
        try:
            positions[_whole(number, max_value=chunks) - 1] = None
        except _UnreadableError:
            raise _UnreadableError(f"{name} names no chunk and no verdict") from None
    # [0]: the chunks as a whole, which rightly are said to lack something.
    cited = tuple(position for position in positions if position >= 0)
    return Entry(verdict=verdict, chunks=() if verdict is Verdict.ABSENT else cited)


def _read_ratings(value: object, chunks: int) -> tuple[float, ...]:
    return tuple(_whole(rating, max_value=2) / 2 for rating in _listed(value, "C", chunks))


def _read_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise _UnreadableError("is not true or false")


def _read_bad(value: object, sentences: Sequence[str]) -> dict[int, _Fault]:
    """Return quoted words and severity by the sentence's position.

    What cannot be read is left out alone, and so is a quote that does not stand in the sentence,
    with its severity.
    """
    pairs: list[object] = []
    if isinstance(value, dict):
        pairs = [[number, words] for number, words in value.items()]
    elif isinstance(value, list):
        pairs = value
    faults: dict[int, _Fault] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) < 2:
            continue
        number = pair[0].strip().upper().removeprefix("S") if isinstance(pair[0], str) else pair[0]
        try:
            position = _whole(number, max_value=len(sentences)) - 1
        except _UnreadableError:
            continue
        if position < 0:
            continue
        parts = [*pair[1], *pair[2:]] if isinstance(pair[1], list) else pair[1:]
        fault, severity = faults.setdefault(position, _Fault()), _severity(parts)
        quotes = parts if severity is None else parts[:-1]
        exact = [_as_it_stands(q, sentences[position]) for q in quotes if isinstance(q, str)]
        fault.words += [words for words in exact if words and words not in fault.words]
        fault.severities.add(severity if any(exact) else None)
    return faults


def _severity(parts: Sequence[object]) -> Severity | None:
    """Return the severity that stands behind the words of a finding; None: none does."""
    last = parts[-1] if parts else None
    if isinstance(last, str):
        # Alone it is the sentence's own word.
        last = last.strip().lower() if len(parts) > 1 else None
    return _SEVERITIES.get(last) if isinstance(last, str | int) and last is not True else None


def _as_it_stands(quote: str, sentence: str) -> str:
    """Return the quote as the sentence has it, case and spaces forgiven; empty if it has not."""
    quote = quote.strip().strip("\"'“”‘’.…")
    if not quote or len(quote) > len(sentence):
        return ""
    if quote in sentence:
        return quote
    match = re.search(r"\s+".join(map(re.escape, quote.split())), sentence, re.IGNORECASE)
    return "" if match is None else match.group()


def _listed(value: object, letter: str, count: int) -> list[object]:
    """Return the items of a list, or of a mapping whose keys are 1..count or S1..Scount."""
    if isinstance(value, dict):
        keys = [str(key).strip().upper().removeprefix(letter) for key in value]
        if keys == [str(number) for number in range(1, count + 1)]:
            return list(value.values())
        raise _UnreadableError(f"is not a list of {count}")
    if not isinstance(value, list):
        raise _UnreadableError(f"is not a list of {count}")
    if len(value) != count:
        raise _UnreadableError(f"has {len(value)} entries, not {count}")
    return value


def _whole(value: object, *, max_value: int) -> int:
    if isinstance(value, str) and _SMALL_NUMBER.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= max_value:
        raise _UnreadableError(f"is not a whole number from 0 to {max_value}")
    return value
