"""Whether the numbers of a fleet are as good as those of one process.

    python tests/bench/fleet_numbers.py coverage [--judged 20000]
    python tests/bench/fleet_numbers.py false [--days 360]
    python tests/bench/fleet_numbers.py delay [--runs 20]

The same simulated streams (tests/support/streams.py) come to one process and to four workers with
an estimator (`tests.support.simulation.FleetService`): real samplers, calibrations, order and
estimates, on a clock of their own. A bad answer takes the judge a minute, a good one three seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.sampling import AdaptiveSampler  # noqa: E402  # runs from a checkout
from ragmonitor.testing import ManualClock  # noqa: E402
from tests.bench.alarms import BASE, Delays  # noqa: E402
from tests.bench.estimates import FRACTION, HALLUCINATION, SIZES, blocks_in, head, row  # noqa: E402
from tests.support import simulation  # noqa: E402
from tests.support.simulation import FleetService, Service  # noqa: E402
from tests.support.streams import (  # noqa: E402
    DAY_S,
    HOUR_S,
    Answer,
    Records,
    Stream,
    steady,
    step,
)

WORKERS = (1, 4)
"""One process, and a fleet of four with an estimator."""
NAMES = {1: "one process", 4: "a fleet of four"}


def replied_after_s(answer: Answer) -> float:
    """Return how long the judge takes: bad answers have their verdicts long after good ones."""
    return 60.0 if answer.hallucinated else 3.0


def service_of(workers: int, stream: Stream, fraction: float, folder: Path) -> Service:
    """Return the service of a stream, in one process or with so many workers."""
    clock = ManualClock()
    records = Records(evaluators=("faithfulness",), seed=stream.seed)
    options = {
        "clock": clock,
        "records": records,
        "tick_s": 10.0,
        "verdict_after_s": replied_after_s,
    }
    estimates = simulation.statistics(
        clock, records, objectives={"hallucination": BASE}, folder=folder if workers > 1 else None
    )
    samplers = [AdaptiveSampler(fraction, clock=clock) for _ in range(workers)]
    if workers == 1:
        return Service(estimates=estimates, sampler=samplers[0], **options)
    return FleetService(
        estimates=estimates, sampler=samplers[0], samplers=samplers, folder=folder, **options
    )


def coverage(judged: int) -> None:
    """Print bias and coverage of the intervals, by number of judged answers."""
    print(f"\n{judged:,} verdicts a row, {FRACTION:.0%} of the answers judged, rate {BASE:.0%}, ")
    print("AUROC 0.8; cells: coverage %, mean width in points.\n")
    head(["", "bias pp (n = 100)", *(f"n = {n:,}" for n in SIZES)])
    stream = Stream(seed=1, for_s=judged / FRACTION, per_minute=60.0, rate=steady(BASE))
    for workers in WORKERS:
        with tempfile.TemporaryDirectory() as folder:
            service = service_of(workers, stream, FRACTION, Path(folder))
            tallies = blocks_in(service, stream, HALLUCINATION, BASE)
        cells = [f"{100 * t.covered:.1f}, {100 * t.width:.1f}" for t in tallies.values() if t.count]
        row([NAMES[workers], f"{100 * tallies[100].bias:+.2f}", *cells])


def false_alarms(days: float) -> None:
    """Print how often the alarm is false, where the rate is exactly the objective."""
    print(f"\nAlarms in 30 days of {days:.0f} at exactly {BASE:.0%}, three answers a minute, all ")
    print("judged, half of the alarms are hallucination's.\n")
    head(["", "alarms in 30 days"])
    stream = Stream(seed=1, for_s=days * DAY_S, per_minute=3.0, rate=steady(BASE))
    for workers in WORKERS:
        with tempfile.TemporaryDirectory() as folder:
            service = service_of(workers, stream, 1.0, Path(folder))
            service.feed(stream.answers())
        row([NAMES[workers], f"{len(service.raised()) * 30 / days:.2f}"])


def delays(runs: int) -> None:
    """Print how long the alarm takes after the rate has changed."""
    print(
        f"\n60 answers a minute, 5 % judged, a quiet quarter of a day first; {runs} runs, median "
    )
    print("/ 90th percentile.\n")
    before_s = DAY_S / 4
    changes = {"4 -> 20 % at once": (0.20, 4 * HOUR_S), "4 -> 8 % at once": (0.08, 12 * HOUR_S)}
    head(["", *changes])
    for workers in WORKERS:
        cells = []
        for after, within_s in changes.values():
            found = Delays()
            for seed in range(runs):
                rate = step(BASE, after, at_s=before_s)
                stream = Stream(seed=6_000 + seed, for_s=before_s + within_s, rate=rate)
                found.add(delay(workers, stream, before_s))
            cells.append(found)
        row([NAMES[workers], *cells])


def delay(workers: int, stream: Stream, before_s: float) -> float | None:
    """Return how long after a change the alarm was raised; None: it was not."""
    with tempfile.TemporaryDirectory() as folder:
        service = service_of(workers, stream, 0.05, Path(folder))
        for answer in stream.answers():
            service.feed((answer,))
            if late := [at_s for at_s in service.raised() if at_s >= before_s]:
                return late[0] - before_s
    return None


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", choices=("coverage", "false", "delay"))
    parser.add_argument("--judged", type=int, default=20_000)
    parser.add_argument("--days", type=float, default=360.0)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    if given.table == "coverage":
        coverage(given.judged)
    elif given.table == "false":
        false_alarms(given.days)
    else:
        delays(given.runs)


if __name__ == "__main__":
    main()
