"""Stands in for a search and a language model: the best passages, and their best sentence."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import nlargest

from ragmonitor import Chunk
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
PASSAGE_CHARACTERS = 600
PASSAGES_SHOWN = 4

_PARTS = re.compile(r"<context>\n(.*)\n</context>\s*Question:(.*)\n\s*Answer:\s*\Z", re.DOTALL)


class Weights:
    """Inverse document frequencies of pieces of words: one in few texts has a high weight."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Count the texts that hold each piece."""
        known = [set(piece_counts(text)) for text in texts]
        self._n_texts = len(known)
        self._holding = Counter(piece for each in known for piece in each)

    def of(self, pieces: Iterable[str]) -> float:
        """Return the weight of pieces together; that of each is above 0."""
        return sum(math.log(1 + (self._n_texts + 1) / (1 + self._holding[each])) for each in pieces)


class Passages:
    """Finds the passages that hold most of a question's weight."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        """Cut the documents, by name, into passages of whole paragraphs."""
        self._chunks = [
            Chunk(text=text, id=f"{name}#{at}", metadata={"source": name})
            for name, whole in documents.items()
            for at, text in enumerate(_passages(whole))
        ]
        self._words = [set(piece_counts(chunk.text)) for chunk in self._chunks]
        self.weights = Weights(chunk.text for chunk in self._chunks)

    def __call__(self, question: str) -> list[Chunk]:
        """Return the best passages, best first."""
        asked = set(piece_counts(question))
        matches = [self.weights.of(asked & words) for words in self._words]
        best = nlargest(PASSAGES_SHOWN, range(len(matches)), key=matches.__getitem__)
        return [self._chunks[at] for at in best]


def _passages(text: str) -> Iterator[str]:
    passage = ""
    for paragraph in text.split("\n\n"):
        if passage and len(passage) + len(paragraph) > PASSAGE_CHARACTERS:
            yield passage
            passage = ""
        passage = f"{passage}\n\n{paragraph}".strip()
    if passage:
        yield passage


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

        def match(sentence: str) -> float:
            return self._weights.of(asked.intersection(piece_counts(sentence)))

        best = max(readable_sentences(context), key=match, default="")
        if not asked or match(best) < MIN_MATCH * self._weights.of(asked):
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
