"""What estimates are worth: bias, coverage and width of intervals, calls saved, cost.

    python tests/bench/estimates.py coverage [--judged 60000] [--grain 1]
    python tests/bench/estimates.py graded
    python tests/bench/estimates.py savings
    python tests/bench/estimates.py bursts
    python tests/bench/estimates.py unobserved [--windows 400]
    python tests/bench/estimates.py sessions [--windows 300]
    python tests/bench/estimates.py cost
    python tests/bench/estimates.py steps

Simulated traffic of which the truth is known (tests/support/streams.py) drives the sampler and the
estimates as the worker does, on a clock of its own. Prints tables in Markdown. Needs no more than
the package itself.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import operator
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist, median
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))


from ragmonitor.estimation import summarise  # noqa: E402  # runs from a checkout
from ragmonitor.estimation.signals import Outcome  # noqa: E402
from ragmonitor.estimation.sums import Sums, group_of  # noqa: E402
from ragmonitor.records import Estimate, Interaction, Moments, SamplingDecision, SeriesKey  # noqa: E402
from ragmonitor.sampling import AdaptiveSampler, Budget, uniform_of  # noqa: E402
from ragmonitor.testing import ManualClock  # noqa: E402
from tests.support import simulation  # noqa: E402
from tests.support.simulation import Service  # noqa: E402
from tests.support.streams import (  # noqa: E402
    DAY_S,
    HOUR_S,
    SUPPORTED,
    Answer,
    Bursts,
    Course,
    Records,
    Stream,
    steady,
)

SIZES = (20, 50, 100, 200, 500, 2_000)
RATES = (0.01, 0.04, 0.15)
HALLUCINATION = SeriesKey(signal="hallucination", judge="judge")
FAITHFULNESS = SeriesKey(signal="faithfulness", judge="judge")
RELEVANCY = SeriesKey(signal="answer_relevancy", judge="judge")
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


def graded(judged: int) -> None:
    """Print the same for graded means, and with refusals."""
    print(f"\n{judged:,} verdicts a row, chances by uncertainty; cells as above.\n")
    head(
        ["mean of", "rate, AUROC, refusals", "chances", "bias pp (n = 100)"]
        + [f"n = {n:,}" for n in SIZES]
    )
    # From the stream's own definitions: mean support of hallucinated answers, mean relevancy.
    relevancy = mean_relevancy()
    seeds = itertools.count(101)
    for rate, auroc, refusals in ((0.04, 0.8, 0.0), (0.15, 0.8, 0.0), (0.15, 0.8, 0.2)):
        for key, truth in (
            (HALLUCINATION, rate),
            (FAITHFULNESS, 1 - rate * (1 - math.fsum(SUPPORTED) / len(SUPPORTED))),
            (RELEVANCY, relevancy),
        ):
            stream = Stream(
                seed=next(seeds),
                for_s=judged / FRACTION,
                per_minute=60.0,
                rate=steady(rate),
                auroc=steady(auroc),
                refusals=refusals,
            )
            tallies = blocks_of(stream, key, truth, uniform=False)
            print_blocks(key.signal, f"{rate:.0%}, {auroc}, {refusals:.0%}", "", tallies)


def mean_relevancy() -> float:
    """Return the mean of the simulated judge's relevancy, by its own sixteenths."""
    total, count = 0.0, 200_000
    for i in range(count):
        # Quantiles of the standard normal.
        z = NormalDist().inv_cdf((i + 0.5) / count)
        total += round(16 / (1 + math.exp(-1.5 - z))) / 16
    return total / count


