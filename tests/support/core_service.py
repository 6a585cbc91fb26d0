"""A service on the statistical core: a store in memory, and a clock to move."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragmonitor.causes import Causes
from ragmonitor.causes.answer_slices import AnswerSlices
from ragmonitor.export.content import ContentPolicy
from ragmonitor.records import (
    AlarmEvent,
    Assessment,
    Chunk,
    CompletedAnswer,
    Interaction,
    JudgeIdentity,
    Report,
    SentenceVerdict,
    Verdict,
)
from ragmonitor.stats.service import Statistics, Watching
from ragmonitor.stats.signals import HALLUCINATION
from ragmonitor.stats.streams import Stream
from ragmonitor.store import HOUR_S, Memory, Store

BEGAN_S = 1_800_000_000.0 // HOUR_S * HOUR_S
JUDGE = JudgeIdentity(name="model", version="1", kind="LLM")

Bad = Callable[[Mapping[str, str], Sequence[str]], float]
"""From attributes and documents to the chance of a hallucinated answer."""


class Process:
    """One process of a service: its statistics, in which the causes are a part."""

    def __init__(
        self,
        store: Store,
        *,
        content: str = "all",
        compare_by: Sequence[str] = ("service_version",),
        service_version: str = "",
    ) -> None:
        watching = Watching(
            streams=[
                Stream(
                    signal=HALLUCINATION,
                    judge=JUDGE.name,
                    series=f"{JUDGE.name}::hallucination",
                    kind="quality",
                    objective=0.05,
                )
            ],
            reader=JUDGE.name,
            judge=None,
            slices_of=AnswerSlices(version=service_version),
            versions={"faithfulness": 1},
            higher_is_better=frozenset({"faithfulness"}),
            versions_by=compare_by,
        )
        self.causes = Causes(
            store,
            watching,
            service_version=service_version,
            policy=ContentPolicy(content=content),
        )
        self.statistics = Statistics(
            self.causes.parts, store=store, watching=watching, now=store.now
        )


class CoreService:
    """Answers, each judged at once, and what is found of them."""

    def __init__(self, *, seed: int = 1, **options: Any) -> None:
        self.now_s = BEGAN_S
        self.store = Memory(lambda: self.now_s)
        self.options = options
        self.process = self.another()
        self.causes = self.process.causes
        self.rng = random.Random(seed)
        self.number = 0
        self.events: list[AlarmEvent] = []

    def another(self) -> Process:
        """Return one more process on the same store."""
        return Process(self.store, **self.options)

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
        self.process.statistics.add(CompletedAnswer(builtin=report, judged=report))

    def evaluate(self) -> None:
        """Tick."""
        self.events += self.process.statistics.tick()


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
