"""Stands in for an LLM judge: in the demo a faithful answer is made of quotes, so it can tell."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
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

CHARACTERS_PER_TOKEN: Final = 4
INSTRUCTIONS_TOKENS: Final = 900
OUTPUT_TOKENS: Final = 120
USD_PER_MILLION_TOKENS: Final = 0.01
"""Charged by nobody: so that there is something to see of money."""
SECONDS: Final = (0.05, 0.35)
HARSH: Final = 0.6
"""Share of its readings in which the other judge finds nothing supported."""


class QuoteJudge:
    """Finds unsupported what stands in no chunk word for word.

    The demo's model quotes its context, unless its answers are spoiled, so that these verdicts are
    right where the built-in judge has to guess. It takes its time and costs as a model does.
    """

    def __init__(self) -> None:
        self.identity = JudgeIdentity(name="demo/stand-in", version="1", kind="LLM")
        self._builtin = BuiltinJudge()
        self.is_swapped: Callable[[], bool] = lambda: False
        """Whether another, stricter judge answers under its name."""

    budget_unit: BudgetUnit = "usd"

    def expected_cost(self, interaction: Interaction) -> float:
        """Return what one reading costs, in US dollars."""
        return _cost_usd(_input_tokens(interaction) + OUTPUT_TOKENS)

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what was found."""
        chance = random.Random(f"demo judge {interaction.id}")
        seconds = chance.uniform(*SECONDS)
        await asyncio.sleep(seconds)
        tokens = _input_tokens(interaction)
        usage = JudgeUsage(
            calls=1,
            input_tokens=tokens,
            output_tokens=OUTPUT_TOKENS,
            cost_usd=_cost_usd(tokens + OUTPUT_TOKENS),
            seconds=seconds,
        )
        read = self._builtin.read(interaction)
        chunks = [_plain(" ".join(readable_sentences(c.text))) for c in interaction.chunks]
        if self.is_swapped() and chance.random() < HARSH:
            chunks = []
        sentences = tuple(_checked(sentence, chunks) for sentence in read.sentences or ())
        return replace(read, judge=self.identity, sentences=sentences, risk=None, usage=usage)


def _checked(sentence: SentenceVerdict, chunks: list[str]) -> SentenceVerdict:
    if sentence.verdict is Verdict.NO_CLAIM:
        return sentence
    text = _plain(sentence.text)
    holding = tuple(n for n, chunk in enumerate(chunks) if text in chunk)
    if holding:
        return replace(sentence, verdict=Verdict.SUPPORTED, chunks=holding, words=(), reasons=())
    if sentence.verdict is Verdict.SUPPORTED:
        return replace(sentence, verdict=Verdict.ABSENT, chunks=())
    return sentence


def _plain(text: str) -> str:
    return " ".join(text.split())


def _input_tokens(interaction: Interaction) -> int:
    texts = (interaction.query, interaction.answer, *(c.text for c in interaction.chunks))
    return INSTRUCTIONS_TOKENS + sum(map(len, texts)) // CHARACTERS_PER_TOKEN


def _cost_usd(tokens: int) -> float:
    return tokens * USD_PER_MILLION_TOKENS / 1e6