def savings(judged: int) -> None:
    """Judge calls that the built-in score saves, at equal width, against a plain random sample."""
    print(
        "\nVariance of estimates over that of the mean of as many answers drawn at random (of "
        "blocks of 50 and 100), and the squared ratio of the intervals' widths at 200.\n"
    )
    head(["rate", "AUROC", "variance ratio", "calls saved (variance)", "calls saved (width)"])
    seeds = itertools.count(201)
    for rate in (0.04, 0.15):
        for auroc in (0.5, 0.7, 0.8, 0.9):
            stream = Stream(
                seed=next(seeds),
                for_s=judged / FRACTION,
                per_minute=60.0,
                rate=steady(rate),
                auroc=steady(auroc),
            )
            ours = blocks_of(stream, HALLUCINATION, rate, uniform=False)
            plain = rate * (1 - rate)
            ratio = (50 * ours[50].variance + 100 * ours[100].variance) / (2 * plain)
            width = plain_width(rate, 200)
            by_width = (ours[200].width / width) ** 2
            row([f"{rate:.0%}", auroc, f"{ratio:.2f}", f"{1 - ratio:.0%}", f"{1 - by_width:.0%}"])


def plain_width(rate: float, n: int) -> float:
    """Return the mean width of Clopper and Pearson's interval of a plain random sample."""
    total = 0.0
    for bad in range(n + 1):
        chance = math.comb(n, bad) * rate**bad * (1 - rate) ** (n - bad)
        if chance < 1e-9:
            continue
        found = summarise(
            Moments(
                answers=n,
                value=bad,
                scored=n,
                value_value=bad,
                value_scored=bad,
                scored_scored=n,
                judged=n,
                drawn_count=n,
                drawn=n,
                drawn_squared=n,
                judged_value=bad,
                judged_value_squared=bad,
            )
        )
        assert found is not None
        total += chance * (found.upper - found.lower)
    return total


class Dropping:
    """A fixed chance, and what the budget cannot pay is dropped: what others do."""

    def __init__(self, rate: float, budget: Budget) -> None:
        self._rate = rate
        self._budget = budget

    def takes(self, interaction: Interaction) -> bool:
        """Return whether it is judged."""
        if uniform_of(interaction.id) >= self._rate or not self._budget.reserve(1.0):
            return False
        self._budget.refund(1.0, 1.0)
        return True


def bursts(days: float) -> None:
    """Bias while bursts of ten times the traffic are three times worse, and the budget's limits."""
    print(
        f"\n{days:.0f} days in pieces of 3; 60 answers a minute at 4 %, six bursts a day of ten "
        "minutes, 10 times the traffic, 3 times the rate. Budget: 180 readings an hour.\n"
    )
    head(
        ["scheme", "bias pp", "most calls in any hour", "calls an hour", "answers without a chance"]
    )
    pieces = max(1, round(days / 3))
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    most_ours = most_theirs = 0
    calls_ours = calls_theirs = uncovered = answers = 0
    for seed in range(pieces):
        stream = Stream(seed=100 + seed, for_s=3 * DAY_S, per_minute=60.0, bursts=Bursts(worse=3.0))
        ours_times: list[float] = []
        theirs_times: list[float] = []
        clock = ManualClock()
        records = Records(evaluators=("faithfulness",), seed=stream.seed)
        budget = Budget(per_hour=180.0, unit="calls", clock=clock)
        sampler = Noted(
            AdaptiveSampler(1.0, clock=clock, budget=budget, expected_cost=lambda _: 1.0),
            clock,
            ours_times,
        )
        service = Service(
            estimates=simulation.statistics(clock, records, alarms=()),
            sampler=sampler,
            clock=clock,
            records=records,
            tick_s=30.0,
        )
        dropping = Dropping(0.05, Budget(per_hour=180.0, unit="calls", clock=clock))
        truth = bad = judged = 0

        def both(
            stream: Stream = stream,
            clock: ManualClock = clock,
            records: Records = records,
            dropping: Dropping = dropping,
            times: list[float] = theirs_times,
        ) -> Iterator[Answer]:
            nonlocal truth, bad, judged
            for answer in stream.answers():
                truth += answer.hallucinated
                clock.now_s = answer.at_s
                if dropping.takes(records.interaction(answer)):
                    judged += 1
                    bad += answer.hallucinated
                    times.append(answer.at_s)
                yield answer

        service.feed(both())
        service.pass_time(stream.for_s + 60)
        sums = simulation.sums_of(service.estimates, HALLUCINATION)
        assert sums is not None
        moments = sums.moments()
        true_rate = truth / service.answers
        ours.append((moments.value / moments.scored, true_rate))
        theirs.append((bad / judged, true_rate))
        most_ours = max(most_ours, most_in_an_hour(ours_times))
        most_theirs = max(most_theirs, most_in_an_hour(theirs_times))
        calls_ours += len(ours_times)
        calls_theirs += judged
        uncovered += service.uncovered
        answers += service.answers
    hours = pieces * 72
    for name, found, most, calls, share in (
        (
            "fixed 5 %, dropped when the budget is out, raw mean",
            theirs,
            most_theirs,
            calls_theirs,
            "",
        ),
        ("ours", ours, most_ours, calls_ours, f"{uncovered / answers:.3%}"),
    ):
        errors = [estimate - truth for estimate, truth in found]
        mean = math.fsum(errors) / len(errors)
        spread = math.sqrt(math.fsum((e - mean) ** 2 for e in errors) / max(1, len(errors) - 1))
        row(
            [
                name,
                f"{100 * mean:+.2f} ± {100 * spread / math.sqrt(len(errors)):.2f}",
                most,
                f"{calls / hours:.0f}",
                share,
            ]
        )


