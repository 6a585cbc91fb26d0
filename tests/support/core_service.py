"""A service on the statistical core: a store in memory, a ledger, a tick, and a clock to move."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragmonitor.causes.live_causes import Causes
from ragmonitor.export.content import ContentPolicy
from ragmonitor.records import (
    Assessment,
    Chunk,
    Interaction,
    JudgeIdentity,
    Report,
    SentenceVerdict,
    Verdict,
)
from ragmonitor.stats.signals import HALLUCINATION
from ragmonitor.stats.sums import NOTHING, Answer, Ledger, Outcome
from ragmonitor.stats.tick import Evaluation, Plan, Tick, Watched
from ragmonitor.store import HOUR_S, Memory, merge_buckets

BEGAN_S = 1_800_000_000.0 // HOUR_S * HOUR_S
JUDGE = JudgeIdentity(name="model", version="1", kind="LLM")

Bad = Callable[[Mapping[str, str], Sequence[str]], float]
"""From attributes and documents to the chance of a hallucinated answer."""


class CoreService:
    """Answers, each judged at once, and what is found of them."""

    def __init__(self, *, content: str = "all", seed: int = 1, **options: Any) -> None:
        self.now_s = BEGAN_S
        self.store = Memory(lambda: self.now_s)
        self.tick = Tick(self.store, Plan(watched=[Watched(series=HALLUCINATION, objective=0.05)]))
        self.causes = self.process(content=content, **options)
        self.rng = random.Random(seed)
        self.number = 0
        self.evaluation: Evaluation | None = None
        self.events: list[Any] = []

    def process(self, *, content: str = "all", **options: Any) -> Causes:
        """Return the causes of one more process on the same store."""
        return Causes(
            self.store,
            self.tick,
            policy=ContentPolicy(content=content),
            judge=JUDGE.name,
            higher_is_better={"faithfulness"}.__contains__,
            threshold_s=30 * 86_400.0,
            **options,
        )

    def run(
        self,
        for_s: float,
        bad: Bad | float = 0.02,
        *,
        each_s: float = 2.0,
        tick_s: float = 20.0,
        attributes: Callable[[int], Mapping[str, str]] = lambda n: {},
        documents: Callable[[int], Sequence[str]] = lambda n: ("a.md",),
        judge: JudgeIdentity = JUDGE,
    ) -> None:
        """Live for a while."""
        end_s, ticked_s = self.now_s + for_s, self.now_s
        while self.now_s < end_s:
            self.now_s += each_s
            self.number += 1
            known, shown = dict(attributes(self.number)), list(documents(self.number))
            rate = bad(known, shown) if callable(bad) else bad
            self.answer(known, shown, is_bad=self.rng.random() < rate, judge=judge)
            if self.now_s - ticked_s >= tick_s:
                ticked_s = self.now_s
                self.evaluate()

    def answer(
        self,
        attributes: Mapping[str, str],
        documents: Sequence[str],
        *,
        is_bad: bool,
        judge: JudgeIdentity = JUDGE,
    ) -> None:
        """Have one answer given and judged."""
        report = reported(
            f"i-{self.number}", attributes, documents, is_bad=is_bad, at_s=self.now_s, judge=judge
        )
        answer = Answer(
            id=report.interaction.id,
            at_s=self.now_s,
            chance=1.0,
            rate=1.0,
            is_drawn=True,
            slices=self.causes.slices(report.interaction, report),
            expected={HALLUCINATION: NOTHING},
        )
        verdicts = {HALLUCINATION: Outcome(1.0, float(is_bad))}
        ledger = Ledger()
        ledger.note(answer)
        self.causes.note(answer, report.interaction, report)
        ledger.settle(answer, verdicts)
        self.causes.settle(answer, report.interaction, report, verdicts)
        increments = ledger.take()
        merge_buckets(increments, self.causes.take())
        self.store.add(increments)

    def evaluate(self) -> None:
        """Tick."""
        self.causes.poll()
        self.evaluation = self.tick.run()
        self.events += self.causes.evaluate()


def reported(
    id: str,  # noqa: A002 - its name on the record
    attributes: Mapping[str, str] | None = None,
    documents: Sequence[str] = ("handbook.md",),
    *,
    is_bad: bool = True,
    at_s: float = BEGAN_S,
    judge: JudgeIdentity = JUDGE,
    text: str = "Goods may be returned within 90 days.",
    question: str = "How long may goods be returned?",
) -> Report:
    """Return a judge's report on an answer of one sentence, which its first chunk contradicts."""
    chunks = tuple(
        Chunk(
            text="Goods may be returned within 30 days of delivery.", id=f"c-{name}",
            metadata={"source": name},
        )
        for name in documents
    )  # fmt: skip
    interaction = Interaction(
        id=id,
        query=question,
        chunks=chunks,
        answer=text,
        framework="python",
        started_ns=int(at_s * 1e9),
        ended_ns=int(at_s * 1e9),
        attributes=dict(attributes or {}),
    )
    sentence = SentenceVerdict(
        text=text,
        start=0,
        end=len(text),
        verdict=Verdict.CONTRADICTED if is_bad else Verdict.SUPPORTED,
        chunks=(0,),
        words=("90",) if is_bad else (),
    )
    assessment = Assessment(
        judge=judge,
        language="en",
        sentences=(sentence,),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=(1.0,) * len(chunks),
    )
    return Report(interaction=interaction, judge=judge, evaluations=(), assessment=assessment)
