"""Compares what was retrieved with what should have been: documents, and words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction
from ragmonitor.runtime.errors import MissingExtraError, NotScorableError
from ragmonitor.runtime.patterns import lazy_pattern

ALIKE_FROM: Final = 0.5
"""Similarity from which two texts without common ids count as one document (RAGAS' threshold)."""
MAX_COMPARED: Final = 2_000_000_000
"""Characters (or words) of one side times those of the other that are compared for one score: the
time grows with it, and is half a second or so."""
_WORD: Final = lazy_pattern(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\\W_\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)


@evaluator("document_precision", by_default=False)
def document_precision(interaction: Interaction, _assessment: Assessment) -> float:
    """Return retrieved chunks that are among the reference's / retrieved chunks.

    Two chunks are one by their ids where both have one; else by their texts, if 1 - their edit
    distance / the longer one's length reaches `ALIKE_FROM`.

    Returns:
        0 to 1: precision at k, with k chunks retrieved.

    Raises:
        NotScorableError: There are no reference chunks, nothing was retrieved, or as
            `reference_matches`.
        MissingExtraError: rapidfuzz is not installed, and texts must be compared.

    Source:
        RAGAS 0.4.3, `NonLLMContextPrecisionWithReference` and `IDBasedContextPrecision`, over
        chunks instead of ranks.
    """
    matches = reference_matches(interaction)
    return sum(match is not None for match in matches) / len(matches)


@evaluator("document_recall", needs_context=False, by_default=False)
def document_recall(interaction: Interaction, _assessment: Assessment) -> float:
    """Return the reference's chunks that were retrieved / the reference's chunks.

    Returns:
        0 to 1: recall at k, with k chunks retrieved.

    Raises:
        NotScorableError: There are no reference chunks, or as `reference_matches`.
        MissingExtraError: rapidfuzz is not installed, and texts must be compared.

    Source:
        RAGAS 0.4.3, `NonLLMContextRecall` and `IDBasedContextRecall`.
    """
    matches = {match for match in reference_matches(interaction) if match is not None}
    return len(matches) / len(interaction.reference_chunks)


@evaluator("document_ndcg", by_default=False)
def document_ndcg(interaction: Interaction, _assessment: Assessment) -> float:
    """Return the normalized discounted cumulative gain at k, with k chunks retrieved.

    Each chunk of the reference counts once, at the first rank where it comes.

    Returns:
        0 (nothing that is wanted) to 1 (as much of it as fits, first).

    Raises:
        NotScorableError: There are no reference chunks, nothing was retrieved, or as
            `reference_matches`.
        MissingExtraError: rapidfuzz is not installed, and texts must be compared.

    Source:
        NDCG of Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques" (2002),
        with gains of 0 and 1 and the discount 1 / log2(rank + 1).
    """
    first: dict[int, int] = {}
    for rank, match in enumerate(reference_matches(interaction), 1):
        if match is not None:
            first.setdefault(match, rank)
    fitting = min(len(interaction.chunks), len(interaction.reference_chunks))
    gain = sum(1 / math.log2(rank + 1) for rank in first.values())
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, fitting + 1))


@evaluator("context_rouge_l", needs_reference=True, by_default=False)
def context_rouge_l(interaction: Interaction, _assessment: Assessment) -> float:
    """Return ROUGE-L, F of the longest common subsequence, of the context and the reference answer.

    Over the words of all chunks joined; of Chinese over characters.

    Returns:
        0 (no word in common) to 1 (the same words in the same order). A long context lowers it.

    Raises:
        NotScorableError: There is no chunk or no reference, one of them has no word, or they are
            too long (cause `too_long`).
        MissingExtraError: rapidfuzz is not installed.

    Source:
        Lin, "ROUGE" (2004), section 3.1, with beta = 1, as in the package rouge-score without
        stemming.
    """
    context = _WORD.findall(" ".join(chunk.text for chunk in interaction.chunks).casefold())
    reference = _WORD.findall(interaction.reference.casefold())
    if not context:
        raise NotScorableError(Cause.NO_CONTEXT)
    if not reference:
        raise NotScorableError(Cause.NO_REFERENCE, "the reference answer has no word")
    _check_length(len(context), len(reference))
    common = int(_rapidfuzz("distance").LCSseq.similarity(context, reference))
    return 2 * common / (len(context) + len(reference))


def reference_matches(interaction: Interaction) -> list[int | None]:
    """Return for each retrieved chunk which reference chunk it is; None: none.

    Raises:
        NotScorableError: There are no reference chunks; or the texts that have no common id are too
            long to be compared, each with each (cause `too_long`).
    """
    wanted = interaction.reference_chunks
    if not wanted:
        raise NotScorableError(Cause.NO_REFERENCE, "there are no reference chunks")
    texts = [_in_a_line(other.text) for other in wanted]
    by_id = {other.id: at for at, other in reversed([*enumerate(wanted)])}
    known: dict[str, int | None] = {text: at for at, text in reversed([*enumerate(texts)])}
    has_ids = "" not in by_id
    others = [chunk.text for chunk in interaction.chunks if not (chunk.id and has_ids)]
    unknown = dict.fromkeys(text for text in map(_in_a_line, others) if text not in known)
    _check_length(sum(map(len, unknown)), sum(map(len, texts)))
    known |= {text: _nearest(text, texts) for text in unknown}
    return [
        by_id.get(chunk.id) if chunk.id and has_ids else known[_in_a_line(chunk.text)]
        for chunk in interaction.chunks
    ]


def _in_a_line(text: str) -> str:
    return " ".join(text.split())


def _check_length(left: int, right: int) -> None:
    if left * right > MAX_COMPARED:
        raise NotScorableError(
            Cause.TOO_LONG,
            f"texts of {left:,} and of {right:,} are too long to compare: their product is more "
            f"than {MAX_COMPARED:,}",
        )


def _nearest(text: str, texts: Sequence[str]) -> int | None:
    ratio = _rapidfuzz("distance").Levenshtein.normalized_similarity
    scores = [float(ratio(text, other, score_cutoff=ALIKE_FROM)) for other in texts]
    best = max(range(len(scores)), key=scores.__getitem__)
    return best if scores[best] >= ALIKE_FROM else None


def _rapidfuzz(module: str) -> Any:
    try:
        return import_module(f"rapidfuzz.{module}")
    except ImportError as error:
        raise MissingExtraError("rapidfuzz", "reference") from error
