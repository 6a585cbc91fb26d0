"""What the figures per document cost, and how soon and how rightly documents are named.

    python tests/bench/documents.py [--documents 1000000] [--runs 100]

1. CPU on the worker's thread for each answer with five chunks of one retrieval, every answer judged
   and one in ten, with the memory that a million documents leave behind.
2. Runs of traffic over 300 documents, five of each answer, in which all documents get worse
   together halfway: the share of runs in which any document is ever named. At most 10 % may be.
3. The same with one document that goes bad: how many of its answers are judged until it is named,
   by the share of the answers that it is shown for and by how many of these are hallucinated then.
"""

from __future__ import annotations

import argparse
import random
import time
import tracemalloc
from statistics import median

from ragmonitor.causes.discoveries import discovered
from ragmonitor.causes.document_causes import Documents
from ragmonitor.causes.paired_evidence import Others, PairedEvidence
from ragmonitor.estimation.parts import Answer
from ragmonitor.estimation.signals import outcomes
from ragmonitor.export.content import ContentPolicy
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.records import (
    Assessment,
    Chunk,
    CompletedAnswer,
    Interaction,
    JudgeIdentity,
    Report,
    Retrieval,
    SamplingDecision,
    SentenceVerdict,
    Verdict,
)

JUDGE = JudgeIdentity(name="model", version="1", kind="LLM")
KINDS = 300
GOOD = 0.04


def answer(turn: int, names: list[str], judged: float, rng: random.Random) -> Answer:
    """Return an answer with five chunks, judged with a chance."""
    chunks = tuple(Chunk(text="A chunk of text.", id=name) for name in names)
    bad = rng.random() < GOOD
    interaction = Interaction(
        id=str(turn),
        query="How long is the warranty?",
        chunks=chunks,
        answer="Two years.",
        framework="python",
        started_ns=0,
        ended_ns=turn * 10**9,
        retrievals=(Retrieval(query="q", chunks=chunks, started_ns=0, ended_ns=1, name="kb"),),
    )
    verdict = SentenceVerdict(
        text="Two years.",
        start=0,
        end=10,
        verdict=Verdict.ABSENT if bad else Verdict.SUPPORTED,
        chunks=() if bad else (0,),
    )
    assessment = Assessment(
        judge=JUDGE,
        language="en",
        sentences=(verdict,),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=(1.0, 0.5, 0.5, 0.0, 0.0),
    )
    report = Report(interaction=interaction, judge=JUDGE, evaluations=(), assessment=assessment)
    drawn = rng.random() < judged
    decision = SamplingDecision(inclusion_probability=judged, drawn=drawn, rate=judged)
    found = outcomes(report)
    return Answer(
        completed=CompletedAnswer(
            builtin=report, decision=decision, judged=report if drawn else None
        ),
        interaction=interaction,
        at_s=float(turn),
        group=-1,
        builtin=found,
        judged=found if drawn else None,
        weight=1 / judged,
    )


def part(*, is_sampled: bool) -> Documents:
    return Documents(is_sampled=is_sampled, read=BuiltinJudge().read, policy=ContentPolicy())


def costs() -> None:
    """Print microseconds per answer: the median of nine rounds of 2,000."""
    for label, judged in (("every answer judged", 1.0), ("one answer in ten judged", 0.1)):
        rng = random.Random(1)
        found, rounds = part(is_sampled=True), []
        for number in range(9):
            names = [[f"d{at}" for at in rng.sample(range(KINDS), 5)] for _ in range(2_000)]
            fed = [answer(2_000 * number + at, of, judged, rng) for at, of in enumerate(names)]
            began = time.process_time()
            for each in fed:
                found.add(each)
            rounds.append((time.process_time() - began) / len(fed) * 1e6)
            found.tick()
        began = time.process_time()
        found.views()
        print(f"{label}: {median(rounds):.1f} us per answer", end="; ")
        print(f"drawing up the lists: {1e3 * (time.process_time() - began):.1f} ms")


def memory(documents: int) -> None:
    """Print what a million documents leave behind, by tracemalloc."""
    rng = random.Random(1)
    tracemalloc.start()
    found = part(is_sampled=False)
    before, _ = tracemalloc.get_traced_memory()
    most = 0
    for turn in range(documents // 5):
        found.add(answer(turn, [f"d{5 * turn + at}" for at in range(5)], 1.0, rng))
        if turn % 20_000 == 0:
            most = max(most, tracemalloc.get_traced_memory()[0] - before)
    rare = tracemalloc.get_traced_memory()[0] - before
    for turn in range(documents // 5, documents // 5 + 200_000):
        names = [f"d{at}" for at in rng.sample(range(2_000), 5)]
        found.add(answer(turn, names, 1.0, rng))
    often = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    print(f"{documents:,} documents once each: {max(most, rare) / 1e6:.1f} MB", end="; ")
    print(f"then 2,000 of them a hundred times and more: {often / 1e6:.1f} MB")


def judged_until_named(
    rng: random.Random, *, share: float, bad: float, judged: float, answers: int
) -> int | None:
    """Return how many answers of a document are judged after it went bad until it is named.

    None: no document is named. With a share of 0 all get worse together.
    """
    others = Others()
    evidence = [PairedEvidence(others, 0.0) for _ in range(KINDS)]
    half, of_it = answers // 2, 0
    shown = [1] * KINDS
    for turn in range(answers):
        names = rng.sample(range(1, KINDS), 5)
        if rng.random() < share:
            names[0] = 0
        theta = GOOD if turn < half else bad if 0 in names or not share else GOOD
        is_bad = rng.random() < theta
        # A sampler that predicts draws bad answers twice as often as others.
        probability = judged * (1.5 if is_bad else 0.75)
        drawn = rng.random() < probability
        weight = judged / probability / 2 if drawn else 0.0
        answer = others.add(judged, weight, float(is_bad), 0.0)
        for at in names:
            evidence[at].add([answer])
            shown[at] += 1
        of_it += drawn and 0 in names and turn >= half
        if turn % 20 == 0:
            e_values = [each.e_value(0.0) for each in evidence]
            total = sum(shown)
            if discovered(e_values, [each * KINDS / total for each in shown], KINDS):
                return of_it
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    costs()
    memory(options.documents)
    rng = random.Random(1)
    named = sum(
        judged_until_named(rng, share=0.0, bad=0.3, judged=0.3, answers=3_000) is not None
        for _ in range(options.runs)
    )
    print(f"all get worse together: {named} of {options.runs} runs name a document")
    for share in (0.02, 0.1, 0.3):
        for bad in (0.2, 0.4, 0.8):
            found = [
                judged_until_named(rng, share=share, bad=bad, judged=0.3, answers=20_000)
                for _ in range(max(1, options.runs // 10))
            ]
            right = sorted(each for each in found if each)
            typical = f"{right[len(right) // 2]}" if right else "-"
            print(
                f"shown for {share:.0%}, then {bad:.0%} bad: named in {len(right)} of "
                f"{len(found)} runs, after {typical} judged answers of its own (median)"
            )


if __name__ == "__main__":
    main()
