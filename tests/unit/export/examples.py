"""Records that the tests of the exporters share: one answer in Chinese, half of it invented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ragmonitor.records import (
    Assessment,
    Cause,
    Chunk,
    Estimate,
    Evaluation,
    Generation,
    Interaction,
    JudgeIdentity,
    JudgeUsage,
    Report,
    Retrieval,
    SamplingDecision,
    Scored,
    SentenceVerdict,
    SeriesKey,
    Snapshot,
    SpanReference,
    Unscored,
    Usage,
    Verdict,
    Window,
    WindowedMean,
)

SECOND = 1_000_000_000
BEGAN = 1_795_000_000 * SECOND

LEXICAL = JudgeIdentity(name="builtin", version="3", kind="CODE")
MODEL = JudgeIdentity(name="openai/gpt-4o-mini", version="p7", kind="LLM")

QUERY = "退货期限是多少天?"
ANSWER = "退货期限是30天。运费为99元。"
CHUNKS = (
    Chunk(text="商品可在30天内退货。", id="doc-1", score=0.91, metadata={"source": "政策.md"}),
    Chunk(text="Shipping is free.", id="doc-2", score=0.42),
)
CALLER = SpanReference(trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331")
TARGET = SpanReference(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7")


def interaction(**changes: Any) -> Interaction:
    """Return an interaction of two seconds: one retrieval, one model call."""
    return replace(
        Interaction(
            id="i-1",
            query=QUERY,
            chunks=CHUNKS,
            answer=ANSWER,
            framework="langchain",
            name="support",
            started_ns=BEGAN,
            ended_ns=BEGAN + 2 * SECOND,
            retrievals=(
                Retrieval(
                    query=QUERY,
                    chunks=CHUNKS,
                    started_ns=BEGAN + 1000,
                    ended_ns=BEGAN + SECOND,
                    name="Milvus",
                ),
            ),
            generations=(
                Generation(
                    output=ANSWER,
                    started_ns=BEGAN + SECOND,
                    ended_ns=BEGAN + 2 * SECOND - 1000,
                    model="qwen-max",
                    provider="alibaba",
                    usage=Usage(input_tokens=120, output_tokens=14),
                ),
            ),
            usage=Usage(input_tokens=120, output_tokens=14),
            session_id="s-1",
            user_id="u-1",
            tags=("beta", "zh"),
            attributes={"route": "/chat", "tenant": "上海"},
        ),
        **changes,
    )


def assessment(judge: JudgeIdentity = LEXICAL, **changes: Any) -> Assessment:
    """Return an assessment that finds the second sentence invented."""
    return replace(
        Assessment(
            judge=judge,
            language="zh",
            sentences=(
                SentenceVerdict(
                    text="退货期限是30天。",
                    start=0,
                    end=9,
                    verdict=Verdict.SUPPORTED,
                    chunks=(0,),
                    support=1.0,
                ),
                SentenceVerdict(
                    text="运费为99元。",
                    start=9,
                    end=16,
                    verdict=Verdict.CONTRADICTED,
                    chunks=(1,),
                    words=("99元",),
                    support=0.2,
                    reasons=("number",),
                ),
            ),
            answer_relevancy=0.9,
            evasive=False,
            chunk_relevance=(0.8, 0.4),
            risk=0.71,
        ),
        **changes,
    )


def evaluations(judge: JudgeIdentity = LEXICAL, score: float = 0.5) -> tuple[Evaluation, ...]:
    """Return one score and one cause."""
    return (
        Scored(evaluator="faithfulness@1", judge=judge, score=score, explanation="无依据: 99元"),
        Unscored(
            evaluator="answer_relevancy@2", judge=judge, cause=Cause.UNREADABLE, detail="坏的回复"
        ),
    )


def report(judge: JudgeIdentity = LEXICAL, *, score: float = 0.5, **changes: Any) -> Report:
    """Return the report on `interaction()`."""
    return replace(
        Report(
            interaction=interaction(),
            judge=judge,
            evaluations=evaluations(judge, score),
            assessment=assessment(judge),
            role="builtin" if judge == LEXICAL else "judge",
        ),
        **changes,
    )


def late_report(**changes: Any) -> Report:
    """Return a model's report that came after the trace had left."""
    return report(
        MODEL,
        **{
            "target": TARGET,
            "late": True,
            "decision": SamplingDecision(inclusion_probability=0.1, drawn=True),
            "usage": JudgeUsage(
                calls=2, input_tokens=900, output_tokens=80, cost_usd=0.002, seconds=1.5
            ),
            **changes,
        },
    )


def windowed(
    *found: tuple[SeriesKey, Window, tuple[float, ...]], uncovered: float = 0.0
) -> tuple[WindowedMean, ...]:
    """Return means of scores, with intervals of their own; less than half is known of none."""
    return tuple(_windowed(*each, uncovered=uncovered) for each in found)


def _windowed(
    key: SeriesKey, window: Window, scores: tuple[float, ...], *, uncovered: float
) -> WindowedMean:
    estimate = None
    if scores and uncovered <= 0.5:
        mean = sum(scores) / len(scores)
        estimate = Estimate(
            mean=mean,
            lower=max(0.0, mean - 0.1),
            upper=min(1.0, mean + 0.1),
            effective_n=len(scores),
        )
    return WindowedMean(
        key=key,
        window=window,
        estimate=estimate,
        judged=len(scores),
        missing=0.0,
        uncovered=uncovered,
    )


def sums(*scores: float) -> tuple[float, ...]:
    """Return equally weighted scores."""
    return scores


def snapshot(*found: tuple[str, Window, tuple[float, ...]], uncovered: float = 0.0) -> Snapshot:
    """Return a state of windows of the built-in judge: signal, window, scores."""
    keyed = [
        (SeriesKey(signal=signal, judge="builtin"), window, scores)
        for signal, window, scores in found
    ]
    return Snapshot(means=windowed(*keyed, uncovered=uncovered))