class Noted:
    """A sampler of which it is noted when it drew."""

    def __init__(self, sampler: AdaptiveSampler, clock: ManualClock, times: list[float]) -> None:
        self._sampler = sampler
        self._clock = clock
        self._times = times
        self.refund = sampler.refund
        self.reserve = sampler.reserve
        self.gauges = sampler.gauges

    def draw(self, interaction: Interaction, *, uncertainty: float = 1.0) -> SamplingDecision:
        """Draw, and note the time."""
        decision = self._sampler.draw(interaction, uncertainty=uncertainty)
        if decision.drawn:
            self._times.append(self._clock())
        return decision


def most_in_an_hour(times: Sequence[float]) -> int:
    """Return the most calls in any hour."""
    most = first = 0
    for last, at_s in enumerate(times):
        while times[first] <= at_s - HOUR_S:
            first += 1
        most = max(most, last - first + 1)
    return most


class Unobserved(NamedTuple):
    """Shares of the bad and of the sound answers that are not observed, and why."""

    name: str
    rate: float
    fail_bad: float = 0.0
    fail: float = 0.0
    chanceless_bad: float = 0.0
    chanceless: float = 0.0


def predicted(score: float, rate: float, shift: float) -> float:
    """Return the chance that an answer is bad by its built-in score: two normals, `shift` apart."""
    return 1 / (1 + math.exp(-(math.log(rate / (1 - rate)) - shift**2 / 2 + shift * score)))


def unobserved(windows: int) -> None:
    """Print how often intervals hold the truth of windows that are observed in part."""
    print(f"\n{windows:,} windows a row of 2,000 answers, one in ten drawn, AUROC .8.\n")
    head(
        ["not observed", "rate", "share observed", "interval holds the truth", "width pp", "eff. n"]
    )
    shift = 1.19
    for case in (
        Unobserved("nothing", 0.04),
        Unobserved("every bad verdict fails", 0.04, fail_bad=1.0),
        Unobserved("every bad verdict fails", 0.15, fail_bad=1.0),
        Unobserved("30 % of the sound verdicts fail", 0.15, fail=0.3),
        Unobserved("30 % of all verdicts fail", 0.15, 0.3, 0.3),
        Unobserved("90 % of the bad, 62 % of the sound fail", 0.1, 0.9, 0.62),
        Unobserved("no bad answer and 70 % of the sound have a chance", 0.1, 0.2, 0.1, 1.0, 0.3),
    ):
        rng = random.Random(7)
        covered, widths, numbers, shares = 0, 0.0, 0.0, 0.0
        for _ in range(windows):
            sums, bad = Sums(), 0
            for _ in range(2_000):
                is_bad = rng.random() < case.rate
                bad += is_bad
                if rng.random() < (case.chanceless_bad if is_bad else case.chanceless):
                    sums.uncover()
                    continue
                score = rng.gauss(0, 1) + shift * is_bad
                expected = (1.0, predicted(score, case.rate, shift))
                if rng.random() >= FRACTION:
                    sums.add_not_drawn(expected, FRACTION)
                    continue
                fails = rng.random() < (case.fail_bad if is_bad else case.fail)
                verdict = Outcome(scored=True, value=float(is_bad))
                sums.add_drawn(expected, FRACTION, None if fails else verdict)
            found = summarise(sums.moments(), least_coverage=0.0)
            assert found is not None
            covered += found.lower <= bad / 2_000 <= found.upper
            widths += found.upper - found.lower
            numbers += found.effective_n
            shares += found.coverage
        row(
            [
                case.name,
                f"{case.rate:.0%}",
                f"{shares / windows:.0%}",
                f"{covered / windows:.1%}",
                f"{100 * widths / windows:.1f}",
                f"{numbers / windows:.0f}",
            ]
        )


