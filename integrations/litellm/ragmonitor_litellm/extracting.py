"""Reads what was retrieved out of a call.

litellm sees a prompt, and only the application knows which part of it is context. An extractor
gets the messages of one call and what litellm tells its callbacks about it, and returns an
`Extracted`, or None if the call answers no question over retrieved text. Extractors run behind the
request path and may take their time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from string import Formatter
from typing import Any

from ragmonitor import Chunk
from ragmonitor.integration import chunk_in, member_in, part_text

Messages = Sequence[Mapping[str, Any]]
"""The messages as litellm was given them, in order: `role`, `content`, ..."""

METADATA_KEY = "ragmonitor"
"""Under which an application says in `metadata` what it retrieved."""

_CONTEXT, _QUESTION = "context", "question"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """The question and the chunks of one call."""

    query: str
    """The question, as the user asked it."""
    chunks: Sequence[Chunk | str] = ()
    """In the order the model saw them. Empty: nothing was found."""


Extractor = Callable[[Messages, Mapping[str, Any]], Extracted | None]
"""Takes the messages, and what litellm tells of the call: `model`, `metadata`, `optional_params`,
`litellm_params`, `litellm_call_id`, ... May raise: the interaction is then counted, not scored."""


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, of several parts too; images and the like are left out."""
    content = message.get("content")
    parts = content if isinstance(content, list | tuple) else ()
    return content if isinstance(content, str) else "\n".join(filter(None, map(part_text, parts)))


def last_question(messages: Messages) -> str:
    """Return the text of the last message of the user; empty if there is none."""
    return next((text_of(m) for m in reversed(messages) if m.get("role") == "user"), "")


def tagged(open: str = "<context>", close: str = "</context>") -> Extractor:  # noqa: A002 - reads as what it is: tagged(open="<docs>", ...)
    """Return an extractor for prompts that put the context between two marks.

    Every such passage of the system's and the user's messages counts, earlier turns included: the
    model sees them all. Chunks are parted at blank lines. The question is what stands behind the
    last passage in the last message of the user, or before the first.

    Raises:
        ValueError: A mark is empty.
    """
    if not open or not close:
        raise ValueError("a mark is empty")
    passages = re.compile(f"{re.escape(open)}(.*?){re.escape(close)}", re.DOTALL)

    def extract(messages: Messages, _call: Mapping[str, Any]) -> Extracted | None:
        texts = [text_of(m) for m in messages if m.get("role") in ("system", "developer", "user")]
        contexts = [found for text in texts for found in passages.findall(text)]
        if not contexts:
            return None
        last = last_question(messages)
        return Extracted(
            query=last.rpartition(close)[2].strip() or last.partition(open)[0].strip(),
            chunks=list(dict.fromkeys(piece for text in contexts for piece in _pieces(text))),
        )

    return extract


def from_template(*templates: str) -> Extractor:
    r"""Return an extractor that reads the application's own prompt template backwards.

    `from_template("Context:\n{context}\n\nQuestion: {question}")`. Several templates, for a system
    and a user message, are each matched with every message, and the last message that matches
    counts. Where no template holds the question, it is the last message of the user. Chunks are
    parted at blank lines.

    Where the template's own words stand in a text as well, the context is taken as long as it can
    be: documents quote such words more often than questions do.

    Args:
        templates: As for `str.format`, with named fields, `context` and `question` among them.

    Raises:
        ValueError: No template holds the context, or two fields touch.
    """
    known = [_backwards(template) for template in templates]
    if not any(_CONTEXT in pattern.groupindex for pattern in known):
        raise ValueError(f"no template holds {{{_CONTEXT}}}")

    def extract(messages: Messages, _call: Mapping[str, Any]) -> Extracted | None:
        found: dict[str, str] = {}
        for message in messages:
            if message.get("role") in ("assistant", "tool", "function"):
                continue
            text = text_of(message).strip()
            for pattern in known:
                match = pattern.fullmatch(text) if pattern.groupindex else None
                found |= match.groupdict() if match else {}
        if _CONTEXT not in found:
            return None
        query = found[_QUESTION] if _QUESTION in found else last_question(messages)
        return Extracted(query=query.strip(), chunks=_pieces(found[_CONTEXT]))

    return extract


