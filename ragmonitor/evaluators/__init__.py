"""Functions from one assessment to one score, and the table of them.

Importing this package fills the table.
"""

from dataclasses import replace
from functools import partial
from typing import Any

# Not sorted by name: the table keeps this order, and so do files and screens.
# ruff: noqa: I001
from ragmonitor.evaluators import (  # noqa: F401
    reference_free,
    citations,
    language_match,
    asking,
    by_reference,
    retrieval,
)
from ragmonitor.evaluators.asking import rubric
from ragmonitor.evaluators.diagnosis import diagnosis
from ragmonitor.evaluators.embeddings import Embedding, remembering
from ragmonitor.evaluators.table import (
    Table,
    evaluate,
    evaluate_asking,
    evaluator,
    table,
    unscorable,
    unscored,
)

__all__ = [
    "Embedding",
    "Table",
    "diagnosis",
    "evaluate",
    "evaluate_asking",
    "evaluator",
    "register_embedding",
    "rubric",
    "table",
    "unscorable",
    "unscored",
]


def register_embedding(embedding: Embedding, *, version: int, into: Table = table) -> None:
    """Have every evaluator that compares texts by vectors use this embedding from now on.

    Args:
        embedding: From texts to vectors, in order; called on a thread. No budget counts it.
        version: The version of those evaluators from now on, 2 or more: another for each embedding,
            since a changed measure must not look like a changed system.
        into: A table.
    """
    names = ("answer_relevancy_by_questions", "answer_similarity", "answer_correctness")
    vectors = remembering(embedding)
    for entry in table.select(names):
        function: Any = entry.evaluator
        comparing = partial(function, vectors=vectors)
        into.register(replace(entry, version=version, evaluator=comparing, waits=True))
