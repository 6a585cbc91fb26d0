"""Stands in for a language model: answers with the best sentence of its context."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable

from ragmonitor.evaluators.embeddings import piece_counts
from ragmonitor.judges.sentences import language, split

PROMPT = """\
Answer the question from the context alone. If the context does not say, say that you do not know.

<context>
{context}
</context>

Question: {question}
Answer:"""

REFUSAL = "I'm sorry, I don't know. The documents do not say anything about that."
REFUSAL_CHINESE = "抱歉，我不知道。文档中没有相关信息。"
MIN_MATCH = 0.3
"""Share of the question's weight that the best sentence must hold."""
DIMENSIONS = 512

_PARTS = re.compile(r"<context>\n(.*)\n</context>\s*Question:(.*)\n\s*Answer:\s*\Z", re.DOTALL)


class Weights:
    """Inverse document frequencies of pieces of words: one in few texts has a high weight."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Count the texts that hold each piece."""
        known = [set(piece_counts(text)) for text in texts]
        self._n_texts = len(known)
        self._holding = Counter(piece for each in known for piece in each)

    def __getitem__(self, piece: str) -> float:
        """Return the piece's weight, above 0."""
        return math.log(1 + (self._n_texts + 1) / (1 + self._holding[piece]))

    def vector(self, text: str) -> list[float]:
        """Return a unit vector of `DIMENSIONS` numbers, the same in every process.

        Source:
            Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (2009),
            arXiv:0902.2206: signed, so that collisions cancel out on average.
        """
        vector = [0.0] * DIMENSIONS
        for piece, n in piece_counts(text).items():
            code = zlib.crc32(piece.encode())
            sign = 1.0 if code & 0x80000000 else -1.0
            vector[code % DIMENSIONS] += sign * (1 + math.log(n)) * self[piece]
        length = math.hypot(*vector)
        if length == 0:
            vector[0] = length = 1.0  # a text without words still needs a direction
        return [value / length for value in vector]


class ExtractiveAnswerer:
    """Quotes the context. It is deterministic: the same prompt has the same answer."""

    def __init__(self, weights: Weights) -> None:
        """Take the weights of the documents' words."""
        self._weights = weights

    def __call__(self, prompt: str) -> str:
        """Return the sentence of the prompt's context that fits the question, or a refusal."""
        found = _PARTS.search(prompt)
        context, question = (found[1], found[2]) if found else ("", "")
        asked = set(piece_counts(question))
        total = sum(self._weights[piece] for piece in asked)

        def match(sentence: str) -> float:
            return sum(self._weights[piece] for piece in asked.intersection(piece_counts(sentence)))

        best = max(readable_sentences(context), key=match, default="")
        if not total or match(best) < MIN_MATCH * total:
            return REFUSAL_CHINESE if language(question) == "zh" else REFUSAL
        return best


def readable_sentences(markdown: str) -> list[str]:
    """Return the sentences of a piece of Markdown, without its marks.

    Headings, code blocks, rules, and sentences whose beginning or end was cut off are left out.
    """
    plain = [_plain(each.text) for each in split(markdown)]
    return [
        text
        for text in plain
        if len(text.encode()) >= 24
        and len(text) <= 400
        and text.endswith((".", "。"))
        and not (text.startswith(("#", "`", "~", "<", "|")) or text[0].islower())
    ]


_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKER = re.compile(r"\A(?:[-*+>]\s+|\d{1,3}[.)]\s+)+")


def _plain(markdown: str) -> str:
    """Return one sentence of Markdown as plain text on one line."""
    text = _MARKER.sub("", _LINK.sub(r"\1", markdown.strip()))
    if text.startswith("|"):
        text = ": ".join(cell.strip() for cell in text.strip("|").split("|") if cell.strip())
    return " ".join(text.replace("**", "").replace("`", "").split())
