"""Reads values of the host application into the types that a record declares.

There is one door: `sound`. It validates a whole record within limits; a text that cannot be read
makes the record `capture_incomplete`, so that it is counted, and not scored as if it were whole.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from numbers import Number, Real
from pathlib import PurePath
from typing import Any, Final, get_args

import msgspec

from ragmonitor.records import (
    Chunk,
    Interaction,
    Status,
    Usage,
)
from ragmonitor.runtime.guard import record_error, record_problem, shielded
from ragmonitor.runtime.printable import encodable

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

_MAX_INT64 = 2**63 - 1
_STATUSES: tuple[Status, ...] = get_args(Status)


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
            return value.decode("utf-8", "replace")
        return str(value) if isinstance(value, Number | uuid.UUID) else None
    except Exception:  # noqa: BLE001 - anybody's methods, and what they say is not ours to log
        return None


def items_in(value: Any, most: int = MAX_CHUNKS) -> tuple[tuple[Any, ...], bool]:
    """Return the items of a collection, and whether these are all of them.

    One text, or one chunk, is a collection of one. An iterator is not read: that would take its
    items from the application.
    """
    if type(value) is tuple and len(value) <= most:
        return value, True
    try:
        if isinstance(value, str | Chunk):
            return (value,), True
        if value is None or isinstance(value, Mapping) or hasattr(type(value), "__next__"):
            return (), False
        items = tuple(islice(value, most + 1))
    except Exception:  # noqa: BLE001 - anybody's methods
        return (), False
    return items[:most], len(items) <= most


def chunks_in(items: tuple[Any, ...]) -> tuple[tuple[Chunk, ...], bool]:
    """Return the chunks in texts, chunks and documents, and whether each of them could be read."""
    chunks = []
    for item in items:
        try:
            chunk = chunk_in(item)
            if chunk is None and (text := text_in(item)) is not None:
                chunk = Chunk(text=text)
        except Exception:  # noqa: BLE001 - anybody's documents
            chunk = None
        if chunk is not None:
            chunks.append(chunk)
    if len(chunks) < len(items):
        note_unreadable("expected chunks, texts, or mappings with a text")
    return tuple(chunks), len(chunks) == len(items)


def tags_in(value: Any) -> tuple[str, ...]:
    """Return tags: texts, each once; what is none is left out."""
    texts = (text_in(item) for item in items_in(value, MAX_LABELS)[0])
    return tuple(dict.fromkeys(text for text in texts if text))


def attributes_in(value: Any) -> dict[str, str]:
    """Return attributes by name, without None; a value that is no text is written as JSON."""
    with shielded("capture"):
        items = list(islice(value.items(), MAX_LABELS)) if isinstance(value, Mapping) else []
        texts = {
            text_in(name): json_of(item) if (text := text_in(item)) is None else text
            for name, item in items
            if item is not None
        }
        return {name: text for name, text in texts.items() if name}
    return {}


MAX_JSON_CHARACTERS: Final = 16_000_000
"""Characters of a JSON text that is still read."""


def parsed(text: str) -> Any:
    """Return the value of a JSON text; the text itself if it is none, None if it is too much."""
    if text[:1] in ("{", "[", '"') or text in ("null", "true", "false"):
        try:
            return json.loads(text) if len(text) <= MAX_JSON_CHARACTERS else None
        except ValueError:
            return text
        except RecursionError:
            return None
    return text


def error_text(failure: Any) -> str:
    """Return `TypeName: message` of an exception, cut to `MAX_ERROR_CHARACTERS` characters.

    Only the type where the message cannot be had.
    """
    kind = type(failure).__name__
    if not issubclass(type(failure), BaseException):  # what it prints as may be of any length
        return kind
    try:
        message = str.__str__(str(failure))
    except Exception:  # noqa: BLE001 - an exception of anybody's
        return kind
    return f"{kind}: {message}"[:MAX_ERROR_CHARACTERS]


def status_of(failure: BaseException) -> Status:
    """Return how an interaction ended that this exception ended."""
    if isinstance(failure, GeneratorExit):
        return "partial"
    if isinstance(failure, (asyncio.CancelledError, KeyboardInterrupt)):
        return "cancelled"
    return "error"


class _Metadata:
    """The room that is left for the metadata of one record."""

    values = MAX_NODES
    characters = MAX_CHARACTERS

    def plain(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON has it, what is beyond a limit as `CUT`, others by their type."""
        self.values -= 1
        kind = type(value)
        if isinstance(value, str):
            self.characters -= len(value)
            is_left = self.characters >= 0 and self.values >= 0
            return encodable(str.__str__(value)) if is_left else CUT
        if value is None or kind is bool or kind is float:
            return value
        if self.values < 0 or depth > MAX_DEPTH or (kind is int and abs(value) > _MAX_INT64):
            return CUT
        if kind is int:
            return value
        # A structured answer is an object of a dataclass or of pydantic's.
        fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "model_fields", None)
        if isinstance(fields, Mapping):
            value = {name: getattr(value, name, None) for name in fields}
        if isinstance(value, Mapping):
            items = list(islice(value.items(), max(0, self.values) + 1))
            return {_name(key): self.plain(item, depth + 1) for key, item in items}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.plain(item, depth + 1) for item in islice(value, max(0, self.values) + 1)]
        return _scalar(value)


