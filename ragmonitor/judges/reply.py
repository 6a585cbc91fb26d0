"""Reads a model's reply field by field; a field that cannot be read has no value, never 0.

The reply is the one JSON object that has the fields, whatever is around it. Broken JSON is no
reply. Every index and count is checked against the question, so that a reply about other sentences
is none either.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ragmonitor.judges.builtin.parsed_sentences import parse_sentence
from ragmonitor.judges.builtin.quantities import alternatives
from ragmonitor.judges.builtin.speech_acts import SpeechAct, content_count
from ragmonitor.judges.builtin.terms import Key, chunk_keys, simplified, terms
from ragmonitor.judges.judge_prompts import EXAMPLES
from ragmonitor.judges.sentences import Sentence, marker_end, without_thoughts
from ragmonitor.records import SentenceVerdict, Severity, Verdict
from ragmonitor.runtime.patterns import lazy_pattern

RULES: Final = 7
"""Raised whenever the same reply would be read differently."""

_MAX_CHARACTERS: Final = 20_000
"""Only so many characters of a reply are parsed, thoughts not counted: ten times an honest one."""
_MAX_OBJECTS: Final = 20
_MIN_CLAIM: Final = 3
"""Terms with content from which an answer surely claims something."""
_LETTERS: Final = {"N": Verdict.ABSENT, "X": Verdict.CONTRADICTED, "C": Verdict.CONTRADICTED}
_NO_CLAIM: Final = frozenset("-–—−")
_FINDINGS: Final = (Verdict.ABSENT, Verdict.CONTRADICTED)
_SEVERITIES: Final = {1: Severity.MINOR, 2: Severity.MAJOR}

Reader = Callable[[object], Any]
"""Makes the value of a field out of JSON. Raises `UnreadableError`."""


class UnreadableError(Exception):
    """A field cannot be read; the message tells the judge why."""


_Fault = tuple[tuple[str, ...], Severity | None]
"""What `bad` says of one sentence: quotes that stand in it, and a severity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """The fields of a reply; None: nothing that could be trusted."""

    sentences: tuple[SentenceVerdict, ...] | None = None
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
        known = (self.sentences, self.relevancy, self.evasive, self.chunk_relevance or None)
        return any(each is not None for each in known)


