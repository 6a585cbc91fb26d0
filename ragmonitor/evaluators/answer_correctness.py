"""Answer similarity and answer correctness: the answer beside the reference answer."""

from __future__ import annotations

from typing import Final

from ragmonitor.evaluators.embedding import (
    Embedding,
    PricedEmbedding,
    character_grams,
    nearness,
    vectors,
)
from ragmonitor.evaluators.reference import counts_of
from ragmonitor.evaluators.table import Entry, Table, table
from ragmonitor.protocols import Evaluator
from ragmonitor.records import Assessment, Interaction

FACTS_WEIGHT: Final = 0.75
"""Of the F1 of the claims; the rest is the similarity's."""


def answer_similarity_by(embedding: Embedding) -> Evaluator:
    """Return `answer_similarity` with this embedding."""

    def answer_similarity(interaction: Interaction, _assessment: Assessment) -> float:
        """Return the cosine between the vectors of the answer and of the reference.

        Returns:
            0 (nothing in common; so too what points away) to 1 (the same direction).

        Source:
            RAGAS 0.4.3, semantic similarity. The embedding without a network compares what is
            written, not what is meant.
        """
        answer, reference = vectors(embedding, [interaction.answer, interaction.reference])
        return nearness(answer, reference)

    return answer_similarity


def answer_correctness_by(embedding: Embedding) -> Evaluator:
    """Return `answer_correctness` with this embedding."""
    similarity = answer_similarity_by(embedding)

    def answer_correctness(interaction: Interaction, assessment: Assessment) -> float:
        """Return 0.75 * the F1 of the claims + 0.25 * the similarity to the reference.

        Returns:
            0 (wrong, and written differently) to 1 (the reference).

        Raises:
            NotScorableError: As `factual_correctness`.

        Source:
            RAGAS 0.4.3, answer correctness, with its weights.
        """
        facts = counts_of(assessment).f1
        return FACTS_WEIGHT * facts + (1 - FACTS_WEIGHT) * similarity(interaction, assessment)

    return answer_correctness


def register(embedding: Embedding, *, version: int, into: Table = table) -> None:
    """Register both with this embedding, in the place of those that are there.

    Args:
        embedding: Called once for each answer, on a thread if it is a `PricedEmbedding`.
        version: Another for each embedding: a changed ruler must not look like a changed system.
        into: A table.
    """
    for name, function in (
        ("answer_similarity", answer_similarity_by(embedding)),
        ("answer_correctness", answer_correctness_by(embedding)),
    ):
        into.register(
            Entry(
                name=name,
                version=version,
                evaluator=function,
                needs_context=False,
                needs_reference=True,
                waits=isinstance(embedding, PricedEmbedding),
            )
        )


register(character_grams, version=1)