def _name(key: Any) -> str:
    text = text_in(key)
    return f"<{type(key).__name__}>" if text is None else encodable(text)[:MAX_ERROR_CHARACTERS]


def _scalar(value: Any) -> Any:
    """Return a scalar of another library's or of Python's; else its type's name."""
    if isinstance(value, Real):
        return float(value)
    try:
        scalar = str(value) if isinstance(value, PurePath) else text_in(value)
        scalar = msgspec.to_builtins(value) if scalar is None else scalar
    except Exception:  # noqa: BLE001 - it is none of msgspec's types
        scalar = None
    # Not what it prints as: that is the object's own code, and as long as it likes.
    return scalar if isinstance(scalar, str | int | float) else f"<{type(value).__name__}>"


def json_of(value: Any) -> str:
    """Return a value as JSON, cut where it is too long or too deep."""
    return json.dumps(_Metadata().plain(value), ensure_ascii=False)


def sound(interaction: Interaction) -> Interaction:
    """Return the record as all who read it expect it: of the declared types, and bounded.

    One with texts or chunks that cannot be read is incomplete. Where another field has another
    type than it declares, a record without texts is returned.
    """
    door = _Door()
    try:
        record: Interaction = door.read(interaction)
        if not door.is_whole:
            note_unreadable("expected texts in the fields of an Interaction, and lists of chunks")
            return replace(record, capture_incomplete=True)
        return record
    except Exception as error:  # noqa: BLE001 - anybody's objects; the record is counted all the same
        record_error("capture", error)
    return without_texts(interaction.framework, interaction.status, interaction.id)


class _Door:
    """Validates one record."""

    def __init__(self) -> None:
        self._metadata = _Metadata()
        self._known: dict[int, tuple[Chunk, Chunk]] = {}
        """The chunks that were read, by id: they stand in a record twice, retrieved and shown."""
        self.is_whole = True
        """Every text and chunk could be read."""

    def read(self, record: Any) -> Any:
        """Return a record of a record's fields. Raises `msgspec.ValidationError`."""
        kind = type(record)
        fields: dict[str, Any] = {}
        for name, field in kind.__dataclass_fields__.items():
            value = getattr(record, name)
            if field.type == "str":
                value = self._text(value)
            elif name == "status":
                value = status_in(value)
            elif name == "usage":
                value = value if isinstance(value, Usage) else usage_of(value)
            elif name.endswith("_ns") and not 0 <= value <= _MAX_INT64:
                raise NotReadableError("expected times in nanoseconds since the epoch")
            elif name in _OF_CHUNKS:
                value = self._chunks(value)
            elif name in _OF_STEPS:
                value = tuple(map(self.read, value))
            elif name == "tags":
                value = tuple(map(encodable, tags_in(value)))
            elif name == "attributes":
                value = {encodable(k): encodable(v) for k, v in attributes_in(value).items()}
            fields[name] = value
        return msgspec.convert(fields, kind)

    def _text(self, value: Any) -> str:
        text = text_in(value)
        self.is_whole = self.is_whole and text is not None
        return encodable(text or "")

    def _chunks(self, value: Any) -> tuple[Chunk, ...]:
        items, whole = items_in(value)
        chunks, readable = chunks_in(items)
        self.is_whole = self.is_whole and whole and readable
        return tuple([self._chunk(chunk) for chunk in chunks])

    def _chunk(self, chunk: Chunk) -> Chunk:
        known = self._known.get(id(chunk))
        if known is not None:
            return known[1]
        self.is_whole = self.is_whole and isinstance(chunk.text, str)
        metadata = self._metadata.plain(chunk.metadata) if chunk.metadata else {}
        read = Chunk(
            text=self._text(chunk.text),
            id=encodable(text_in(chunk.id) or ""),
            score=finite(chunk.score),
            metadata=metadata if isinstance(metadata, dict) else {},
        )
        self._known[id(chunk)] = chunk, read  # the original, so that its id is not used again
        return read


