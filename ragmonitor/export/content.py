"""The texts that may leave the process, and their form."""

from __future__ import annotations

import hmac
import importlib
import json
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from ragmonitor.records import REASONS, Chunk, SentenceVerdict, Verdict, error_type
from ragmonitor.runtime.printable import encodable

Content = Literal["all", "hashed", "none"]
"""Whether questions, prompts, chunks, answers and words of them may leave the process: as they are,
as keyed hashes (equal texts stay equal, nothing can be read), or not at all."""

CUT = "… [cut: {left_out} more bytes]"
"""Stands at the end of a text that was too long."""

HASH_DIGITS = 16
"""Hex digits: among a million texts two collide with a chance of 3 in 100 million."""

PROCESS_KEY = secrets.token_bytes(32)
"""The key of hashes where none is set: forgotten with the process (and shared by its forked
children)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPolicy:
    """Shows texts as they may be shown. Ids, names, numbers and scores are no texts, and stay."""

    content: Content = "all"
    key: bytes = field(default=PROCESS_KEY, repr=False)
    """The key of hashes; the same key in two processes gives the same hashes."""

    @property
    def shows(self) -> bool:
        """Whether there is anything at all to put where a text belongs."""
        return self.content != "none"

    def text(self, text: str) -> str:
        """Return what stands for the text; nothing stays nothing."""
        if self.content == "all" or not text:
            return text
        if self.content == "none":
            return ""
        return f"hmac-sha256:{self.digest(text)[:HASH_DIGITS]}:{len(text)}"

    def digest(self, text: str) -> str:
        """Return the hexadecimal digits of a text's HMAC-SHA256."""
        data = text.encode("utf-8", "surrogatepass")
        return hmac.digest(self.key, data, "sha256").hex()

    def error(self, error: str) -> str:
        """Return an error `TypeName: message`: the type always, messages quote prompts."""
        if self.content == "all" or not error:
            return error
        kind, message = error_kind(error), error_message(error)
        return f"{kind}: {self.text(message)}" if self.shows and message else kind

    def metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return a chunk's metadata with what stands for its texts; keys and numbers stay."""
        if self.content == "all":
            return dict(metadata)
        return dict(with_texts(dict(metadata), self.text))

    def sentence(self, sentence: SentenceVerdict) -> dict[str, Any]:
        """Return a sentence's verdict with its evidence, ready for JSON.

        Where the text may not be read its offsets in the answer stand beside the verdict.
        """
        entry: dict[str, Any] = {}
        if self.shows:
            entry["text"] = self.text(sentence.text)
        entry |= {"verdict": sentence.verdict.value, "severity": sentence.finding}
        if self.shows:
            entry["words"] = [self.text(word) for word in sentence.words]
        if self.content != "all":
            entry |= {"start": sentence.start, "end": sentence.end}
        return entry | {
            "chunks": list(sentence.chunks),
            "support": sentence.support,
            "reasons": self.reasons(sentence),
        }

    def reasons(self, sentence: SentenceVerdict) -> list[str]:
        """Return why a sentence is not supported: names that are ours; others may be texts."""
        shown = (each if each in REASONS else self.text(each) for each in sentence.reasons)
        return [each for each in shown if each]


def iso_time(time_ns: int) -> str:
    """Return a time as ISO 8601 has it, in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(time_ns / 1e9, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def error_kind(error: str) -> str:
    """Return the type of an error; `error` for one that does not say its own."""
    return (error_type(error) or "error") if error else ""


def error_message(error: str) -> str:
    """Return an error without its type."""
    return (error.partition(":")[2] if error_type(error) else error).strip()


def finite_score(chunk: Chunk) -> float | None:
    """Return a chunk's score; None: it has none, or one that JSON cannot hold."""
    score = chunk.score
    return None if score is None or not math.isfinite(score) else float(score)


def size_bytes(text: str) -> int:
    """Return how many bytes an encodable text takes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def clipped(text: str, most: int) -> str:
    """Return the text, encodable, with what is beyond `most` UTF-8 bytes cut off and said so.

    No character is split.
    """
    if len(text) <= most and text.isascii():  # as nearly always
        return text
    text = encodable(text)
    data = text.encode()
    size = len(data)
    if size <= most:
        return text
    # As long as the mark can get: what is left out has no more digits than the whole.
    room = most - size_bytes(CUT.format(left_out=size))
    if room < 0:
        return data[:most].decode("utf-8", "ignore")
    kept = data[:room].decode("utf-8", "ignore")
    return kept + CUT.format(left_out=size - size_bytes(kept))


def _plain(value: object) -> object:
    return float(value) if isinstance(value, float) else str(value)


_FAST: Final = msgspec.json.Encoder(enc_hook=_plain)
_ANY: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


def compact_json(value: Any) -> str:
    """Return compact JSON, Chinese as it is.

    What JSON lacks is written as its `str`, and a number that is none (NaN) as null.
    """
    try:
        return _FAST.encode(value).decode()
    except (TypeError, ValueError, OverflowError):  # odd keys, lone surrogates, huge numbers
        return _ANY.encode(mapped(value, _finite))


def encodable_json(value: Any) -> str:
    """Return `compact_json`, encodable."""
    return encodable(compact_json(value))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value for JSON with every text and number in it changed."""
    if isinstance(value, dict):
        return {str(key): mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [mapped(inner, change) for inner in value]
    return change(value)


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value for JSON with every text in it changed, and what JSON lacks made a text."""

    def changed(each: Any) -> Any:
        is_plain = each is None or isinstance(each, bool | int | float)
        return each if is_plain else change(str(each))

    return mapped(value, changed)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def is_unsupported(sentence: SentenceVerdict) -> bool:
    """Return whether the chunks lack or contradict what the sentence asserts."""
    return sentence.verdict in (Verdict.ABSENT, Verdict.CONTRADICTED)


def package_version() -> str:
    """Return this package's version.

    Not by an import statement: to the import contracts that would be an import of every stage.
    """
    return str(importlib.import_module("ragmonitor").__version__)
