"""Converts values of the host application into the types that a record declares.

An application may pass anything where a text, a chunk or a mapping belongs: None, numbers, arrays,
objects whose own methods raise, structures that contain themselves. Nothing here raises, and
nothing takes longer than its limits allow. A text that cannot be read makes its record
`capture_incomplete`: the record is counted, and not scored as if it were whole.
"""

from __future__ import annotations

import json
import math
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from datetime import time as time_of_day
from enum import Enum
from itertools import islice
from numbers import Integral, Number, Real
from pathlib import PurePath
from typing import Any, Final, get_args

from ragmonitor.guard import record_error, record_problem
from ragmonitor.patterns import lazy_pattern
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Probe,
    Retrieval,
    SpanReference,
    Status,
    Usage,
)

MAX_CHUNKS: Final = 10_000
"""Chunks that one retrieval keeps. A record that loses some is incomplete."""
MAX_LABELS: Final = 1_000
"""Tags, and attributes, that one interaction keeps."""
MAX_ERROR_CHARACTERS: Final = 10_000
"""Characters that are kept of an error's text."""

MAX_NODES: Final = 10_000
"""Values in all the metadata of one record."""
MAX_CHARACTERS: Final = 4_000_000
"""Characters in all the metadata of one record."""
MAX_DEPTH: Final = 10
"""Levels of nested metadata."""
CUT: Final = "… [cut]"
"""Marks in metadata what was left out beyond one of the limits."""
CYCLE: Final = "… [cycle]"
"""Marks in metadata a structure that contains itself."""

_MAX_INTEGER_BITS = 1_024
_MAX_INT64 = 2**63 - 1
_STATUSES: tuple[Status, ...] = get_args(Status)
_TRACE_ID = lazy_pattern(r"[0-9a-f]{32}")
_SPAN_ID = lazy_pattern(r"[0-9a-f]{16}")
_PRINTABLE = (date, time_of_day, timedelta, uuid.UUID, PurePath)


class NotReadableError(TypeError):
    """A value of the application has an unreadable type; the message names readable ones."""

    quotes_no_text = True


def note_unreadable(subject: str) -> None:
    """Count and log that a value of the application could not be read."""
    record_error("capture", NotReadableError(subject))


def text_in(value: Any) -> str | None:
    """Return a text, number or UUID as a text, and None as an empty one; None: it is no text."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    try:
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, bytes | bytearray):
            return bytes(value).decode("utf-8", "replace")
        if isinstance(value, Number | uuid.UUID):
            return str.__str__(str(value))
    except Exception:  # noqa: BLE001 - anybody's methods, and what they say is not ours to log
        return None
    return None


def items_in(value: Any, most: int = MAX_CHUNKS) -> tuple[tuple[Any, ...], bool]:
    """Return the items of a collection, and whether these are all of them.

    One text, or one chunk, is a collection of one. An iterator is not read: that would take its
    items from the application.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return tuple(value[:most]), len(value) <= most
    if kind is str or kind is Chunk:
        return (value,), True
    try:
        if isinstance(value, str | bytes | bytearray | Chunk):
            return (value,), True
        if value is None or isinstance(value, Mapping) or hasattr(kind, "__next__"):
            return (), False
        items = tuple(islice(value, most + 1))
    except Exception:  # noqa: BLE001 - anybody's methods
        return (), False
    return items[:most], len(items) <= most


def mapping_in(value: Any, most: int = MAX_LABELS) -> tuple[dict[Any, Any], bool]:
    """Return a copy of a mapping, and whether that is all of it."""
    try:
        if isinstance(value, Mapping):
            return dict(islice(value.items(), most)), len(value) <= most
    except Exception:  # noqa: BLE001 - anybody's methods
        return {}, False
    return {}, value is None


