"""What it takes to tell the judge from the application after an alarm, and how often that is wrong.

    python tests/bench/alarm_causes.py [--runs 100]

Each world is simulated with the real anchors: 1,500 verdicts before, at 180 an hour; then something
changes, and an alarm is raised after the stated number of verdicts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.inquiries import World, inquire

WORLDS = {
    "application 4 -> 20 %": World(after=0.20, verdicts=40),
    "application 4 -> 8.8 %": World(after=0.088, verdicts=300),
    "application 4 -> 8.8 %, slips 2 %": World(after=0.088, verdicts=300, slips=0.02),
    "application 4 -> 6 %": World(after=0.06, verdicts=900),
    "judge stricter on 17 %": World(stricter=0.17, verdicts=40),
    "judge stricter on 10 %": World(stricter=0.10, verdicts=150),
    "judge stricter on 5 %": World(stricter=0.05, verdicts=300),
    "judge stricter on 5 %, slips 2 %": World(stricter=0.05, verdicts=300, slips=0.02),
    "judge stricter on 2.5 %": World(stricter=0.025, verdicts=900),
    "half and half, 4 -> 12 %": World(after=0.08, stricter=0.04, verdicts=200),
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    print("| what became worse | judge | application | unknown | readings, median (p90) |")
    print("|---|---|---|---|---|")
    for name, world in WORLDS.items():
        found = [inquire(world, seed) for seed in range(runs)]
        shares = [
            f"{100 * sum(each.cause == cause for each in found) / runs:.0f} %"
            for cause in ("judge", "application", "unknown")
        ]
        readings = sorted(each.readings for each in found)
        middle, high = readings[runs // 2], readings[int(0.9 * runs)]
        print(f"| {name} | {' | '.join(shares)} | {middle} ({high}) |", flush=True)


if __name__ == "__main__":
    main()