def sessions(windows: int) -> None:
    """Print how often intervals hold the truth where answers of a session fail together."""
    print(f"\n{windows:,} windows a row, four processes, each answer to one of them by chance.\n")
    head(
        [
            "rate",
            "sessions",
            "answers in each",
            "correlation",
            "drawn",
            "holds the truth",
            "width pp",
        ]
    )
    for rate in (0.04, 0.15):
        for count, length, drawn, correlation in (
            (100, 5.0, 0.2, 0.3),
            (2_000, 5.0, 0.1, 0.3),
            (100, 10.0, 1.0, 0.3),
            (60, 20.0, 0.5, 0.3),
            (100, 10.0, 1.0, 0.0),
            (400, 10.0, 0.1, 0.1),
        ):
            rng = random.Random(8)
            covered, widths = 0, 0.0
            for _ in range(windows):
                found = summarise(
                    of_sessions(rng, rate, count, length, drawn=drawn, correlation=correlation)
                )
                assert found is not None
                covered += found.lower <= rate <= found.upper
                widths += found.upper - found.lower
            cells = [f"{rate:.0%}", f"{count:,}", f"{length:g}", correlation, f"{drawn:.0%}"]
            row([*cells, f"{covered / windows:.1%}", f"{100 * widths / windows:.1f}"])


def of_sessions(
    rng: random.Random,
    rate: float,
    count: int,
    length: float,
    *,
    drawn: float,
    correlation: float,
) -> Moments:
    """Return what four processes' sums of a window of sessions come to."""
    processes = [Sums() for _ in range(4)]
    bad = rate + correlation * (1 - rate)
    for _ in range(count):
        group = group_of(str(rng.random()))
        chance = rate if correlation <= 0 else bad if rng.random() < rate / bad else 0.0
        answers = 1 + int(math.log(1 - rng.random()) / math.log(1 - 1 / length))
        for _ in range(answers):
            is_bad = rng.random() < chance
            expected = (1.0, predicted(rng.gauss(0, 1) + 1.19 * is_bad, rate, 1.19))
            sums = processes[rng.randrange(4)]
            if rng.random() < drawn:
                sums.add_drawn(expected, drawn, Outcome(scored=True, value=float(is_bad)), group)
            else:
                sums.add_not_drawn(expected, drawn, group)
    return functools.reduce(operator.add, [sums.moments() for sums in processes])


