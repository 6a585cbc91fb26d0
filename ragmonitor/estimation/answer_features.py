"""Turns what the built-in judge knows of an answer into numbers from which a model learns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log, sqrt
from typing import Final, NamedTuple
from zlib import crc32

from ragmonitor.records import REASONS, Features, Interaction, Report, Verdict

WORD_GROUPS: Final = 32
"""Missing words are hashed into so many groups."""
ROUTE_GROUPS: Final = 8
MAX_SENTENCES: Final = 50
MAX_WORDS: Final = 64
"""So many sentences and missing words of an answer are looked at."""
_WORST: Final = 3

_REASONS: Final = tuple(sorted(REASONS))
NAMES: Final[tuple[str, ...]] = (
    "base rate",
    "risk",
    *(f"support missing in worst sentence {rank}" for rank in range(1, _WORST + 1)),
    "support missing, mean",
    "sentences absent, share",
    "sentences contradicted, share",
    "sentences without a claim, share",
    *(f"failed check: {reason}" for reason in (*_REASONS, "other")),
    "sentences, number",
    "answer, length",
    "chunks, length",
    "chunks, number",
    "question, length",
    "answer relevancy",
    "best chunk's relevance",
    "mean relevance of the chunks",
    "answer in Chinese",
    *(f"route, group {group}" for group in range(ROUTE_GROUPS)),
    *(f"missing words, group {group}" for group in range(WORD_GROUPS)),
)
"""The names of the features, in order. They change with what features mean: a state of others
begins anew."""
_WORST_AT: Final = tuple(range(2, 2 + _WORST))
_MEAN_AT: Final = 2 + _WORST
_VERDICT_AT: Final = {
    Verdict.ABSENT: _MEAN_AT + 1,
    Verdict.CONTRADICTED: _MEAN_AT + 2,
    Verdict.NO_CLAIM: _MEAN_AT + 3,
}
_CHECK_AT: Final = {reason: NAMES.index(f"failed check: {reason}") for reason in _REASONS}
_OTHER_AT: Final = NAMES.index("failed check: other")
_LENGTHS_AT: Final = tuple(range(_OTHER_AT + 1, _OTHER_AT + 6))
_RELEVANCY_AT: Final = NAMES.index("answer relevancy")
_CHINESE_AT: Final = NAMES.index("answer in Chinese")
_ROUTES_AT: Final = NAMES.index("route, group 0")
_WORDS_AT: Final = NAMES.index("missing words, group 0")
_LONG: Final = exp(4.0)


class LabelledAnswer(NamedTuple):
    """The features of an answer that a person has labelled."""

    features: Features
    risk: float
    language: str
    bad: bool


def features_of(report: Report) -> Features | None:
    """Return what the built-in judge knows of an answer; None: it could not read it.

    Values lie between -2 and 2. Nothing of it is a text: words and routes are hashed.

    Args:
        report: By the built-in judge.

    Source:
        Weinberger et al., "Feature hashing for large scale multitask learning" (2009), section 2,
        for words with a hashed sign.
    """
    assessment = report.assessment
    if assessment is None or assessment.risk is None or not assessment.sentences:
        return None
    risk, sentences = assessment.risk, assessment.sentences[:MAX_SENTENCES]
    odds = log((risk + 0.02) / (1.02 - risk)) / 2
    found = [(0, 1.0), (1, odds)]
    missing = [1.0 - s.support for s in sentences if s.support is not None]
    if missing:
        if len(missing) > 1:
            missing.sort(reverse=True)
        found += zip(_WORST_AT, missing, strict=False)
        found.append((_MEAN_AT, sum(missing) / len(missing)))
    words: list[str] = []
    share = 1.0 / len(sentences)
    shares: dict[int, float] = {}
    for sentence in sentences:
        words += sentence.words
        if sentence.verdict is not Verdict.SUPPORTED:
            at = _VERDICT_AT[sentence.verdict]
            shares[at] = shares.get(at, 0.0) + share
            for reason in sentence.reasons:
                at = _CHECK_AT.get(reason, _OTHER_AT)
                shares[at] = min(1.0, shares.get(at, 0.0) + share)
    found += shares.items()
    found += _of_texts(report.interaction, len(assessment.sentences))
    if assessment.answer_relevancy:
        found.append((_RELEVANCY_AT, assessment.answer_relevancy))
    relevance = assessment.chunk_relevance
    if relevance:
        found.append((_RELEVANCY_AT + 1, max(relevance)))
        found.append((_RELEVANCY_AT + 2, sum(relevance) / len(relevance)))
    if assessment.language == "zh":
        found.append((_CHINESE_AT, 1.0))
    if words:
        found += _of_words(words[:MAX_WORDS])
    return tuple(found)


def _of_texts(interaction: Interaction, sentences: int) -> list[tuple[int, float]]:
    """Return the lengths, as logarithms relative to usual ones and cut, and the route."""
    lengths = (
        (sentences + 1) / 4,
        (len(interaction.answer) + 1) / 300,
        (sum([len(chunk.text) for chunk in interaction.chunks]) + 1) / 2_000,
        (len(interaction.chunks) + 1) / 4,
        (len(interaction.query) + 1) / 60,
    )
    found = [
        (at, max(-2.0, log(length) / 2) if length < _LONG else 2.0)
        for at, length in zip(_LENGTHS_AT, lengths, strict=True)
    ]
    attributes = interaction.attributes
    route = (attributes.get("route") if attributes else None) or interaction.name
    if route:
        found.append((_ROUTES_AT + crc32(route.encode("utf-8", "replace")) % ROUTE_GROUPS, 1.0))
    return found


def _of_words(words: Sequence[str]) -> Iterable[tuple[int, float]]:
    """Return the groups of the missing words, of Euclidean length 1 if each has its own."""
    size = 1.0 / sqrt(len(words))
    found: dict[int, float] = {}
    for word in words:
        digest = crc32(word.lower().encode("utf-8", "replace"))
        at = _WORDS_AT + digest % WORD_GROUPS
        found[at] = found.get(at, 0.0) + (size if digest & 0x8000_0000 else -size)
    if len(found) < len(words):
        return [(at, min(2.0, max(-2.0, value))) for at, value in found.items()]
    return found.items()
