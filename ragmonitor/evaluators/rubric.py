"""An evaluator of one's own in words: a rubric and a scale, put to the judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

from ragmonitor.evaluators.table import Table, evaluator, table
from ragmonitor.records import Assessment, Cause, Interaction
from ragmonitor.runtime.errors import NotScorableError, SettingsError
from ragmonitor.runtime.protocols import Asker, AskingEvaluator, Section


def rubric(
    name: str,
    text: str,
    *,
    scale: tuple[float, float] = (1, 5),
    shown: Sequence[Section] = ("chunks", "question", "answer"),
    version: int = 1,
    by_default: bool = True,
    into: Table = table,
) -> AskingEvaluator:
    """Register an evaluator that puts a rubric to the judge; return it.

    It scores wherever evaluators do: live, `ragmonitor score`, spans, Prometheus, files. Each costs
    one call more for every answer that the judge scores; the built-in judge leaves it `not_asked`.

    Args:
        name: Lower case, digits and `_`; a label's value.
        text: What to rate, and what the ends of the scale mean.
        scale: From the worst to the best; the first may be the larger number. Scores are where the
            rating lies between them, from 0 to 1.
        shown: What the judge sees of the interaction.
        version: Raised with every change of the text or of the scale.
        by_default: Whether it scores where nobody names evaluators.
        into: A table.

    Raises:
        SettingsError: The scale has no extent, the text is empty, what is to be shown is no part of
            an interaction, or the name is taken.

    Example:
        ```python
        ragmonitor.rubric(
            "tone",
            "How polite is the ANSWER? 1: insulting; 3: matter-of-fact; 5: warm and respectful.",
            scale=(1, 5),
            shown=("question", "answer"),
        )
        ```
    """
    worst, best = scale
    if not (math.isfinite(worst) and math.isfinite(best)) or worst == best:
        raise SettingsError(f"rubric {name}: a scale has two different ends, not {scale}")
    if not text.strip():
        raise SettingsError(f"rubric {name}: say what is to be rated")
    if not shown or isinstance(shown, str) or not set(shown) <= set(get_args(Section)):
        raise SettingsError(
            f"rubric {name}: shown is a list of {', '.join(get_args(Section))}, not {shown!r}"
        )
    low, high = min(scale), max(scale)
    fields = {"rating": f"a number from {low:g} to {high:g}"}

    async def rate(_interaction: Interaction, _assessment: Assessment, asker: Asker) -> float:
        reply = await asker.ask(text, fields=fields, shown=tuple(shown))
        return (_rating(reply["rating"], low, high) - worst) / (best - worst)

    return evaluator(
        name,
        version=version,
        needs_context="chunks" in shown or "sentences" in shown,
        needs_reference="reference" in shown,
        by_default=by_default,
        into=into,
    )(rate)


def _rating(value: object, low: float, high: float) -> float:
    """Return a rating as a number. Raises `NotScorableError` where it is none on the scale."""
    try:
        rating = float(value) if type(value) in (int, float, str) else math.nan  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        rating = math.nan
    if not low <= rating <= high:
        detail = f"{value!r:.20} is no number from {low:g} to {high:g}"
        raise NotScorableError(Cause.UNREADABLE, detail)
    return rating
