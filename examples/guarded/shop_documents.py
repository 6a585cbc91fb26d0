"""What both applications of this folder share: documents, word vectors, and a model that quotes.

SHOP_RELEASE=broken is a release whose index was built from last year's documents.
"""

from __future__ import annotations

import os
import re
from zlib import crc32

CURRENT = {
    "returns.md": "Returns are free within 30 days of delivery.",
    "delivery.md": "Parcels arrive within three working days.",
    "warranty.md": "The warranty of the lamp lasts two years.",
    "hours.md": "The shop opens at 9 and closes at 18.",
}
STALE = {
    "returns.md": "Returns cost 5 euros within 14 days of delivery.",
    "delivery.md": "Parcels arrive within three working days.",
    "hours.md": "The shop opens at 9 and closes at 18.",
}
COMMON = {"the", "of", "is", "are", "a", "at", "and", "does", "do", "how", "what", "when", "within"}


def documents() -> dict[str, str]:
    """Return what this release has in its index."""
    return STALE if os.environ.get("SHOP_RELEASE") == "broken" else CURRENT


def words(text: str) -> set[str]:
    """Return the words that matter, without endings."""
    found = re.findall(r"[a-z0-9]+", text.lower())
    return {word.removesuffix("s") for word in found if word not in COMMON}


def vector(text: str) -> list[float]:
    """Return a vector of words: yours is an embedding model."""
    counts = [0.0] * 256
    for word in words(text):
        counts[crc32(word.encode()) % 256] += 1.0
    return counts


def quoted(question: str, context: str) -> str:
    """Return the line of the context that speaks of the question: yours is a model."""
    asked = words(question)
    best = max(context.splitlines(), key=lambda line: len(asked & words(line)), default="")
    if len(asked & words(best)) < 2:
        return "I cannot find that in our documents."
    return best.strip()
