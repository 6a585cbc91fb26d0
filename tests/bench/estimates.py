"""What estimates are worth: bias, coverage and width of their intervals.

    python tests/bench/estimates.py [--judged 60000]

Simulated traffic of which the truth is known (tests/support/streams.py) drives the sampler and the
estimates as the worker does, on a clock of its own. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))


from ragmonitor.estimation import summarise  # noqa: E402  # runs from a checkout
from ragmonitor.records import Estimate, Interaction, Moments, SamplingDecision, SeriesKey  # noqa: E402
from ragmonitor.sampling import AdaptiveSampler  # noqa: E402
from ragmonitor.testing import ManualClock  # noqa: E402
from tests.support import simulation  # noqa: E402
from tests.support.simulation import Service  # noqa: E402
from tests.support.streams import (  # noqa: E402
    HOUR_S,
    Course,
    Records,
    Stream,
    steady,
)

SIZES = (20, 50, 100, 200, 500, 2_000)
RATES = (0.01, 0.04, 0.15)
HALLUCINATION = SeriesKey(signal="hallucination", judge="judge")
FRACTION = 0.1
"""Of the answers that are judged, in tables without a budget."""
WARM_UP = 1_000
"""Verdicts from which the calibration learns before anything is measured."""


class Uniformly:
    """A sampler that is told of no uncertainty."""

    def __init__(self, sampler: AdaptiveSampler) -> None:
        self._sampler = sampler
        self.refund = sampler.refund
        self.reserve = sampler.reserve
        self.gauges = sampler.gauges

    def draw(self, interaction: Interaction, *, uncertainty: float = 1.0) -> SamplingDecision:
        """Draw as if all answers were equally uncertain."""
        return self._sampler.draw(interaction)


def dying(auroc: float, every_s: float) -> Course:
    """Return an AUROC that falls to 0.5 and comes back, again and again."""
    return lambda t: 0.5 if int(t / every_s) % 2 else auroc


@dataclass(slots=True)
class Tally:
    """Intervals beside the truth."""

    truth: float
    means: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    above: int = 0
    """Intervals that lie above the truth."""
    below: int = 0

    def add(self, estimate: Estimate) -> None:
        self.means.append(estimate.mean)
        self.widths.append(estimate.upper - estimate.lower)
        self.above += estimate.lower > self.truth
        self.below += estimate.upper < self.truth

    @property
    def count(self) -> int:
        return len(self.means)

    @property
    def covered(self) -> float:
        return 1 - (self.above + self.below) / self.count

    @property
    def bias(self) -> float:
        return math.fsum(self.means) / self.count - self.truth

    @property
    def width(self) -> float:
        return math.fsum(self.widths) / self.count

    @property
    def variance(self) -> float:
        mean = math.fsum(self.means) / self.count
        return math.fsum((x - mean) ** 2 for x in self.means) / max(1, self.count - 1)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.truth,
            self.means + other.means,
            self.widths + other.widths,
            self.above + other.above,
            self.below + other.below,
        )


class Blocks:
    """Cuts a stream into blocks of n judged answers, one after the other, for each n."""

    def __init__(self, service: Service, key: SeriesKey, truth: float) -> None:
        self._service = service
        self._key = key
        self._from: dict[int, Moments] = {}
        self.tallies = {n: Tally(truth) for n in SIZES}

    def __call__(self, _at_s: float) -> None:
        sums = simulation.sums_of(self._service.estimates, self._key)
        if sums is None or sums.judged < WARM_UP:
            return
        now: Moments | None = None
        for n in SIZES:
            began = self._from.get(n)
            if began is not None and sums.judged < began.judged + n:
                continue
            if now is None:
                now = sums.moments()
            if began is not None:
                estimate = summarise(simulation.difference(now, began))
                assert estimate is not None
                self.tallies[n].add(estimate)
            self._from[n] = now


def service_of(
    sampler: Callable[[ManualClock], AdaptiveSampler],
    *,
    seed: int,
    evaluators: Sequence[str],
    tick_s: float,
) -> Service:
    """Return a service with a judge, on a clock of its own."""
    clock = ManualClock()
    records = Records(evaluators=evaluators, seed=seed)
    return Service(
        estimates=simulation.statistics(clock, records, alarms=()),
        sampler=sampler(clock),
        clock=clock,
        records=records,
        tick_s=tick_s,
    )


def blocks_of(stream: Stream, key: SeriesKey, truth: float, *, uniform: bool) -> dict[int, Tally]:
    """Return the intervals of every block of a stream."""

    def sampler(clock: ManualClock) -> AdaptiveSampler:
        drawn = AdaptiveSampler(FRACTION, clock=clock)
        return Uniformly(drawn) if uniform else drawn

    evaluator = "faithfulness" if key.signal == "hallucination" else key.signal
    service = service_of(sampler, seed=stream.seed, evaluators=(evaluator,), tick_s=10.0)
    return blocks_in(service, stream, key, truth)


def blocks_in(service: Service, stream: Stream, key: SeriesKey, truth: float) -> dict[int, Tally]:
    """Return the intervals of every block of a stream, as a service estimates them."""
    blocks = Blocks(service, key, truth)
    service.on_tick = blocks
    service.feed(stream.answers())
    return blocks.tallies


def row(cells: Iterable[object]) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(cells: Sequence[str]) -> None:
    row(cells)
    row(["---"] * len(cells))


def coverage(judged: int) -> None:
    """Bias and coverage by rate, AUROC, sampling and number of judged answers."""
    print(f"\n{judged:,} verdicts a row, {FRACTION:.0%} of the answers judged; cells: coverage %, ")
    print("mean width in points. dies: AUROC .8 that is .5 every other six hours.\n")
    head(["rate", "AUROC", "chances", "bias pp (n = 100)", *(f"n = {n:,}" for n in SIZES)])
    pooled = dict.fromkeys(SIZES, (0, 0))
    for_s = judged / FRACTION
    seeds = itertools.count(1)
    for rate in RATES:
        for name, auroc in (
            ("0.5", steady(0.5)),
            ("0.7", steady(0.7)),
            ("0.8", steady(0.8)),
            ("0.9", steady(0.9)),
            ("dies", dying(0.8, 6 * HOUR_S)),
        ):
            for uniform in (True, False):
                stream = Stream(
                    seed=next(seeds),
                    for_s=for_s,
                    per_minute=60.0,
                    rate=steady(rate),
                    auroc=auroc,
                )
                tallies = blocks_of(stream, HALLUCINATION, rate, uniform=uniform)
                print_blocks(f"{rate:.0%}", name, "equal" if uniform else "by uncertainty", tallies)
                for n, tally in tallies.items():
                    hit, all_ = pooled[n]
                    pooled[n] = (hit + tally.count - tally.above - tally.below, all_ + tally.count)
    cells = [f"{100 * hit / all_:.1f} % of {all_:,}" for hit, all_ in pooled.values() if all_]
    row(["all", "", "", "", *cells])


def print_blocks(rate: str, auroc: str, chances: str, tallies: dict[int, Tally]) -> None:
    """Print one row."""
    at = tallies[100]
    error = math.sqrt(at.variance / at.count)
    cells = [
        f"{100 * t.covered:.1f}, {100 * t.width:.1f}" if t.count else "" for t in tallies.values()
    ]
    row([rate, auroc, chances, f"{100 * at.bias:+.2f} ± {100 * error:.2f}", *cells])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--judged", type=int, default=60_000, help="verdicts a row")
    coverage(parser.parse_args().judged)


if __name__ == "__main__":
    main()
