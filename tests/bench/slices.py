"""What the search for slices finds, how often wrongly, and what it costs.

    python tests/bench/slices.py power [--runs 40]
    python tests/bench/slices.py nothing [--runs 200]
    python tests/bench/slices.py cost

Simulated answers with a planted cause (tests/support/slice_rows.py), looked at once, so long after
the cause began as the table says. Prints tables in Markdown.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.causes.answer_log import MAX_JUDGED, Row  # noqa: E402  # from a checkout
from ragmonitor.causes.slice_search import SliceSearch  # noqa: E402
from tests.support.slice_rows import RATE, SIGNAL, SINCE_S, Traffic, only  # noqa: E402

HOURS_BEFORE = 24.0
MOST_BEFORE = 12_000
"""Judged answers before, at most: more change little and take long."""
PLANTED = "route=billing"


def look(traffic: Traffic, *, auroc: float | None = None) -> tuple[list[str], bool]:
    """Return what is discovered, in order, and whether anything had risen.

    Args:
        traffic: What is simulated.
        auroc: Of the built-in score, by which answers are drawn and rates corrected; None: all are
            drawn alike.
    """
    rows = traffic.rows()
    if auroc is not None:
        rows = iter(_drawn_by_score(list(traffic.rows()), auroc, traffic.seed))
    search = SliceSearch(rows, SIGNAL, SINCE_S, is_flipped=False, max_weight=2.0)
    if not search.is_possible:
        return [], False
    return [each.name for each in search.slices(()) if each.is_discovery], True


def _drawn_by_score(rows: Sequence[Row], auroc: float, seed: int) -> list[Row]:
    """Return answers that were drawn twice as likely where a score of that AUROC is high."""
    rng = random.Random(seed)
    shift = 2**0.5 * _quantile(auroc)
    found = []
    for row in rows:
        bad = bool(row.values and row.values[0])
        # Half of the rate is the same for all, the other half as uncertain as the score says.
        importance = 0.7 if rng.gauss(shift if bad else 0.0, 1) > 1 else 1.35
        if rng.random() < 0.65 / importance:
            expected = (1.0, 0.2 if importance < 1 else 0.02)
            found.append(row._replace(importance=importance, weight=importance, expected=expected))
    return found


def _quantile(share: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(share)


def power(runs: int) -> None:
    """How often a planted route is named, by its size and the traffic."""
    print(f"\n{runs} runs each: a route goes from {RATE:.0%} to a rate; looked at after 2 h.\n")
    print("| judged an hour | route | to | AUROC | named | named first | others named, share |")
    print("|---|---|---|---|---|---|---|")
    for per_hour in (20, 180, 2_000):
        for size in (0.02, 0.1, 0.3):
            for to in (0.2, 0.5):
                for auroc in (None, 0.6, 0.9) if (size, to) == (0.1, 0.5) else (None,):
                    _power_row(runs, per_hour, size, to, auroc)


def _power_row(runs: int, per_hour: int, size: float, to: float, auroc: float | None) -> None:
    named = first = 0
    wrong = 0.0
    for seed in range(runs):
        scale = 1.0 if auroc is None else 1 / 0.65
        found, _ = look(
            Traffic(
                seed=seed,
                before=round(scale * min(MOST_BEFORE, HOURS_BEFORE * per_hour)),
                now=round(scale * 2 * per_hour),
                billing=(size, size),
                rates=only(route="billing")(to),
            ),
            auroc=auroc,
        )
        named += PLANTED in found
        first += bool(found) and found[0] == PLANTED
        wrong += sum(each != PLANTED for each in found) / max(1, len(found))
    score = "-" if auroc is None else f"{auroc:.1f}"
    print(
        f"| {per_hour:,} | {size:.0%} | {to:.0%} | {score} | {named / runs:.0%} "
        f"| {first / runs:.0%} | {wrong / runs:.1%} |",
        flush=True,
    )


def nothing(runs: int) -> None:
    """How often something is named where all answers got worse at once, in four looks."""
    print(f"\n{runs} runs each: all answers go from {RATE:.0%} to {3 * RATE:.0%}; four looks.\n")
    print("| answers of a session | runs in which anything was named |")
    print("|---|---|")
    for sessions in (1, 5):
        wrong = 0
        for seed in range(runs):
            traffic = Traffic(
                seed=seed,
                before=2_000,
                in_sessions_of=sessions,
                rates=lambda since, _: 3 * RATE if since else RATE,
            )
            wrong += any(look(replace(traffic, now=now))[0] for now in (100, 200, 400, 800))
        print(f"| {sessions} | {wrong / runs:.1%} |", flush=True)


def cost() -> None:
    """Print what an answer, a look and the memory cost, with everything full."""
    from ragmonitor.causes.slices import Slices
    from tests.support.slice_answers import completed_answers

    answers = completed_answers(3_000)
    slices = Slices(
        max_importance_weight=2.0,
        higher_is_better=lambda _: False,
    )
    rounds = 1 + MAX_JUDGED // len(answers)
    began = time.process_time()
    for _ in range(rounds):
        for each in answers:
            slices.add(each)
    taken = 1e6 * (time.process_time() - began) / rounds / len(answers)
    print("\n| | |\n|---|---|")
    print(f"| an answer, four attributes and a session | {taken:.1f} µs |")
    began = time.process_time()
    slices.candidates(SIGNAL, answers[-600].at_s)
    print(f"| a look at {MAX_JUDGED:,} judged answers | {time.process_time() - began:.1f} s |")
    slices.clear()
    tracemalloc.start()
    for _ in range(rounds):
        for each in answers:
            slices.add(each)
    held = tracemalloc.get_traced_memory()[0] / 1e6
    print(f"| what is kept of {MAX_JUDGED:,} answers | {held:.0f} MB |")


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=("power", "nothing", "cost"))
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    if given.table == "cost":
        cost()
    else:
        {"power": power, "nothing": nothing}[given.table](given.runs)


if __name__ == "__main__":
    main()