def cost(answers: int) -> None:
    """Microseconds per answer of sampling and estimation, and what the state takes on disk."""
    print(
        f"\n{answers:,} answers a row after 10,000 more, five default evaluators and refusals as "
        "signals, all alarms on; a tick, every 5 s, writes the state files.\n"
    )
    head(["traffic", "µs an answer", "ms a tick", "simulated answers a second", "state on disk"])
    for name, per_minute, fraction, questions in (
        ("600 a minute, 5 % judged, questions not looked at", 600.0, 0.05, False),
        ("600 a minute, 5 % judged", 600.0, 0.05, True),
        ("60 a minute, 5 % judged", 60.0, 0.05, True),
        ("2 a minute, all judged", 2.0, 1.0, True),
    ):
        with tempfile.TemporaryDirectory() as folder:
            clock = ManualClock()
            records = Records(questions=questions)
            budget = Budget(per_day=1e9, unit="tokens", clock=clock)
            service = Service(
                estimates=simulation.statistics(clock, records, folder=Path(folder)),
                sampler=AdaptiveSampler(
                    fraction, clock=clock, budget=budget, expected_cost=lambda _: 2_000.0
                ),
                clock=clock,
                records=records,
            )
            stream = Stream(
                seed=1,
                for_s=60.0 * (answers + 10_000) / per_minute,
                per_minute=per_minute,
                refusals=0.05,
            )
            coming = stream.answers()
            service.feed(itertools.islice(coming, 10_000))
            service.timed = True
            before = service.answers
            began = time.process_time()
            service.feed(coming)
            spent_s = time.process_time() - began
            size = sum(f.stat().st_size for f in Path(folder).rglob("*.json"))
        done = service.answers - before
        ticks = done / per_minute * 60 / simulation.TICK_S
        row(
            [
                name,
                f"{1e6 * service.busy_s / done:.1f}",
                f"{1e3 * service.ticking_s / ticks:.2f}",
                f"{done / spent_s:,.0f}",
                f"{size:,} bytes",
            ]
        )


class Stopwatch:
    """Passes everything on, and measures what some methods take."""

    def __init__(self, watched: Any, *methods: str) -> None:
        self._watched = watched
        self._methods = methods
        self.taken: dict[str, list[float]] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._watched, name)
        if name not in self._methods:
            return method

        def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            result = method(*given, **named)
            taken_s = time.perf_counter() - began
            drawn = name == "add" and given[0].judged is not None
            self.taken.setdefault(f"{name}, drawn" if drawn else name, []).append(taken_s)
            return result

        return timed


def steps(answers: int) -> None:
    """Microseconds of each step, in the median: what `cost` is made of."""
    print(f"\n{answers:,} answers, 600 a minute, 5 % judged; medians, caches warm.\n")
    head(["step", "µs"])
    taken = steps_taken(answers)
    adding = taken.pop("add")
    row(["predicting", f"{taken['predict']:.1f}"])
    row(["drawing, without a budget", f"{taken['draw']:.1f}"])
    row(["summing up, not drawn", f"{adding:.1f}"])
    row(["**the last three**", f"**{taken['predict'] + taken['draw'] + adding:.1f}**"])
    row(["summing up, drawn", f"{taken['add, drawn']:.1f}"])


def steps_taken(answers: int) -> dict[str, float]:
    """Return the microseconds of each step of a service."""
    clock = ManualClock()
    records = Records(questions=True)
    estimates = simulation.statistics(clock, records)
    statistics = Stopwatch(estimates, "predict", "add")
    sampler = Stopwatch(AdaptiveSampler(0.05, clock=clock), "draw")
    service = Service(estimates=statistics, sampler=sampler, clock=clock, records=records)
    stream = Stream(seed=1, for_s=answers / 10.0, per_minute=600.0, refusals=0.05)
    service.feed(stream.answers())
    return {
        name: 1e6 * median(found)
        for watch in (statistics, sampler)
        for name, found in watch.taken.items()
    }


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "table",
        choices=(
            "coverage",
            "graded",
            "savings",
            "bursts",
            "unobserved",
            "sessions",
            "cost",
            "steps",
        ),
    )
    parser.add_argument("--judged", type=int, default=60_000, help="verdicts a row")
    parser.add_argument("--days", type=float, default=60.0, help="of bursts")
    parser.add_argument("--answers", type=int, default=50_000, help="of cost")
    parser.add_argument("--windows", type=int, default=300, help="of unobserved, sessions")
    given = parser.parse_args()
    if given.table == "bursts":
        bursts(given.days)
    elif given.table in {"unobserved", "sessions"}:
        {"unobserved": unobserved, "sessions": sessions}[given.table](given.windows)
    elif given.table == "steps":
        steps(given.answers)
    elif given.table == "cost":
        cost(given.answers)
    else:
        {"coverage": coverage, "graded": graded, "savings": savings}[given.table](given.judged)


if __name__ == "__main__":
    main()