def read_reply(
    text: str, *, sentences: Sequence[Sentence], chunks: Sequence[str], question: str = ""
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
    readers: dict[str, Reader] = {
        "bad": lambda value: _read_bad(value, sentences),
        "rel": lambda value: whole(value, 3) / 3,
        "evasive": read_flag,
        "s": lambda value: [
            _verdict(entry, sentence, len(chunks))
            for entry, sentence in zip(listed(value, len(sentences), "S"), sentences, strict=True)
        ],
    }
    if chunks:
        readers["ctx"] = lambda value: tuple(
            whole(each, 2) / 2 for each in listed(value, len(chunks), "C")
        )
    values, problems = read_fields(text, readers, examples=EXAMPLES, optional=("bad",))
    faults, verdicts = values.get("bad", {}), values.get("s", ())
    disagreement = _disagreement(verdicts, faults, declines=values.get("evasive") is not False)
    if disagreement:
        problems.append(f"s {disagreement}")
        del values["s"]
    for at, each in enumerate(verdicts):
        if each.verdict in _FINDINGS:
            words, severity = faults.get(at, ((), None))
            verdicts[at] = replace(each, words=words, severity=severity)
        elif each.verdict is Verdict.SUPPORTED:
            cited = [chunks[position] for position in each.chunks] or chunks
            if unknown := unknown_figures(each.text, question, *cited):
                verdicts[at] = replace(each, words=unknown, reasons=("number",))
    return ParsedReply(
        sentences=tuple(verdicts) if "s" in values else None,
        relevancy=values.get("rel"),
        evasive=values.get("evasive"),
        chunk_relevance=values.get("ctx") if chunks else (),
        problems=tuple(problems),
    )


def _disagreement(
    verdicts: Sequence[SentenceVerdict], faults: Collection[int], *, declines: bool
) -> str:
    """Return in which way the verdicts contradict the rest of the reply; empty: they do not."""
    for at, each in enumerate(verdicts):
        if at in faults and each.verdict not in _FINDINGS:
            return f"calls S{at + 1} right, and bad calls it wrong"
    claims = [each for each in verdicts if each.verdict is not Verdict.NO_CLAIM]
    if declines:
        return ""
    if not claims and sum(_claims(each.text) for each in verdicts) >= _MIN_CLAIM:
        return "says that nothing is claimed, of an answer that is not evasive"
    if claims and all(each.verdict is Verdict.SUPPORTED and not each.chunks for each in claims):
        return "is [0] for all claims of an answer that is not evasive"
    return ""


def _claims(sentence: str) -> float:
    """Return how many terms with content a sentence has that the rules take for a claim."""
    parsed = parse_sentence(sentence)
    return content_count(parsed.terms) if parsed.act is SpeechAct.CLAIM else 0.0


def worst(severities: Collection[Severity | None]) -> Severity | None:
    """Return the worst severity; None: it is not known to be major, nor that all are minor."""
    if Severity.MAJOR in severities:
        return Severity.MAJOR
    return Severity.MINOR if set(severities) == {Severity.MINOR} else None


def unknown_figures(sentence: str, *sources: str) -> tuple[str, ...]:
    """Return the numbers in digits of a sentence that no source gives, as they stand in it.

    A source may give them in words, or with another scale (3 million, 300万).
    """
    figures = [
        (str(term.key), term.surface.rstrip(".,:;"))
        for term in terms(_apart(sentence[marker_end(sentence) :]))
        if term.kind in ("number", "time") and any(map(str.isdecimal, term.surface))
    ]
    if not figures:
        return ()
    known: set[Key] = set().union(*(chunk_keys(simplified(_apart(each))).every for each in sources))
    return tuple(surface for key, surface in figures if known.isdisjoint(alternatives(key)))


_COMMA: Final = lazy_pattern(r",(?!\d{3}(?!\d))")


def _apart(text: str) -> str:
    """Return a text in which a comma joins digits only where it groups thousands: not `[3,15]`."""
    return _COMMA.sub(", ", text)


# Finding the fields


def read_fields(
    text: str,
    readers: Mapping[str, Reader],
    *,
    examples: Sequence[Mapping[str, object]] = (),
    optional: Collection[str] = (),
) -> tuple[dict[str, Any], list[str]]:
    """Return what the readers make of the fields of a reply, and what is wrong with the others.

    Args:
        text: The reply as it came.
        readers: By the name of the field; an object without any of them is no reply.
        examples: Which the prompt shows; a model that repeats one has not replied.
        optional: Names of fields that may be missing.
    """
    # A draft in a model's thoughts is no reply.
    text = without_thoughts(text).strip()[:_MAX_CHARACTERS]
    replies: list[Mapping[str, object]] = []
    position = text.find("{")
    for _ in range(_MAX_OBJECTS):
        if position < 0:
            break
        end = position + 1
        with contextlib.suppress(ValueError, RecursionError):
            value, ended = _DECODER.raw_decode(text, position)
            if not readers.keys().isdisjoint(value):
                end = ended
                if value not in (*replies, *examples):
                    replies.append(value)
        position = text.find("{", end)
    if len(replies) != 1:  # of a draft and a reply, which is which would be a guess
        return {}, [f"no JSON object with {', '.join(readers)}"]
    (fields,) = replies
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, reader in readers.items():
        try:
            if name in fields:
                values[name] = reader(fields[name])
            elif name not in optional:
                raise UnreadableError("is missing or broken")
        except UnreadableError as reason:
            problems.append(f"{name} {reason}")
    return values, problems


def _said_once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return an object without the names that it gives two values."""
    value = dict(pairs)
    twice = {name for name, first in pairs if value[name] != first}
    return {name: each for name, each in value.items() if name not in twice}


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_said_once)


# Reading one field


def _verdict(value: object, sentence: Sentence, chunks: int) -> SentenceVerdict:
    parts = list(value) if isinstance(value, list) else [value]
    verdict = Verdict.SUPPORTED
    if is_no_claim(value):
        verdict, parts = Verdict.NO_CLAIM, []
    elif not parts:
        raise UnreadableError("has an empty entry")
    elif isinstance(parts[0], str) and parts[0].strip().upper() in _LETTERS:
        verdict, parts = _LETTERS[parts[0].strip().upper()], parts[1:]
    # [0]: the chunks as a whole, which rightly are said to lack something.
    numbers = [whole(part, chunks, letter="C") for part in parts]
    cited = tuple(dict.fromkeys(number - 1 for number in numbers if number))
    return verdict_of(sentence, verdict, chunks=() if verdict is Verdict.ABSENT else cited)


def verdict_of(sentence: Sentence, verdict: Verdict, **details: Any) -> SentenceVerdict:
    """Return what a judge says of a sentence."""
    return SentenceVerdict(
        text=sentence.text, start=sentence.start, end=sentence.end, verdict=verdict, **details
    )


def _read_bad(value: object, sentences: Sequence[Sentence]) -> dict[int, _Fault]:
    """Return what is wrong, by the sentence's position.

    What cannot be read is left out alone, and so is a quote that does not stand in the sentence,
    with its severity.
    """
    faults: dict[int, _Fault] = {}
    for entry in value if isinstance(value, list) else ():
        try:
            number, *rest = entry if isinstance(entry, list) and entry else [None]
            at = whole(number, len(sentences), letter="S") - 1
        except UnreadableError:
            continue
        if at < 0 or not rest:
            continue
        quotes = [_as_it_stands(each, sentences[at].text) for each in rest if isinstance(each, str)]
        words = tuple(filter(None, quotes))
        severity = _SEVERITIES.get(rest[-1]) if type(rest[-1]) is int and words else None
        if at in faults:
            before, rated = faults[at]
            words, severity = (*before, *words), worst([rated, severity])
        faults[at] = tuple(dict.fromkeys(words)), severity
    return faults


def _as_it_stands(quote: str, sentence: str) -> str:
    """Return the quote as the sentence has it, case and spaces forgiven; empty if it has not."""
    quote = quote.strip().strip("\"'“”‘’.…")
    if not quote or len(quote) > len(sentence):
        return ""
    match = re.search(r"\s+".join(map(re.escape, quote.split())), sentence, re.IGNORECASE)
    return "" if match is None else match.group()


def is_no_claim(value: object) -> bool:
    """Return whether an entry says that a sentence claims nothing."""
    return value is None or (isinstance(value, str) and value.strip() in _NO_CLAIM)


def read_flag(value: object) -> bool:
    """Return true or false. Raises `UnreadableError`: it is neither."""
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise UnreadableError("is not true or false")
    return value


def listed(value: object, count: int, letter: str) -> list[object]:
    """Return the items of a list, or of an object whose names are 1..count or S1..Scount.

    Raises:
        UnreadableError: It is neither, or about other items.
    """
    if isinstance(value, dict):
        names = [str(name).strip().upper().removeprefix(letter) for name in value]
        if names == [str(number) for number in range(1, count + 1)]:
            return list(value.values())
    if not isinstance(value, list):
        raise UnreadableError(f"is not a list of {count}")
    if len(value) != count:
        raise UnreadableError(f"has {len(value)} entries, not {count}")
    return value


def whole(value: object, high: int, *, letter: str = "") -> int:
    """Return a whole number from 0 on. Raises `UnreadableError`: it is none, or too high."""
    if isinstance(value, str):
        digits = value.strip().upper().removeprefix(letter)
        value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 5 else None
    if type(value) is not int or not 0 <= value <= high:
        raise UnreadableError(f"has what is not a whole number from 0 to {high}")
    return value
