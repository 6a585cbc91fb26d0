"""One bounded reader of documents, wherever an application or a framework puts them.

It knows documents of LangChain's and their dumps, nodes of LlamaIndex's that were dumped, mappings
with a text, pairs with a score, and lists, tuples and mappings of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ragmonitor.capture.coercion import MAX_CHUNKS, finite, member_of, score_of, text_in
from ragmonitor.records import Chunk

TEXT_NAMES: Final = ("page_content", "pageContent", "text", "content")
LIST_NAMES: Final = ("context", "source_documents", "documents", "docs")
"""Names under which chains and states keep what was retrieved."""
_OF_DOCUMENTS: Final = ("metadata", "id", "id_", "score")


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


def documents_in(value: Any, *, texts: bool = False) -> list[Chunk] | None:
    """Return the documents in a container of them, perhaps under a name; None: it is none.

    Args:
        value: A list, a tuple, or a mapping that holds one under one of `LIST_NAMES`.
        texts: Whether a list of plain texts is one of documents.
    """
    if isinstance(value, Mapping):
        held = (documents_in(value[name], texts=texts) for name in LIST_NAMES if name in value)
        return next((found for found in held if found), None)
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MAX_CHUNKS:
        return None
    chunks = [chunk_in(item) for item in value if _is_document(item, texts=texts)]
    return [each for each in chunks if each is not None] if len(chunks) == len(value) else None


def _is_document(item: Any, *, texts: bool) -> bool:
    if isinstance(item, list | tuple) and len(item) == 2 and finite(item[1]) is not None:
        item = item[0]
    if isinstance(item, str):
        return texts
    if isinstance(item, Mapping):
        fields = item.get("kwargs") if "lc" in item else item
        if not isinstance(fields, Mapping) or "role" in fields:
            return False
        return any(isinstance(fields.get(name), str) for name in TEXT_NAMES[:2]) or (
            any(isinstance(fields.get(name), str) for name in TEXT_NAMES[2:])
            and any(name in fields for name in _OF_DOCUMENTS)
            and "type" not in fields
        )
    return isinstance(item, Chunk) or isinstance(getattr(item, "page_content", None), str)