_OF_CHUNKS: Final = ("chunks", "not_shown", "reference_chunks")
_OF_STEPS: Final = ("retrievals", "generations", "input")


def without_texts(framework: Any, status: Any, identity: Any = "") -> Interaction:
    """Return the incomplete record, as of now, of an interaction of which no text can be had."""
    now_ns = time.time_ns()
    return Interaction(
        id=text_in(identity) or uuid.uuid4().hex,
        query="",
        chunks=(),
        answer="",
        framework=text_in(framework) or FRAMEWORK,
        started_ns=now_ns,
        ended_ns=now_ns,
        status=status_in(status),
        capture_incomplete=True,
    )


FRAMEWORK: Final = "python"
"""The framework of plain code, and of a framework that has no name."""


def status_in(value: Any) -> Status:
    """Return how an interaction ended; `ok` where that is none of the known ways."""
    text = text_in(value)
    return next((status for status in _STATUSES if status == text), "ok")


QDRANT_ID: Final = "_id"
"""LangChain's store for Qdrant keeps the point's id there, and gives its documents none."""
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
    fields: Any = value
    names: tuple[str, ...] = TEXT_NAMES[:1]
    if isinstance(value, Mapping):
        inner = value.get("kwargs") if "lc" in value else value.get("node")
        fields, names = inner if isinstance(inner, Mapping) else value, TEXT_NAMES
    texts = (member_in(fields, name) for name in names)
    text = next((each for each in texts if isinstance(each, str)), None)
    if text is None:
        return None
    metadata = member_in(fields, "metadata")
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    known = (member_in(fields, "id"), member_in(fields, "id_"), metadata.get(QDRANT_ID))
    identity = next((each for each in known if each is not None), "")  # which may be 0
    scores = (pair_score, finite(member_in(value, "score")), score_of(metadata))
    return Chunk(
        text=text,
        id=text_in(identity) or "",
        score=next((score for score in scores if score is not None), None),
        metadata=metadata,
    )


def finite(value: Any) -> float | None:
    """Return a finite number; None if it is none, or too large to be one of ours."""
    if type(value) is float:  # to ask an abstract class takes ten times as long
        return value if math.isfinite(value) else None
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
    return next((s for key in _SCORE_KEYS if (s := finite(metadata.get(key))) is not None), None)


def usage_of(counts: Any) -> Usage:
    """Return the tokens that a provider's own mapping or object counts, under any known name.

    Input tokens include those that came out of a cache, or went into it: where a provider counts
    these apart, they are added.
    """
    input_tokens = _counted(counts, _INPUT_TOKENS)
    if input_tokens is None:
        input_tokens = _counted(counts, _UNCACHED_TOKENS)
        if input_tokens is not None:
            input_tokens += sum(_counted(counts, (name,)) or 0 for name in _CACHED_TOKENS)
    return Usage(input_tokens=input_tokens, output_tokens=_counted(counts, _OUTPUT_TOKENS))


def _counted(counts: Any, names: tuple[str, ...]) -> int | None:
    for name in names:
        if (count := token_count(member_in(counts, name))) is not None:
            return count
    return None


MAX_TOKENS: Final = 100_000_000
"""The tokens of one call of a model; one larger number would be every sum for good."""


def token_count(value: Any) -> int | None:
    """Return the tokens of one call; None: no number is given, or one that cannot be."""
    is_whole = isinstance(value, float) and value.is_integer()  # Cohere's client
    if not (is_whole or isinstance(value, int)) or isinstance(value, bool):
        return None
    if 0 <= value <= MAX_TOKENS:
        return int(value)
    record_problem("capture", "a call cannot have used so many tokens: they are not counted")
    return None


def member_in(value: Any, name: str) -> Any:
    """Return what a mapping, or an object of fields, holds under a name; None: nothing."""
    # The exact type first: to ask an abstract class takes ten times as long.
    if type(value) is dict or isinstance(value, Mapping):
        return value.get(name)
    if isinstance(value, str | Sequence) or callable(value):
        return None
    member = getattr(value, name, None)
    return None if callable(member) else member


MAX_FINISH_REASON: Final = 100
_FINISH_REASONS: Final = ("finish_reason", "stop_reason", "done_reason")
"""The words of OpenAI and most others, of Anthropic, and of Ollama."""


def finish_reason_of(reply: Any) -> str:
    """Return why a model stopped, as a provider's reply says, a mapping or an object; else ""."""
    choices = member_in(reply, "choices")
    for holder in (reply, *(choices[:1] if isinstance(choices, list | tuple) else ())):
        for name in _FINISH_REASONS:
            reason = member_in(holder, name)
            if isinstance(reason, str) and reason:
                return reason[:MAX_FINISH_REASON]
    return ""