MAX_JSON_CHARACTERS: Final = 16_000_000
"""Characters of a JSON text that is still read."""
MAX_JSON_DEPTH: Final = 200
"""Levels of nesting of a JSON text that is still read."""
_JSON_NESTING = lazy_pattern(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def json_in(text: str) -> Any:
    """Return the value of a JSON text; None if it is none, too long or too deeply nested."""
    if not is_readable_json(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_readable_json(text: str) -> bool:
    """Return whether a JSON text is neither too long nor too deep for a parser that recurses."""
    if len(text) > MAX_JSON_CHARACTERS:
        return False
    if text.count("[") + text.count("{") <= MAX_JSON_DEPTH:
        return True
    depth = 0
    for match in _JSON_NESTING.finditer(text):
        mark = match[0]
        if mark in ("[", "{"):
            depth += 1
            if depth > MAX_JSON_DEPTH:
                return False
        elif mark in ("]", "}"):
            depth -= 1
    return True


def error_text(failure: Any) -> str:
    """Return `TypeName: message` of an exception, cut to `MAX_ERROR_CHARACTERS` characters.

    Only the type where the message cannot be had.
    """
    kind = type(failure).__name__
    if not _is_a(failure, BaseException):  # what it prints as may be as long as it likes
        return kind
    try:
        message = str.__str__(str(failure))
    except Exception:  # noqa: BLE001 - an exception of anybody's
        return kind
    return f"{kind}: {message}"[:MAX_ERROR_CHARACTERS]


class RecordReader:
    """Converts the parts of one record to their declared types.

    The limits on metadata hold for all parts together.
    """

    def __init__(self) -> None:
        self.incomplete = False
        """A text was missing, or could not be read."""
        self._metadata = _Metadata()
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}
        """Metadata that was read before, by id, since chunks stand in a record twice, with the
        original, which keeps its id from being used again."""
        self._chunks: dict[int, tuple[Chunk, Chunk]] = {}
        """Chunks, likewise: they stand in a record twice, retrieved and shown."""

    def text(self, value: Any) -> str:
        """Return a text that scores rest on."""
        text = text_in(value)
        if text is None:
            self.incomplete = True
            note_unreadable(f"expected a text, got {type(value).__name__}")
            return ""
        return text

    @staticmethod
    def label(value: Any) -> str:
        """Return a text that no score rests on; empty if it cannot be read."""
        return text_in(value) or ""

    def chunks(self, value: Any) -> tuple[Chunk, ...]:
        """Return the chunks of a list of chunks and texts."""
        items, whole = items_in(value)
        if not whole:
            self.incomplete = True
            note_unreadable(
                f"expected a list of at most {MAX_CHUNKS} chunks, got {type(value).__name__};"
                " of an iterator, pass `list(...)` of it"
            )
        return tuple(chunk for item in items if (chunk := self.chunk(item)) is not None)

    def chunk(self, value: Any) -> Chunk | None:
        """Return a chunk; None if there is none in this."""
        known = self._chunks.get(id(value))
        if known is not None:
            return known[1]
        is_chunk = _is_a(value, Chunk)
        if isinstance(value, Mapping):
            return self._of_mapping(value)
        content = value.text if is_chunk else value
        text = None if content is None else text_in(content)
        if text is None:
            self.incomplete = True
            note_unreadable(f"expected a chunk or a text, got {type(content).__name__}")
            return None
        if not is_chunk:
            return Chunk(text=text)
        metadata = value.metadata
        is_empty = type(metadata) is dict and not metadata  # as nearly always
        read = Chunk(
            text=text,
            id=self.label(value.id),
            score=_score(value.score),
            metadata={} if is_empty else self._plain(metadata),
        )
        self._chunks[id(value)] = value, read
        return read

    def _of_mapping(self, value: Any) -> Chunk | None:
        try:
            found = chunk_in(value)
        except Exception:  # noqa: BLE001 - anybody's mapping
            found = None
        if found is None:
            self._miss("a chunk with a text", value)
            return None
        return replace(found, metadata=self._plain(found.metadata))

    def _plain(self, metadata: Any) -> dict[str, Any]:
        known = self._known.get(id(metadata))
        if known is None:
            known = self._known[id(metadata)] = metadata, self._metadata.read(metadata)
        return known[1]

    def retrieval(self, value: Any) -> Retrieval | None:
        """Return a retrieval; None if this is none."""
        if not _is_a(value, Retrieval):
            self._miss("a Retrieval", value)
            return None
        return Retrieval(
            query=self.label(value.query),
            chunks=self.chunks(value.chunks),
            started_ns=_moment(value.started_ns),
            ended_ns=_moment(value.ended_ns),
            name=self.label(value.name),
            error=self.label(value.error)[:MAX_ERROR_CHARACTERS],
        )

    def generation(self, value: Any) -> Generation | None:
        """Return a model call; None if this is none."""
        if not _is_a(value, Generation):
            self._miss("a Generation", value)
            return None
        return Generation(
            output=self.text(value.output),
            input=self.messages(value.input),
            started_ns=_moment(value.started_ns),
            ended_ns=_moment(value.ended_ns),
            model=self.label(value.model),
            provider=self.label(value.provider),
            usage=usage_in(value.usage),
            error=self.label(value.error)[:MAX_ERROR_CHARACTERS],
            first_token_ns=_moment(value.first_token_ns) if value.first_token_ns else 0,
            finish_reason=self.label(value.finish_reason),
        )

    def _miss(self, field: str, value: Any) -> None:
        self.incomplete = True
        note_unreadable(f"expected {field}, got {type(value).__name__}")

    def messages(self, value: Any) -> tuple[Message, ...]:
        """Return the messages that a model was asked, from messages, texts or mappings.

        A mapping has `role` and `content`. The result is empty, for not known, where a part of it
        cannot be read.
        """
        items, whole = items_in(value)
        parts = [_message(item) for item in items]
        read = tuple(message for message in parts if message is not None)
        if whole and len(read) == len(parts):
            return read
        note_unreadable(f"expected a prompt as a text or messages, got {type(value).__name__}")
        return ()

    def tags(self, value: Any) -> tuple[str, ...]:
        """Return tags: texts, each once."""
        items, whole = items_in(value, MAX_LABELS)
        texts = [text_in(item) for item in items]
        if not (whole or value is None) or None in texts:
            note_unreadable(f"expected at most {MAX_LABELS} tags, each a text")
        return tuple(dict.fromkeys(tag for tag in texts if tag))

    def attributes(self, value: Any) -> dict[str, str]:
        """Return attributes by name, without None; a value that is no text is written as one."""
        mapping, whole = mapping_in(value)
        texts: dict[str, str] = {}
        for key, item in mapping.items():
            name = text_in(key)
            text = self._attribute(item) if name else None
            whole = whole and text is not None
            if name and text is not None and item is not None:
                texts[name] = text
        if not whole:
            note_unreadable(f"expected at most {MAX_LABELS} attributes, each a text by its name")
        return texts

    def _attribute(self, value: Any) -> str | None:
        text = text_in(value)
        if text is None:
            plain = self._metadata.read({"": value}).get("")
            # Of plain values by now, and as long as there was room.
            text = plain if isinstance(plain, str) else json.dumps(plain)
        return text


def sound(interaction: Any) -> Interaction:
    """Return the record with every field of its declared type.

    A value of another type is converted where that is plain to do. A record with a text that cannot
    be read is incomplete; in the place of what is no record at all, one without texts is returned.
    """
    try:
        if _is_a(interaction, Interaction):
            return _sound(interaction)
        note_unreadable(f"expected an Interaction, got {type(interaction).__name__}")
    except Exception as error:  # noqa: BLE001 - anybody's objects; the record is counted all the same
        record_error("capture", error)
    return without_texts(getattr_of(interaction, "framework"), getattr_of(interaction, "status"))


def is_sound(record: Interaction) -> bool:
    """Return whether a framework's record has values of the declared types where others gave them.

    These are its labels, its models' names, and the scores and the metadata's keys of its chunks.
    Thirty times as cheap as `sound`.
    """
    for chunks in (record.chunks, *(retrieval.chunks for retrieval in record.retrievals)):
        for chunk in chunks:
            score = chunk.score
            if not (score is None or type(score) is float or isinstance(score, Real)):
                return False
            for key in chunk.metadata:
                if type(key) is not str:
                    return False
    return (
        all(type(g.model) is str and type(g.provider) is str for g in record.generations)
        and type(record.name) is str
        and type(record.session_id) is str
        and type(record.user_id) is str
        and all(type(tag) is str for tag in record.tags)
        and all(type(n) is str and type(v) is str for n, v in record.attributes.items())
    )


def _sound(interaction: Interaction) -> Interaction:
    read = RecordReader()
    status = status_in(interaction.status)
    checked = Interaction(
        id=read.label(interaction.id) or uuid.uuid4().hex,
        query=read.text(interaction.query),
        chunks=read.chunks(interaction.chunks),
        not_shown=read.chunks(interaction.not_shown),
        answer=read.text(interaction.answer),
        reference=read.text(interaction.reference),
        reference_chunks=read.chunks(interaction.reference_chunks),
        framework=read.label(interaction.framework) or FRAMEWORK,
        started_ns=_moment(interaction.started_ns),
        ended_ns=_moment(interaction.ended_ns),
        name=read.label(interaction.name),
        status=status,
        error=read.label(interaction.error)[:MAX_ERROR_CHARACTERS],
        retrievals=_all(read, read.retrieval, interaction.retrievals),
        generations=_all(read, read.generation, interaction.generations),
        usage=usage_in(interaction.usage),
        caller=_reference(interaction.caller),
        target=_reference(interaction.target),
        session_id=read.label(interaction.session_id),
        user_id=read.label(interaction.user_id),
        tags=read.tags(interaction.tags),
        attributes=read.attributes(interaction.attributes),
        redacted=interaction.redacted if type(interaction.redacted) is int else 0,
        probe=interaction.probe if type(interaction.probe) is Probe else None,
        first_token_ns=_moment(interaction.first_token_ns) if interaction.first_token_ns else 0,
    )
    incomplete = read.incomplete or interaction.capture_incomplete is not False
    return replace(checked, capture_incomplete=True) if incomplete else checked


def json_of(value: Any) -> str:
    """Return a value as JSON, cut where it is too long, too deep or stands inside itself."""
    plain = _Metadata().read({"": value}).get("")
    return json.dumps(plain, ensure_ascii=False)


def result_texts(value: Any) -> list[str]:
    """Return the texts of what a search tool gave, in order.

    These are texts, documents with a `page_content`, mappings that name a text or a list, and lists
    of all of them. `MAX_CHUNKS` values are looked at, and lists within three others at most.

    Raises:
        Exception: What the application's own objects raise.
    """
    found: list[str] = []
    waiting: list[tuple[Any, int]] = [(value, 0)]
    for _ in range(MAX_CHUNKS):
        if not waiting:
            break
        each, depth = waiting.pop()
        if isinstance(each, Mapping):
            values = each
            each = next((v for k in _RESULT_LISTS if isinstance(v := values.get(k), list)), None)
            if each is None:
                each = next((v for k in _RESULT_TEXTS if isinstance(v := values.get(k), str)), "")
            depth += 1
        elif not isinstance(each, str | list | tuple):
            each = getattr(each, "page_content", "")
        if isinstance(each, list | tuple):
            if depth < _RESULT_DEPTH:
                waiting += [(one, depth + 1) for one in reversed(each[:MAX_CHUNKS])]
        elif isinstance(each, str) and each:
            found.append(str.__str__(each))
    return found


_RESULT_LISTS = ("results", "documents", "content")
_RESULT_TEXTS = ("page_content", "pageContent", "content", "text", "snippet")
_RESULT_DEPTH = 3


def without_texts(
    framework: Any, status: Any, *, started_ns: int = 0, ended_ns: int = 0, **known: Any
) -> Interaction:
    """Return the incomplete record of an interaction of which no text can be had.

    Args:
        framework: Its own, if that can be read.
        status: Likewise.
        started_ns: 0: not known.
        ended_ns: 0: not known.
        known: Further fields of the record.
    """
    ended_ns = ended_ns or time.time_ns()
    return Interaction(
        **{"id": uuid.uuid4().hex} | known,
        query="",
        chunks=(),
        answer="",
        framework=text_in(framework) or FRAMEWORK,
        started_ns=started_ns or ended_ns,
        ended_ns=ended_ns,
        status=status_in(status),
        capture_incomplete=True,
    )


FRAMEWORK: Final = "python"
"""The framework of plain code, and of a framework that has no name."""


def status_in(value: Any) -> Status:
    """Return how an interaction ended; `ok` where that is none of the known ways."""
    text = text_in(value)
    return next((status for status in _STATUSES if status == text), "ok")


def getattr_of(value: Any, name: str) -> Any:
    """Return an attribute of anybody's object; None if it cannot be had."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of anybody's
        return None


TEXT_NAMES: Final = ("page_content", "pageContent", "text", "content")


def chunk_in(value: Any) -> Chunk | None:
    """Return the chunk in a text, a chunk, a document in any form, or a pair of one and a score."""
    pair_score = None
    if isinstance(value, list | tuple) and len(value) == 2:
        value, pair_score = value[0], finite(value[1])
        if pair_score is None:
            return None
    if isinstance(value, Chunk):
        return value if pair_score is None else replace(value, score=pair_score)
    if isinstance(value, str):
        return Chunk(text=str.__str__(value), score=pair_score)
    fields = value
    if isinstance(value, Mapping):
        inner = value.get("kwargs") if "lc" in value else value.get("node")
        fields = inner if isinstance(inner, Mapping) else value
        texts = (fields.get(name) for name in TEXT_NAMES)
    else:
        texts = (getattr(value, "page_content", None) for _ in (value,))
    text = next((each for each in texts if isinstance(each, str)), None)
    if text is None:
        return None
    metadata = member_of(fields, "metadata")
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    identity = member_of(fields, "id")  # which may be 0
    scores = (pair_score, finite(member_of(value, "score")), score_of(metadata))
    return Chunk(
        text=text,
        id=text_in(member_of(fields, "id_") if identity is None else identity) or "",
        score=next((score for score in scores if score is not None), None),
        metadata=metadata,
    )


def finite(value: Any) -> float | None:
    """Return a finite number; None if it is none, or too large to be one of ours."""
    if value is None or not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None


_SCORE_KEYS = ("relevance_score", "score")
_INPUT_TOKENS = ("prompt_tokens", "prompt_token_count", "prompt_eval_count")
_UNCACHED_TOKENS = ("input_tokens", "inputTokens")
_CACHED_TOKENS = (
    *("cache_read_input_tokens", "cache_creation_input_tokens"),
    *("cacheReadInputTokens", "cacheWriteInputTokens"),
)
_OUTPUT_TOKENS = (
    *("completion_tokens", "output_tokens", "candidates_token_count", "eval_count"),
    "outputTokens",
)


def score_of(metadata: Mapping[str, Any]) -> float | None:
    """Return the score that retrievers write into a document's metadata; None: there is none."""
    if not metadata:
        return None
    return next((s for key in _SCORE_KEYS if (s := finite(metadata.get(key))) is not None), None)


def usage_of(counts: Any) -> Usage:
    """Return the tokens that a provider's own mapping or object counts, under any known name.

    Input tokens include those that came out of a cache, or went into it: where a provider counts
    these apart, they are added.
    """
    if counts is None or (type(counts) is dict and not counts):  # as where nobody counts
        return Usage()
    input_tokens = _counted(counts, _INPUT_TOKENS)
    if input_tokens is None:
        input_tokens = _counted(counts, _UNCACHED_TOKENS)
        if input_tokens is not None:
            input_tokens += sum(_counted(counts, (name,)) or 0 for name in _CACHED_TOKENS)
    return Usage(input_tokens=input_tokens, output_tokens=_counted(counts, _OUTPUT_TOKENS))


def _counted(counts: Any, names: tuple[str, ...]) -> int | None:
    for name in names:
        count = member_of(counts, name)
        if isinstance(count, float) and count.is_integer():  # Cohere's client
            count = int(count)
        if isinstance(count, int) and not isinstance(count, bool):
            return token_count(count)
    return None


MAX_TOKENS: Final = 100_000_000
"""The tokens of one call of a model; one larger number would be every sum for good."""


def token_count(value: Any) -> int | None:
    """Return the tokens of one call; None: no number is given, or one that cannot be."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if 0 <= value <= MAX_TOKENS:
        return value
    record_problem("capture", "a call cannot have used so many tokens: they are not counted")
    return None


def member_of(holder: Any, name: str) -> Any:
    """Return what a mapping or an object has under a name; None: nothing."""
    # The exact type first: to ask an abstract class takes ten times as long.
    if type(holder) is dict or isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)


MAX_FINISH_REASON: Final = 100
_FINISH_REASONS: Final = ("finish_reason", "stop_reason", "done_reason")
"""The words of OpenAI and most others, of Anthropic, and of Ollama."""


def finish_reason_of(reply: Any) -> str:
    """Return why a model stopped, as a provider's reply says, a mapping or an object; else ""."""
    if reply is None or (type(reply) is dict and not reply):
        return ""
    choices = member_of(reply, "choices")
    for holder in (reply, *(choices[:1] if isinstance(choices, list | tuple) else ())):
        for name in _FINISH_REASONS:
            reason = member_of(holder, name)
            if isinstance(reason, str) and reason:
                return reason[:MAX_FINISH_REASON]
    return ""


def usage_in(value: Any) -> Usage:
    """Return token counts; what is no count is not known."""
    if not _is_a(value, Usage):
        return Usage()
    input_tokens, output_tokens = _count(value.input_tokens), _count(value.output_tokens)
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens)


