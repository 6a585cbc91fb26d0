"""Functions from one assessment to one score, and the table of them.

Importing this package fills the table.
"""

# Sorted otherwise than by name: the table keeps the order, and so do files and screens.
# ruff: noqa: I001
from ragmonitor.evaluators import (
    faithfulness,
    answer_relevancy,
    context_relevance,
    context_utilization,
    hallucination,
    refusal,
    citations,
    language_match,
    generated_questions,
    relevant_sentences,
    context_recall,
    context_precision,
    factual_correctness,
    answer_correctness,
    noise_sensitivity,
    retrieval,
    ragchecker,
)
from ragmonitor.evaluators.diagnosis import diagnosis
from ragmonitor.evaluators.embedding import (
    Embedding,
    PricedEmbedding,
    EmbeddingUsage,
    character_grams,
    tab,
)
from ragmonitor.evaluators.rubric import rubric
from ragmonitor.evaluators.table import (
    Entry,
    Table,
    asking_evaluator,
    evaluate,
    evaluate_asking,
    evaluator,
    table,
    unscorable,
    unscored,
)

__all__ = [
    "Embedding",
    "EmbeddingUsage",
    "Entry",
    "PricedEmbedding",
    "Table",
    "answer_correctness",
    "answer_relevancy",
    "asking_evaluator",
    "character_grams",
    "citations",
    "context_precision",
    "context_recall",
    "context_relevance",
    "context_utilization",
    "diagnosis",
    "evaluate",
    "evaluate_asking",
    "evaluator",
    "factual_correctness",
    "faithfulness",
    "generated_questions",
    "hallucination",
    "language_match",
    "noise_sensitivity",
    "ragchecker",
    "refusal",
    "register_embedding",
    "relevant_sentences",
    "retrieval",
    "rubric",
    "tab",
    "table",
    "unscorable",
    "unscored",
]


def register_embedding(embedding: Embedding, *, version: int, into: Table = table) -> None:
    """Have every evaluator that compares texts by vectors use this embedding from now on.

    Args:
        embedding: From texts to vectors, in order. What a `PricedEmbedding` costs is counted with
            the judge's calls.
        version: Of those evaluators from now on; another for each embedding, 2 or more: a changed
            ruler must not look like a changed system.
        into: A table.
    """
    answer_correctness.register(embedding, version=version, into=into)
    generated_questions.register(embedding, version=version, into=into)
