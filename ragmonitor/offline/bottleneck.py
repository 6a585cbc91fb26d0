"""Finds which step to improve, by a reference answer: the model, or a step of retrieval."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from ragmonitor.records import Cause, Evaluation, Scored, evaluator_name

CORRECT_FROM: Final = 0.7
"""Answer correctness from which an answer counts as right: three of four claims and some likeness.
All three thresholds are conventions and not measured; read the shares, not one answer."""
RECALLED_FROM: Final = 0.8
"""Context recall from which the chunks count as holding what the reference says."""
PRECISE_FROM: Final = 0.5
"""Context precision from which the relevant chunks count as standing before the others."""


class Bottleneck(StrEnum):
    """The step to work on first, for one answer."""

    NONE = "none"
    """Right, with all of it in the chunks."""
    MODEL = "model"
    """Wrong, with the facts in good chunks."""
    NOISE = "noise"
    """Wrong, with the facts in the chunks among or behind others that are beside the point."""
    TOO_FEW_CHUNKS = "too_few_chunks"
    """Wrong; the chunks are to the point, and do not hold everything."""
    PARSING_AND_CHUNKING = "parsing_and_chunking"
    """Wrong; the facts are not in the chunks, nor are the chunks to the point."""
    BEYOND_CONTEXT = "beyond_context"
    """Right, without all of it in the chunks: the model knew, or the reference says too much."""


ADVICE: Final[dict[Bottleneck, str]] = {
    Bottleneck.NONE: "Nothing to do.",
    Bottleneck.MODEL: "The facts were there: improve the prompt, or take a stronger model.",
    Bottleneck.NOISE: "Rerank, raise the least similarity, or retrieve fewer chunks.",
    Bottleneck.TOO_FEW_CHUNKS: "Retrieve more chunks, larger ones, or rewrite the question.",
    Bottleneck.PARSING_AND_CHUNKING: "See that the document is in the index and whole; then look "
    "at how it is parsed and cut, and at the embedding model.",
    Bottleneck.BEYOND_CONTEXT: "Right for now by what the model knows: treat the documents as "
    "missing, and look at faithfulness.",
}


def bottleneck_of(evaluations: Iterable[Evaluation]) -> Bottleneck | None:
    """Return the step to work on first for one answer; None unless all three scores are there.

    They need a reference answer. Where nothing was retrieved there is no context precision; it
    then counts as low.

    | answer correctness | context recall | context precision | |
    |---|---|---|---|
    | high | high | any | none |
    | high | low | any | beyond_context |
    | low | high | high | model |
    | low | high | low | noise |
    | low | low | high | too_few_chunks |
    | low | low | low | parsing_and_chunking |
    """
    scores = {
        evaluator_name(each.evaluator): each.score if isinstance(each, Scored) else 0.0
        for each in evaluations
        if isinstance(each, Scored) or each.cause is Cause.NO_CONTEXT
    }
    if not scores.keys() >= {"answer_correctness", "context_recall", "context_precision"}:
        return None
    is_recalled = scores["context_recall"] >= RECALLED_FROM
    is_precise = scores["context_precision"] >= PRECISE_FROM
    if scores["answer_correctness"] >= CORRECT_FROM:
        return Bottleneck.NONE if is_recalled else Bottleneck.BEYOND_CONTEXT
    if is_recalled:
        return Bottleneck.MODEL if is_precise else Bottleneck.NOISE
    return Bottleneck.TOO_FEW_CHUNKS if is_precise else Bottleneck.PARSING_AND_CHUNKING
