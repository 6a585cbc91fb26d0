"""What a draw costs: microseconds per answer, best of several rounds.

Run: `python -m tests.bench.sampling`
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ragmonitor.records import Interaction, SpanReference
from ragmonitor.sampling import AdaptiveSampler, Budget, Floors, budget_state
from tests.support.stories import interaction

ANSWERS = 2_000
ROUNDS = 7


def samplers(folder: Path) -> Iterator[tuple[str, AdaptiveSampler]]:
    """Yield one of each kind, a tenth of the answers drawn."""

    def made(budget: Budget | None = None, floors: Floors | None = None) -> AdaptiveSampler:
        return AdaptiveSampler(
            0.1,
            clock=time.monotonic,
            budget=budget,
            expected_cost=lambda _: 0.001,
            always=("ragmonitor:judge",),
            floors=floors,
        )

    yield "no budget", made()
    yield "budget in memory", made(Budget(1e9, per_hour=1e9))
    yield "budget in memory, floors", made(Budget(1e9, per_hour=1e9), Floors("route", 9.0))
    file = budget_state(folder, service="bench", unit="usd")
    yield "budget in a file", made(Budget(1e9, per_hour=1e9, file=file))


def measured(sampler: AdaptiveSampler, answers: list[Interaction]) -> tuple[float, float]:
    """Return microseconds per answer that is not drawn, and per one that is, settling included."""
    best = [float("inf")] * 2
    for _ in range(ROUNDS):
        took, counts = [0.0, 0.0], [0, 0]
        for told in answers:
            began = time.perf_counter()
            decision = sampler.draw(told, uncertainty=0.8)
            if decision.drawn:
                sampler.refund(decision, 0.0005)
            took[decision.drawn] += time.perf_counter() - began
            counts[decision.drawn] += 1
        best = [min(was, each / max(1, n)) for was, each, n in zip(best, took, counts, strict=True)]
    return best[0] * 1e6, best[1] * 1e6


def main() -> None:
    """Print a line for each kind of sampler, by the answers' ids and by their traces."""
    by_id = [
        interaction(id=f"{n:032x}", attributes={"route": f"r{n % 20}"}) for n in range(ANSWERS)
    ]
    by_trace = [
        replace(
            told,
            caller=SpanReference(
                trace_id=f"{n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}",
                span_id="b7ad6b7169203331",
                trace_state="vendor=1,ot=th:0",
            ),
        )
        for n, told in enumerate(by_id)
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, sampler in samplers(Path(folder)):
            for coins, answers in (("id", by_id), ("trace", by_trace)):
                passed, drawn = measured(sampler, answers)
                print(f"{name}, coin by {coins}: {passed:.1f} us, drawn {drawn:.1f} us")


if __name__ == "__main__":
    main()
