"""What the statistics on sums are worth: coverage, alarms, comparisons, cost, and counting once.

    python tests/bench/core.py coverage|width|false|delay|slices|versions|judge|cost|gate|kill
    python tests/bench/core.py all --quick

Simulated traffic of which the truth is known; each prints rows of a table in Markdown. `--runs` makes
it short. `gate` takes a core for as long as `--seconds` says, and `kill` starts a Redis server on
loopback.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import NormalDist

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.stats.comparison import compare_block, difference, e_bh, e_value  # noqa: E402
from ragmonitor.stats.evidence import Alarm  # noqa: E402
from ragmonitor.stats.interval import Estimate, estimate  # noqa: E402
from ragmonitor.stats.judge_change import Rereads, judge_or_application  # noqa: E402
from ragmonitor.stats.prediction import Calibration  # noqa: E402
from ragmonitor.stats.sums import (  # noqa: E402
    BET_GROUPS,
    LEARNED_WIDTH,
    NOTHING,
    Answer,
    Ledger,
    Outcome,
    bin_of,
)
from ragmonitor.stats.suspicion import Suspicion  # noqa: E402
from ragmonitor.store import BET_S, DAY_S, HOUR_S, merge  # noqa: E402

SIGNAL = "hallucination"
BASE = 0.04
OBJECTIVE = 0.05
DAYS = 30.0
_NORMAL = NormalDist()


class Score:
    """A built-in score with a given AUROC: binormal, as the chance of being bad at even odds."""

    def __init__(self, auroc: float, rng: random.Random) -> None:
        self.distance = math.sqrt(2) * _NORMAL.inv_cdf(auroc)
        self._rng = rng

    def __call__(self, bad: bool) -> float:
        x = self._rng.gauss(self.distance * bad, 1.0)
        return 1 / (1 + math.exp(self.distance * (self.distance / 2 - x)))

    def posterior(self, score: float, base: float) -> float:
        """Return the chance of being bad at a base rate: what a perfect calibration says."""
        odds = score / max(1e-12, 1 - score) * base / (1 - base)
        return odds / (1 + odds)


def calibration_of(pairs: Sequence[tuple[float, bool]]) -> Calibration:
    """Return what verdicts teach, each with the chance 1."""
    row = [0.0] * LEARNED_WIDTH
    for feature, bad in pairs:
        at = 4 * bin_of(feature)
        for add, amount in enumerate((1.0, 1.0, float(bad), feature)):
            row[at + add] += amount
        row[-3] += 1
        row[-2] += 1
        row[-1] += bad
    return Calibration(row)


def chance_of(expected: Outcome, usual: float, rate: float) -> float:
    """Return an inclusion probability by uncertainty; half of it is the same for all."""
    deviation = math.sqrt(expected.value * (1 - expected.value))
    uncertainty = deviation / usual if usual else 1.0
    uniform = max(0.5, rate)
    return min(1.0, rate * (uniform + (1 - uniform) * uncertainty))


# --- coverage and width ----------------------------------------------------------------------------


def one_window(
    rng: random.Random, n: int, *, rate: float, auroc: float, base: float = BASE,
    missing: tuple[float, float] = (0.0, 0.0), pending: float = 0.0, session: int = 1,
    learned_from: int = 500,
) -> Estimate | None:  # fmt: skip
    """Return the estimate of a window with some n verdicts."""
    score = Score(auroc, rng)
    past = [(score(bad), bad) for bad in (rng.random() < base for _ in range(learned_from))]
    known = calibration_of(past)
    means = [known.expected(s) for s, _ in past]
    usual = statistics.fmean(math.sqrt(m.value * (1 - m.value)) for m in means) if means else 0.0
    ledger = Ledger()
    own, left = base, 0
    for i in range(round(n / rate)):
        if left == 0:
            left = session
            own = base if session == 1 else rng.betavariate(base * 7 / 3, (1 - base) * 7 / 3)
        left -= 1
        bad = rng.random() < own
        feature = score(bad)
        expected = known.expected(feature)
        chance = chance_of(expected, usual, rate)
        drawn = rng.random() < chance
        answer = Answer(
            id=f"{rng.random()}", at_s=0.0, chance=chance, rate=rate, is_drawn=drawn,
            session=f"{i // session}-{rng.random()}" if session == 1 else f"s{i // session}",
            expected={SIGNAL: expected}, features={SIGNAL: feature},
        )  # fmt: skip
        ledger.note(answer)
        if drawn and rng.random() >= (pending if bad else 0.0):
            fails = rng.random() < missing[bad]
            ledger.settle(answer, {SIGNAL: None if fails else Outcome(1.0, float(bad))})
    return estimate(ledger.take()["r0"][SIGNAL])


SETTINGS: dict[str, dict[str, object]] = {
    "plain": {},
    "sessions of 5, ICC .3": {"session": 5},
    "dead score": {"auroc": 0.5},
    "cold start": {"learned_from": 0},
    "20 % of the good ones fail": {"missing": (0.2, 0.0)},
    "30 % of the bad ones fail": {"missing": (0.0, 0.3)},
    "all bad verdicts on their way": {"pending": 1.0},
    "rate 15 %": {"base": 0.15},
}


def coverage(runs: int) -> None:
    """Print how often the interval holds the truth."""
    print("| setting | n = 20 | 100 | 500 | 2,000 |\n|---|---|---|---|---|")
    for name, options in SETTINGS.items():
        cells = []
        for n in (20, 100, 500, 2_000):
            rng = random.Random(f"{name}{n}")
            count = max(20, min(runs, runs * 100 // n))
            if name != "plain" and n > 500:
                cells.append("")
                continue
            base = float(options.get("base", BASE))  # type: ignore[arg-type]
            found = [one_window(rng, n, **({"rate": 0.05, "auroc": 0.8} | options)) for _ in range(count)]  # type: ignore[arg-type]
            seen = [each for each in found if each is not None]
            held = statistics.fmean(each.lower <= base <= each.upper for each in seen) if seen else 0.0
            cells.append(f"{100 * held:.1f} ± {100 * math.sqrt(held * (1 - held) / max(1, len(seen))):.1f} ({len(seen)})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def width(runs: int) -> None:
    """Print how wide the interval is, by what the built-in score is worth."""
    print("| AUROC | width at 4 %, n = 100 (points) | verdicts saved |\n|---|---|---|")
    usual = 0.0
    for auroc in (0.5, 0.7, 0.8, 0.9):
        rng = random.Random(auroc)
        found = [one_window(rng, 100, rate=0.05, auroc=auroc) for _ in range(runs)]
        seen = [each for each in found if each is not None]
        mean = statistics.fmean(each.upper - each.lower for each in seen)
        spread = statistics.pvariance([each.mean for each in seen])
        usual = usual or spread
        print(f"| {auroc} | {100 * mean:.1f} | {100 * (1 - spread / usual):.0f} % |", flush=True)


# --- alarms ----------------------------------------------------------------------------------------


def verdicts(
    rng: random.Random, rate: Callable[[float], float], until_s: float, *, per_hour: float = 180.0,
    regime: str = "steady", share: float = 0.5,
) -> Iterator[tuple[float, int, float, bool]]:  # fmt: skip
    """Yield time, group, importance weight and badness of drawn answers, in order of time.

    Half of the traffic is judged, with chances by uncertainty, AUROC .8.
    """
    score, at_s = Score(0.8, rng), 0.0
    size = {"sessions of 5": 5, "sessions of 20": 20}.get(regime, 1)
    usual = 0.15
    waiting: list[tuple[float, int, float, bool]] = []
    while at_s < until_s:
        pace = per_hour / share / size / HOUR_S
        if regime == "bursts":
            pace *= 4.6 if int(at_s // 600) % 6 == 0 else 0.28
        if regime == "day's rhythm":
            pace *= 1 + 0.7 * math.sin(2 * math.pi * at_s / DAY_S)
        at_s += rng.expovariate(pace)
        while waiting and waiting[0][0] <= at_s:
            yield waiting.pop(0)
        group, p = rng.randrange(BET_GROUPS), rate(at_s)
        own = p if size == 1 else rng.betavariate(p * 7 / 3, (1 - p) * 7 / 3)
        for n in range(size):
            bad = rng.random() < own
            expected = Outcome(1.0, min(0.99, max(0.001, score.posterior(score(bad), BASE))))
            chance = chance_of(expected, usual, share) if size == 1 else share
            if rng.random() < chance:
                waiting.append((at_s + 30.0 * n, group, share / chance, bad))
        waiting.sort()


def bucketed(
    stream: Iterator[tuple[float, int, float, bool]], fail: float = 0.0, rng: random.Random | None = None
) -> Iterator[tuple[float, dict[int, list[float]]]]:
    """Yield buckets of bets; of good verdicts the share `fail` is missing."""
    end, cells = 0.0, {}  # type: float, dict[int, list[float]]
    for at_s, group, weight, bad in stream:
        if at_s >= end and cells:
            yield end, cells
            cells = {}
        if at_s >= end:
            end = (at_s // BET_S + 1) * BET_S
        cell = cells.setdefault(group, [0.0] * 4)
        if rng is not None and not bad and rng.random() < fail:
            cell[3] += weight
        else:
            cell[0] += weight
            cell[1] += weight * bad
    if cells:
        yield end, cells


def false(runs: int, only: str = "") -> None:
    """Print how many alarms are raised in 30 days at exactly the objective."""
    print("| regime | alarms in 30 days |\n|---|---|")
    regimes = ("steady", "day's rhythm", "bursts", "sessions of 5", "sessions of 20", "20 % of the good fail", "learned")
    for regime in regimes:
        if only and only != regime:
            continue
        counts = []
        for run in range(runs):
            rng = random.Random(f"{regime}{run}")
            fails = 0.2 if "fail" in regime else 0.0
            p = OBJECTIVE if not fails else OBJECTIVE / (OBJECTIVE + (1 - OBJECTIVE))
            stream = verdicts(rng, lambda _, p=p: p, DAYS * DAY_S, regime=regime)  # type: ignore[misc]
            alarm = Alarm.begin(None if regime == "learned" else OBJECTIVE, DAYS)
            raised = 0
            for n, (end, cells) in enumerate(bucketed(stream, fails, rng if fails else None)):
                raised += alarm.step(end, cells) == "raised"
                if n % 360 == 0:
                    alarm.forget(end)
            counts.append(raised)
        error = statistics.stdev(counts) / math.sqrt(runs) if runs > 1 else 0.0
        print(f"| {regime} | {statistics.fmean(counts):.2f} ± {error:.2f} ({runs} runs) |", flush=True)


def delay(runs: int) -> None:
    """Print how soon a rise is an alarm."""
    print("| rise | setting | p50 / p90 min | raised |\n|---|---|---|---|")
    for after, hours in ((0.20, 4), (0.08, 24)):
        for name, share, reserve in (
            ("half of the traffic", 0.5, 0.0),
            ("half of the traffic, reserve 3/4 full", 0.5, 0.25),
            ("5 % judged", 0.05, 0.0),
            ("5 % judged, reserve 3/4 full", 0.05, 0.25),
        ):
            delays = [one_delay(random.Random(f"{after}{name}{n}"), after, hours, share, reserve) for n in range(runs)]
            found = sorted(each for each in delays if each is not None)
            full = [*found, *[math.inf] * (runs - len(found))]
            print(
                f"| 4 → {100 * after:.0f} % | {name} | {full[runs // 2]:.0f} / {full[runs * 9 // 10]:.0f} | "
                f"{len(found)} of {runs} |", flush=True,
            )  # fmt: skip


def one_delay(
    rng: random.Random, after: float, hours: float, share: float, reserve: float, quiet_s: float = 36 * HOUR_S
) -> float | None:
    """Return after how many minutes a rise is an alarm; None: not in time."""
    alarm = Alarm.begin(OBJECTIVE, DAYS, reserve * DAYS)
    alarm.reserve = 0.75 * alarm.max_reserve
    suspicion, score = Suspicion(), Score(0.8, rng)
    pace_s = 3600 / 180 * share
    usual = statistics.fmean(math.sqrt(g * (1 - g)) for g in (score.posterior(score(rng.random() < BASE), BASE) for _ in range(500)))
    at_s, end, cells, risk, count = 0.0, float(BET_S), {}, 0.0, 0.0  # type: float, float, dict[int, list[float]], float, float
    while at_s < quiet_s + hours * HOUR_S:
        at_s += rng.expovariate(1 / pace_s)
        while at_s >= end:
            event = alarm.step(end, cells, suspicion=suspicion.value if reserve else 0.0) if cells else None
            suspicion.step(end, risk, count)
            if event == "raised":
                if end > quiet_s:
                    return (end - quiet_s) / 60
                alarm = Alarm.begin(OBJECTIVE, DAYS, reserve * DAYS)
                alarm.reserve = 0.75 * alarm.max_reserve
            end, cells, risk, count = end + BET_S, {}, 0.0, 0.0
        bad = rng.random() < (after if at_s > quiet_s else BASE)
        feature = score(bad)
        expected = score.posterior(feature, BASE)
        risk, count = risk + expected, count + 1
        chance = chance_of(Outcome(1.0, expected), usual, share)
        if rng.random() < chance:
            cell = cells.setdefault(rng.randrange(BET_GROUPS), [0.0] * 4)
            weight = min(2.0, share / chance)
            cell[0] += weight
            cell[1] += weight * bad
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what")
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    globals()[options.what](options.runs or 100)


if __name__ == "__main__":
    main()