def tool_messages(*names: str) -> Extractor:
    """Return an extractor for agents: what search tools replied is the context.

    A reply is one chunk, or, if it is a JSON list of texts or of objects with a `text`, `content`
    or `page_content`, one for each.

    Args:
        names: Patterns (`fnmatch`) of the tools' names; none: `*search*`, `*retriev*`, `*lookup*`,
            `*knowledge*`, as in the setting `capture.retrieval_tools`.
    """
    patterns = names or ("*search*", "*retriev*", "*lookup*", "*knowledge*")

    def extract(messages: Messages, _call: Mapping[str, Any]) -> Extracted | None:
        called = {
            member_in(call, "id"): member_in(member_in(call, "function"), "name")
            for message in messages
            for call in message.get("tool_calls") or ()
        }
        chunks: list[Chunk] = []
        has_retrieved = False
        for message in messages:
            name = str(message.get("name") or called.get(message.get("tool_call_id"))).lower()
            if message.get("role") == "tool" and any(fnmatch(name, p.lower()) for p in patterns):
                has_retrieved = True
                chunks += _listed(text_of(message))
        return Extracted(query=last_question(messages), chunks=chunks) if has_retrieved else None

    return extract


def first_of(*extractors: Extractor) -> Extractor:
    """Return an extractor that asks several, in order, and takes what the first one finds."""

    def extract(messages: Messages, call: Mapping[str, Any]) -> Extracted | None:
        found = (each(messages, call) for each in extractors)
        return next((each for each in found if each is not None), None)

    return extract


def from_metadata(metadata: Any, messages: Messages) -> Extracted:
    """Return what an application said under `metadata["ragmonitor"]`.

    Args:
        metadata: `{"query": text, "chunks": [text or {"text", "id", "score", "metadata"}]}`, or the
            same as JSON: clients of OpenAI's API send texts only. Without a query, it is the last
            message of the user.
        messages: Of the call.

    Raises:
        TypeError: It has another shape.
        ValueError: It is no JSON.
    """
    if isinstance(metadata, str):
        metadata = json.loads(metadata)
    query, chunks = member_in(metadata, "query"), member_in(metadata, "chunks")
    if not isinstance(chunks, list | tuple):
        raise TypeError(
            f"metadata[{METADATA_KEY!r}] has to be a mapping with 'query' and 'chunks' (a list)"
        )
    query = query if isinstance(query, str) else last_question(messages)
    return Extracted(query=query, chunks=[*map(chunk_of, chunks)])


def chunk_of(document: Any) -> Chunk:
    """Return a chunk from a chunk, a text, or a mapping with `text`, `content` or `page_content`.

    Raises:
        TypeError: It is none of these.
    """
    if (chunk := chunk_in(document)) is None:
        what = type(document).__name__
        raise TypeError(f"a chunk has to be a text or a mapping with 'text', not {what}")
    return chunk


def _backwards(template: str) -> re.Pattern[str]:
    """Return the pattern that reads a template's fields off a text."""
    pattern, fields = "", list[str]()
    # Applications strip what they have formatted.
    for literal, field, _, _ in Formatter().parse(template.strip()):
        if (fields and not literal) or field in fields:
            raise ValueError(f"fields touch, or stand twice, in the template {template!r}")
        pattern += re.escape(literal)
        if field is not None:
            fields.append(field)
            # As much as can be is the context's.
            pattern += f"(?P<{field}>.*)" if field == _CONTEXT else f"(?P<{field}>.*?)"
    return re.compile(pattern, re.DOTALL)


def _pieces(context: str) -> list[str]:
    return [text for piece in context.split("\n\n") if (text := piece.strip())]


def _listed(reply: str) -> list[Chunk]:
    try:
        listed = json.loads(reply) if reply.lstrip().startswith("[") else [reply]
        return [chunk_of(each) for each in listed]
    except (ValueError, TypeError):
        return [Chunk(text=reply)]  # prose that begins with a bracket, or a list of something else
