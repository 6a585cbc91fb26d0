"""Stands in for an LLM judge. A faithful answer of the demo quotes its context."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from ragmonitor.cli.demo.answerer import readable_sentences
from ragmonitor.judges import BuiltinJudge
from ragmonitor.records import (
    Assessment,
    Interaction,
    JudgeIdentity,
    JudgeUsage,
    SentenceVerdict,
    Verdict,
)
from ragmonitor.runtime.protocols import BudgetUnit

TOKENS: Final = 1_500
COST_USD: Final = 0.00002
"""Of one reading. Nobody charges it; it lets the demo show a budget."""
SECONDS: Final = 0.2


class QuoteJudge:
    """Calls a sentence unsupported unless a chunk holds it word for word.

    The demo's model quotes its context, except where its answers are spoiled. So these verdicts are
    right where the built-in judge has to guess.
    """

    budget_unit: BudgetUnit = "usd"

    def __init__(self) -> None:
        """Take a name."""
        self.identity = JudgeIdentity(name="demo/stand-in", version="1", kind="LLM")
        self._builtin = BuiltinJudge()

    def expected_cost(self, interaction: Interaction) -> float:  # noqa: ARG002 - the same for all
        """Return the cost of one reading in US dollars."""
        return COST_USD

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return a verdict on each sentence, after the time that a model would take."""
        await asyncio.sleep(SECONDS)
        usage = JudgeUsage(calls=1, input_tokens=TOKENS, cost_usd=COST_USD, seconds=SECONDS)
        read = self._builtin.read(interaction)
        chunks = [" ".join(readable_sentences(chunk.text)) for chunk in interaction.chunks]
        sentences = tuple(_checked(sentence, chunks) for sentence in read.sentences or ())
        return replace(read, judge=self.identity, sentences=sentences, risk=None, usage=usage)


def _checked(sentence: SentenceVerdict, chunks: list[str]) -> SentenceVerdict:
    if sentence.verdict is Verdict.NO_CLAIM:
        return sentence
    text = " ".join(sentence.text.split())
    holding = tuple(n for n, chunk in enumerate(chunks) if text in chunk)
    if holding:
        return replace(sentence, verdict=Verdict.SUPPORTED, chunks=holding, words=(), reasons=())
    if sentence.verdict is Verdict.SUPPORTED:
        return replace(sentence, verdict=Verdict.ABSENT, chunks=())
    return sentence
