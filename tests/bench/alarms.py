"""How often alarms are false, and how soon they are right.

    python tests/bench/alarms.py false [--days 720]
    python tests/bench/alarms.py delay [--runs 200]

Simulated traffic of which the truth is known (tests/support/streams.py) drives one signal's alarm
on a clock of its own. Prints tables in Markdown.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.estimation.alarms import Alarms  # noqa: E402  # runs from a checkout
from ragmonitor.estimation.alarms import Stream as Watched  # noqa: E402
from ragmonitor.estimation.parts import Observation  # noqa: E402
from tests.support.streams import (  # noqa: E402
    DAY_S,
    HOUR_S,
    MINUTE_S,
    Answer,
    Course,
    Stream,
    drift,
    rhythm,
    steady,
    step,
)

BASE = 0.04
PER_MINUTE = 3.0
"""180 verdicts an hour."""
THRESHOLD_DAYS = 30.0
OBJECTIVES = {"4 %": BASE, "5 %": 0.05, "learned": None}
BEFORE_S = 2 * DAY_S
"""Of quiet, before something changes."""

CHANGES: dict[str, tuple[Course, float]] = {
    "4 -> 20 % at once": (step(BASE, 0.20, at_s=BEFORE_S), 6 * HOUR_S),
    "4 -> 8 % at once": (step(BASE, 0.08, at_s=BEFORE_S), 3 * DAY_S),
    "4 -> 8 % over a day": (drift(BASE, 0.08, at_s=BEFORE_S, over_s=DAY_S), 5 * DAY_S),
}
"""What happens, and for how long a rule has time to notice."""


class Ours:
    """One signal's alarm, fed one verdict after the other."""

    def __init__(self, objective: float | None) -> None:
        self.now_s = 0.0
        watched = Watched(signal="hallucination", judge="judge", kind="quality", share=1.0)
        self._alarms = Alarms(
            (watched,),
            false_alarm_every_days=THRESHOLD_DAYS,
            objectives={} if objective is None else {"hallucination": objective},
            now=lambda: self.now_s,
        )

    def see(self, at_s: float, *, bad: bool, session: str = "") -> bool:
        """Return whether the alarm is raised now."""
        self.now_s = at_s
        self._alarms.update(
            Observation(signal="hallucination", value=float(bad), at_s=at_s, session=session)
        )
        return any(event.raised for event in self._alarms.apply(lambda _: None))


def row(cells: Iterable[object]) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(cells: Sequence[str]) -> None:
    row(cells)
    row(["---"] * len(cells))


def false_alarms(days: float) -> None:
    """Print how often an alarm is raised in 30 days in which nothing is wrong."""
    quiet: dict[str, Stream] = {
        "steady 4 %": Stream(seed=1, rate=steady(BASE)),
        "steady 3.2 %": Stream(seed=2, rate=steady(BASE / 1.25)),
        "2 to 4 % over the day, traffic ± 70 %": Stream(seed=3, rate=rhythm(0.02, BASE), swing=0.7),
        "4 % in sessions of 5, correlation 0.3": Stream(
            seed=4, rate=steady(BASE), session_length=5.0, session_correlation=0.3
        ),
    }
    print(f"\nAlarms in 30 days of {days:.0f} quiet ones, 180 verdicts an hour, all judged.\n")
    head(["objective", *quiet])
    found: dict[str, list[str]] = {name: [] for name in OBJECTIVES}
    for stream in quiet.values():
        alarms = {name: Ours(objective) for name, objective in OBJECTIVES.items()}
        count = dict.fromkeys(alarms, 0)
        for answer in with_(stream, for_s=days * DAY_S).answers():
            for name, alarm in alarms.items():
                count[name] += sees(alarm, answer)
        for name, n in count.items():
            found[name].append(f"{n * 30 / days:.2f}")
    for name, cells in found.items():
        row([name, *cells])


def sees(alarm: Ours, answer: Answer) -> bool:
    """Return whether an alarm is raised on this answer's verdict."""
    return alarm.see(answer.at_s, bad=answer.hallucinated, session=answer.session)


def with_(stream: Stream, *, for_s: float) -> Stream:
    """Return the stream at 180 answers an hour, for so long."""
    return Stream(
        seed=stream.seed,
        for_s=for_s,
        per_minute=PER_MINUTE,
        rate=stream.rate,
        swing=stream.swing,
        session_length=stream.session_length,
        session_correlation=stream.session_correlation,
    )


@dataclass(slots=True)
class Delays:
    """How long it took, over runs."""

    found_s: list[float] = field(default_factory=list)
    missed: int = 0

    def add(self, delay_s: float | None) -> None:
        if delay_s is None:
            self.missed += 1
        else:
            self.found_s.append(delay_s)

    def quantile(self, share: float) -> float:
        """Return a quantile over all runs; infinite where it lies among those that missed."""
        every = sorted(self.found_s) + [math.inf] * self.missed
        return every[min(len(every) - 1, int(share * len(every)))]

    def __str__(self) -> str:
        runs = len(self.found_s) + self.missed
        text = f"{span(self.quantile(0.5))} / {span(self.quantile(0.9))}"
        return text + (f", missed {self.missed / runs:.0%}" if self.missed else "")


def span(seconds: float) -> str:
    """Return a time for people."""
    if math.isinf(seconds):
        return "never"
    return f"{seconds / MINUTE_S:.0f} min" if seconds < 2 * HOUR_S else f"{seconds / HOUR_S:.1f} h"


def delays(runs: int) -> None:
    """Print how long an alarm takes to be raised after the rate has changed."""
    print(
        f"\nMedian / 90th percentile of {runs} runs, 180 verdicts an hour, two quiet days "
        "before the change.\n"
    )
    head(["objective", *CHANGES])
    found = {name: {change: Delays() for change in CHANGES} for name in OBJECTIVES}
    for change, (rate, within_s) in CHANGES.items():
        for seed in range(runs):
            stream = Stream(
                seed=1_000 + seed,
                for_s=BEFORE_S + within_s,
                per_minute=PER_MINUTE,
                rate=rate,
            )
            waiting = {name: Ours(objective) for name, objective in OBJECTIVES.items()}
            for answer in stream.answers():
                for name, alarm in tuple(waiting.items()):
                    if sees(alarm, answer) and answer.at_s >= BEFORE_S:
                        found[name][change].add(answer.at_s - BEFORE_S)
                        del waiting[name]
                if not waiting:
                    break
            for name in waiting:
                found[name][change].add(None)
    for name, of in found.items():
        row([name, *of.values()])


ASIDE = 0.75
"""Of the capital that may be put aside, what is there after a quiet month."""


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=("false", "delay"))
    parser.add_argument("--days", type=float, default=720.0)
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    if given.table == "false":
        false_alarms(given.days)
    else:
        delays(given.runs)


if __name__ == "__main__":
    main()
