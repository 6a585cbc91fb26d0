"""Pure functions from one assessment to one score, and the table of them."""

from ragmonitor.evaluators import (
    answer_relevancy,
    context_relevance,
    context_utilization,
    faithfulness,
)
from ragmonitor.evaluators.table import (
    Entry,
    Table,
    evaluate,
    evaluator,
    table,
    unscorable,
    unscored,
)

__all__ = [
    "Entry",
    "Table",
    "answer_relevancy",
    "context_relevance",
    "context_utilization",
    "evaluate",
    "evaluator",
    "faithfulness",
    "table",
    "unscorable",
    "unscored",
]
