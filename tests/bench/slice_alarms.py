"""How soon a slice's own alarm finds what the whole's does not, and how often it is false.

    python tests/bench/slice_alarms.py delay [--runs 20]
    python tests/bench/slice_alarms.py false [--days 300]

Simulated traffic of 1,800 answers an hour of which a tenth is judged, four routes, twenty tenants
and two versions, through the sampler, the slices and the alarms with the defaults of the settings,
on a clock of its own (tests/support/sliced_service.py). Prints tables in Markdown.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.sliced_service import SlicedService  # noqa: E402  # from a checkout

BASE = 0.04
HOUR_S = 3_600.0
DAY_S = 86_400.0
PER_HOUR = 1_800.0
BEFORE_DAYS = 1.0
FOR_HOURS = 24.0
"""How long a rise is waited for."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What gets worse."""

    name: str
    size: float
    """Of the traffic."""
    to: float
    is_new: bool = False
    """It is first seen when it is bad."""


ROUTE = Planted(name="route=billing", size=0.02, to=0.5)
CANARY = Planted(name="version=1.5", size=0.1, to=0.12, is_new=True)
WAYS: dict[str, Callable[[], SlicedService]] = {
    "the whole alone": lambda: SlicedService(share=0.0),
    "its own alarm, no floor": lambda: SlicedService(suspect_per_hour=0.0),
    "its own alarm, a floor while it is suspicious (default)": SlicedService,
}
FLOOR = "its own alarm, and sample.floor_by=route at 20 an hour"


def attributes(rng: random.Random, planted: Planted | None, *, is_hit: bool) -> dict[str, str]:
    """Return the attributes of an answer."""
    found = {
        "route": rng.choice(("faq", "legal", "sales")),
        "tenant": f"t{int(20 * rng.random() ** 2)}",
        "version": "1.4",
    }
    if planted is not None and is_hit:
        found.update([planted.name.split("=")])
    return found


def hours_until(service: SlicedService, planted: Planted, seed: int) -> float | None:
    """Return how long after the rise an alarm was raised: the whole's, or the slice's own."""
    rng = random.Random(seed)
    at_s, rise_s = 0.0, BEFORE_DAYS * DAY_S
    signals = ("hallucination", f"hallucination{{{planted.name}}}")
    while at_s < rise_s + FOR_HOURS * HOUR_S:
        at_s += rng.expovariate(PER_HOUR / HOUR_S)
        is_since = at_s >= rise_s
        is_hit = rng.random() < planted.size and (is_since or not planted.is_new)
        rate = planted.to if is_since and is_hit else BASE
        service.answer(
            at_s, attributes(rng, planted, is_hit=is_hit), lambda p=rate: rng.random() < p
        )
        raised = [each for signal in signals for each in service.raised(signal, after_s=rise_s)]
        if raised:
            return (min(raised) - rise_s) / HOUR_S
    return None


def delay(runs: int) -> None:
    """Print how long each way takes."""
    print(f"\n{runs} runs each, waited for {FOR_HOURS:.0f} h.\n")
    print("| what | found by | found | hours, median | 90 % |")
    print("|---|---|---|---|---|")
    for planted in (ROUTE, CANARY):
        ways = dict(WAYS)
        if planted is ROUTE:
            ways[FLOOR] = lambda: SlicedService(floor_by="route", floor_per_hour=20.0)
        for way, make in ways.items():
            found = [hours_until(make(), planted, seed) for seed in range(runs)]
            hours = sorted(FOR_HOURS * 9 if each is None else each for each in found)
            print(
                f"| {planted.name}, {planted.size:.0%}, to {planted.to:.0%} | {way} "
                f"| {sum(each is not None for each in found)} of {runs} "
                f"| {_shown(hours, 0.5)} | {_shown(hours, 0.9)} |",
                flush=True,
            )


def _shown(hours: Sequence[float], share: float) -> str:
    at = hours[min(len(hours) - 1, int(share * len(hours)))]
    return "-" if at > FOR_HOURS else f"{at:.1f}"


def false(days: float) -> None:
    """Print how many alarms there are while nothing gets worse."""
    print("\n| nothing planted, days | alarms of slices in 30 days | may be | judged for floors |")
    print("|---|---|---|---|")
    for share in (0.1, 0.4):
        service, rng = SlicedService(share=share, rate=1.0), random.Random(7)
        at_s = 0.0
        # All are judged, so that no time goes into answers that are not.
        while at_s < days * DAY_S:
            at_s += rng.expovariate(PER_HOUR / 10 / HOUR_S)
            service.answer(
                at_s, attributes(rng, None, is_hit=False), lambda r=rng: r.random() < BASE
            )
        alarms = sum(each.raised and each.kind == "slice" for each in service.events)
        print(
            f"| {days:.0f}, slices_share {share:g} | {30 * alarms / days:.2f} | {share:g} | - |",
            flush=True,
        )


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=("delay", "false"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--days", type=float, default=300.0)
    given = parser.parse_args()
    if given.table == "delay":
        delay(given.runs)
    else:
        false(given.days)


if __name__ == "__main__":
    main()
