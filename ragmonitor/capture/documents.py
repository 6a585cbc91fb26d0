"""One bounded reader of documents, wherever an application or a framework puts them.

It knows documents of LangChain's and their dumps, nodes of LlamaIndex's that were dumped, mappings
with a text, pairs with a score, and lists, tuples and mappings of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragmonitor.capture.coercion import (
    MAX_CHUNKS,
    QDRANT_ID,
    TEXT_NAMES,
    chunk_in,
    finite,
    score_of,
)
from ragmonitor.records import Chunk

LIST_NAMES: Final = ("context", "source_documents", "documents", "docs", "results")
"""Names under which chains, states and searches keep what was retrieved."""
_OF_DOCUMENTS: Final = ("metadata", "id", "id_", "score", "url")


class KeptDocuments(list[tuple[Any, str | None, Mapping[str, Any], float | None]]):
    """(id, text, metadata, score) of each document, as it was when the retriever gave it.

    None as text: its content is no text. It costs the request a tenth of what chunks would.
    """

    def chunks(self) -> tuple[Chunk, ...]:
        """Return them as chunks, behind the request path."""
        return tuple(
            Chunk(
                text=text or "",
                id=str(id_ or metadata.get(QDRANT_ID) or ""),  # MongoDB's is an object
                score=score_of(metadata) if score is None else score,
                metadata=metadata,
            )
            for id_, text, metadata, score in self
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
