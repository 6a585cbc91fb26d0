"""Small interactions to tell tests with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragmonitor.records import (
    Assessment,
    Chunk,
    Generation,
    Interaction,
    JudgeIdentity,
    Retrieval,
    SentenceVerdict,
    Usage,
    Verdict,
)

JUDGE = JudgeIdentity(name="scripted", version="1", kind="CODE")
SECOND_NS = 1_000_000_000
BEGAN_NS = 1_790_000_000 * SECOND_NS

ENGLISH = (
    "When was the Eiffel Tower built?",
    ("The Eiffel Tower was built from 1887 to 1889.", "It is 330 metres tall."),
    "The Eiffel Tower was built from 1887 to 1889.",
)
CHINESE = (
    "长城有多长？",
    ("长城全长约21196公里。", "长城始建于春秋战国时期。"),
    "长城全长约21196公里。",
)


def interaction(
    query: str = ENGLISH[0],
    texts: Sequence[str] = ENGLISH[1],
    answer: str = ENGLISH[2],
    **changes: Any,
) -> Interaction:
    """Return a plain interaction: one retrieval, one model call, two seconds."""
    chunks = tuple(Chunk(text=text, id=f"c{n}", score=1 - n / 10) for n, text in enumerate(texts))
    told = Interaction(
        id="5eed5eed5eed5eed5eed5eed5eed5eed",
        query=query,
        chunks=chunks,
        answer=answer,
        framework="python",
        started_ns=BEGAN_NS,
        ended_ns=BEGAN_NS + 2 * SECOND_NS,
        name="tower",
        retrievals=(
            Retrieval(
                query=query,
                chunks=chunks,
                started_ns=BEGAN_NS,
                ended_ns=BEGAN_NS + SECOND_NS,
                name="search",
            ),
        ),
        generations=(
            Generation(
                output=answer,
                started_ns=BEGAN_NS + SECOND_NS,
                ended_ns=BEGAN_NS + 2 * SECOND_NS,
                model="scripted-model",
                provider="openai",
                usage=Usage(input_tokens=40, output_tokens=12),
            ),
        ),
        usage=Usage(input_tokens=40, output_tokens=12),
    )
    return replace(told, **changes)


def assessment(*verdicts: Verdict | str, **changes: Any) -> Assessment:
    """Return an assessment with these verdicts, one sentence each."""
    sentences = tuple(
        SentenceVerdict(
            text=f"s{n}",
            start=3 * n,
            end=3 * n + 2,
            verdict=Verdict(verdict),
            chunks=(0,) if verdict == "supported" else (),
        )
        for n, verdict in enumerate(verdicts)
    )
    made = Assessment(
        judge=JUDGE,
        language="en",
        sentences=sentences,
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=(1.0, 0.5),
        risk=0.1,
    )
    return replace(made, **changes)
