"""Stands in for a language model: answers with the best sentences of the context it is shown."""

from __future__ import annotations

import re

from ragmonitor.cli.demo.terms import Weights, terms
from ragmonitor.judges.sentences import HAN, language, split

PROMPT = """\
Answer the question from the context alone. If the context does not say, say that you do not know.

<context>
{context}
</context>

Question: {question}
Answer:"""

REFUSAL = "I'm sorry, I don't know. The documents do not say anything about that."
REFUSAL_CHINESE = "抱歉，我不知道。文档中没有相关信息。"

_PARTS = re.compile(r"<context>\n(.*)\n</context>\s*Question:(.*)\n\s*Answer:\s*\Z", re.DOTALL)
MAX_SENTENCES = 3
MIN_MATCH = 0.4
"""Share of the question's weight that the best sentence must hold."""
NEXT_BEST = 0.8
"""The share of the best sentence's match that further ones need."""
UNFINISHED = 0.7
"""Weight of what may have been cut by the chunker."""


class ExtractiveAnswerer:
    """Deterministic: the same prompt has the same answer."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def __call__(self, prompt: str) -> str:
        """Return one to three sentences of the prompt's context, or a refusal."""
        context, question = parts(prompt)
        refusal = REFUSAL_CHINESE if language(question) == "zh" else REFUSAL
        asked = set(terms(question))
        if not asked:
            return refusal
        total = sum(self._weights[term] for term in asked)
        matches: list[tuple[float, int, str]] = []
        known: set[str] = set()
        for position, sentence in enumerate(readable_sentences(context)):
            if sentence in known:  # chunks overlap
                continue
            known.add(sentence)
            held = sum(self._weights[term] for term in asked.intersection(terms(sentence)))
            share = held / total * (1.0 if _is_finished(sentence) else UNFINISHED)
            matches.append((share, position, sentence))
        matches.sort(key=lambda match: (-match[0], match[1]))
        if not matches or matches[0][0] < MIN_MATCH:
            return refusal
        chosen = [match for match in matches if match[0] >= NEXT_BEST * matches[0][0]]
        chosen = sorted(chosen[:MAX_SENTENCES], key=lambda match: match[1])
        return " ".join(_closed(sentence) for _, _, sentence in chosen)


def parts(prompt: str) -> tuple[str, str]:
    """Return (context, question) of a filled `PROMPT`; what is not there is empty."""
    found = _PARTS.search(prompt)
    return (found[1], found[2].strip()) if found else ("", "")


def readable_sentences(markdown: str) -> list[str]:
    """Return the sentences of a piece of Markdown, without its marks.

    Left out: headings, code blocks, rules, and what was plainly cut at its beginning.
    """
    found = []
    for sentence in split(markdown):
        if sentence.text.lstrip().startswith(("#", "```", "~~~", "<!--", "|--", "| --")):
            continue
        text = plain(sentence.text)
        long_enough = len(text.split()) >= 4 or len(re.findall(f"[{HAN}]", text)) >= 8
        if long_enough and len(text) <= 400 and not text[0].islower():
            found.append(text)
    return found


_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_LEAD = re.compile(r"\A\*\*[^*]{1,40}[.:：。]\*\*\s*")
"""`**Budget.** ...`: a heading in disguise."""
_MARKER = re.compile(r"\A(?:[-*+>]\s+|\d{1,3}[.)]\s+)+")
_EMPHASIS = re.compile(
    r"\*\*|(?<!\w)__(?=\S)|(?<=\S)__(?!\w)|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])|`"
)


def plain(markdown: str) -> str:
    """Return one sentence of Markdown as plain text on one line."""
    text = _LINK.sub(r"\1", markdown.strip())
    if text.startswith("|"):
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        text = ": ".join(cell for cell in cells if cell)
    text = _EMPHASIS.sub("", _LEAD.sub("", _MARKER.sub("", text)))
    return " ".join(text.split())


def _closed(sentence: str) -> str:
    """Return the sentence with a stop, so that the next one is not read as its end."""
    if _is_finished(sentence):
        return sentence
    return sentence.rstrip(" ,;:，：") + ("。" if language(sentence) == "zh" else ".")


def _is_finished(sentence: str) -> bool:
    return sentence.rstrip("\"'”’」』）)").endswith((".", "!", "?", "。", "！", "？"))