def _all(read: RecordReader, one: Any, value: Any) -> tuple[Any, ...]:
    items, whole = items_in(value)
    if not whole:
        read.incomplete = True
        note_unreadable(f"expected a tuple of records, got {type(value).__name__}")
    return tuple(record for item in items if (record := one(item)) is not None)


def _message(value: Any) -> Message | None:
    if _is_a(value, Message):
        role, text = value.role, value.text
    elif isinstance(text := text_in(value), str) and value is not None:
        role = "user"
    else:
        fields, _ = mapping_in(value, 20)
        role, text = fields.get("role"), fields.get("content")
        if role is None:
            return None
    if type(role) is str and type(text) is str and type(value) is Message:
        return value
    read = text_in(text)
    return None if read is None else Message(role=text_in(role) or "user", text=read)


def _is_a(value: Any, kind: type) -> bool:
    # By the real type: `isinstance` believes what an object says of itself.
    return issubclass(type(value), kind)


def _score(value: Any) -> float | None:
    if type(value) is float or value is None:
        return value
    try:
        if isinstance(value, Real) and not isinstance(value, bool):
            return float(value)
    except Exception:  # noqa: BLE001 - anybody's number
        return None
    return None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _MAX_INT64 else None


def _moment(value: Any) -> int:
    """Return nanoseconds since the epoch that fit into a span; now, if this is no time."""
    if type(value) is int:
        return min(max(value, 0), _MAX_INT64)
    try:
        seconds = float(value) if isinstance(value, Real) else math.nan
    except Exception:  # noqa: BLE001 - anybody's number
        seconds = math.nan
    return min(max(int(seconds), 0), _MAX_INT64) if math.isfinite(seconds) else time.time_ns()


