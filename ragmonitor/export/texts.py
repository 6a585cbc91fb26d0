"""What text may leave the process, and in which shape."""

from __future__ import annotations

import importlib
import json
import math
from typing import Any, Literal

from ragmonitor.records import SentenceVerdict, Verdict

Content = Literal["all", "none"]
"""Whether questions, chunks, answers and words of them may leave the process."""

CUT = "… [cut: {left_out} more characters]"
"""Stands at the end of a text that was too long."""


def encodable(text: str) -> str:
    """Return the text with every lone surrogate replaced by `?`.

    One of them in one attribute would fail the encoding of its whole batch of spans.
    """
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def clipped(text: str, most: int) -> str:
    """Return the text, encodable, with what is beyond `most` characters cut off and said so."""
    if len(text) > most:
        text = text[:most] + CUT.format(left_out=len(text) - most)
    return encodable(text)


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)


def compact_json(value: Any) -> str:
    """Return compact JSON, Chinese as it is.

    What JSON lacks is written as its `str`, and a number that is none (NaN) as null.
    """
    try:
        return _JSON.encode(value)
    except (TypeError, ValueError):  # a key that is no string, a NaN
        return _JSON.encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def error_type(error: str) -> str:
    """Return the type's name in `TypeName: message`."""
    return error.partition(":")[0].strip() or "error"


def error_text(error: str, content: Content) -> str:
    """Return the error; only its type where no content may leave: messages quote prompts."""
    return error if content == "all" else error_type(error)


def sentence_entry(sentence: SentenceVerdict, content: Content) -> dict[str, Any]:
    """Return a sentence's verdict with its evidence, ready for JSON.

    Without content the offsets stand in for the text.
    """
    entry: dict[str, Any] = {"verdict": sentence.verdict.value}
    if content == "all":
        entry = {"text": sentence.text, **entry, "words": list(sentence.words)}
    else:
        entry |= {"start": sentence.start, "end": sentence.end}
    return entry | {
        "chunks": list(sentence.chunks),
        "support": sentence.support,
        "reasons": list(sentence.reasons),
    }


def is_unsupported(sentence: SentenceVerdict) -> bool:
    """Return whether the chunks lack or contradict what the sentence asserts."""
    return sentence.verdict in (Verdict.ABSENT, Verdict.CONTRADICTED)


def package_version() -> str:
    """Return this package's version.

    Not by an import statement: to the import contracts that would be an import of every stage.
    """
    return str(importlib.import_module("ragmonitor").__version__)