def _reference(value: Any) -> SpanReference | None:
    if not _is_a(value, SpanReference):
        return None
    trace_id, span_id = text_in(value.trace_id), text_in(value.span_id)
    if not (trace_id and span_id and _TRACE_ID.fullmatch(trace_id) and _SPAN_ID.fullmatch(span_id)):
        return None
    state = value.trace_state
    return SpanReference(
        trace_id=trace_id,
        span_id=span_id,
        sampled=value.sampled is True,
        trace_state=text_in(state) or "",
    )


class _Metadata:
    """Copies metadata into plain dicts, lists and scalars: a tree of bounded size.

    A structure that is shared is copied wherever it stands, as long as there is room; one that
    stands inside itself is not.
    """

    def __init__(self) -> None:
        self._nodes = MAX_NODES
        self._characters = MAX_CHARACTERS
        self._path: set[int] = set()

    def read(self, value: Any) -> dict[str, Any]:
        if not value and type(value) is dict:
            return {}
        try:
            plain = self._value(value, 0)
        except Exception as error:  # noqa: BLE001 - anybody's objects
            record_error("capture", error)
            plain = None
        return plain if type(plain) is dict else {}

    def _value(self, value: Any, depth: int) -> Any:
        self._nodes -= 1
        kind = type(value)
        if kind is str:
            return self._text(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is int:
            return value if value.bit_length() <= _MAX_INTEGER_BITS else CUT
        try:
            return self._other(value, kind, depth)
        except Exception:  # noqa: BLE001 - anybody's methods
            return f"<{kind.__name__}>"

    def _other(self, value: Any, kind: type, depth: int) -> Any:
        if issubclass(kind, Mapping):
            # In one go: the application may change it meanwhile.
            items = list(islice(value.items(), max(0, self._nodes) + 1))
            return self._held(value, depth, lambda: self._items(items, depth))
        if issubclass(kind, list | set | frozenset):
            return self._held(value, depth, lambda: self._values(value, depth))
        if issubclass(kind, tuple):
            return self._held(value, depth, lambda: tuple(self._values(value, depth)))
        if issubclass(kind, Enum):
            return self._value(value.value, depth)
        if issubclass(kind, Number):
            return self._number(value)
        if issubclass(kind, _PRINTABLE):
            return self._text(str(value))
        fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "model_fields", None)
        if isinstance(fields, Mapping):
            named = ((name, getattr(value, name, None)) for name in fields)
            return self._held(value, depth, lambda: self._items(named, depth))
        text = text_in(value)
        # Not what it prints as: that is the object's own code, and as long as it likes.
        return f"<{kind.__name__}>" if text is None else self._text(text)

    def _number(self, value: Any) -> Any:
        if isinstance(value, Integral):
            return self._value(int(value), 0)
        return float(value) if isinstance(value, Real) else self._text(str(value))

    def _held(self, value: Any, depth: int, copied: Any) -> Any:
        if id(value) in self._path:
            return CYCLE
        if depth >= MAX_DEPTH:
            return CUT
        self._path.add(id(value))
        try:
            return copied()
        finally:
            self._path.discard(id(value))

    def _items(self, items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, item in items:
            if self._nodes <= 0:
                copied[CUT] = True
                break
            name = text_in(key)
            copied[f"<{type(key).__name__}>" if name is None else self._text(name)] = self._value(
                item, depth + 1
            )
        return copied

    def _values(self, items: Iterable[Any], depth: int) -> list[Any]:
        copied: list[Any] = []
        for item in items:
            if self._nodes <= 0:
                copied.append(CUT)
                break
            copied.append(self._value(item, depth + 1))
        return copied

    def _text(self, text: str) -> str:
        text = str.__str__(text)
        if len(text) <= self._characters:
            self._characters -= len(text)
            return text
        kept, self._characters = text[: self._characters], 0
        return kept + CUT
