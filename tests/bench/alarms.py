"""How often alarms are false, and how soon they are right, beside the rules that others alarm by.

    python tests/bench/alarms.py false [--days 720]
    python tests/bench/alarms.py delay [--runs 200]
    python tests/bench/alarms.py sessions [--days 480] [--runs 60]
    python tests/bench/alarms.py waiting [--runs 15]
    python tests/bench/alarms.py monitor [--runs 40] [--only 20]

Simulated traffic of which the truth is known (tests/support/streams.py) drives the alarms, with
nothing else, or the whole of sampling, estimates and alarms as the worker does (`monitor`), on a
clock of its own. Prints tables in Markdown. River's ADWIN is among the rules where that package is
installed; nothing else is needed.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.estimation import Statistics  # noqa: E402  # runs from a checkout
from ragmonitor.estimation.alarms import Alarms  # noqa: E402  # runs from a checkout
from ragmonitor.estimation.alarms import Stream as Watched  # noqa: E402
from ragmonitor.estimation.parts import Observation  # noqa: E402
from ragmonitor.sampling import AdaptiveSampler, uniform_of  # noqa: E402
from ragmonitor.testing import ManualClock  # noqa: E402
from tests.bench.rules import Rule, has_river, rules, tuned_cusum  # noqa: E402
from tests.support import simulation  # noqa: E402
from tests.support.simulation import Service  # noqa: E402
from tests.support.streams import (  # noqa: E402
    DAY_S,
    HOUR_S,
    MINUTE_S,
    Answer,
    Course,
    Records,
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

    def __init__(self, objective: float | None, *, share: float = 1.0) -> None:
        self.now_s = 0.0
        watched = Watched(signal="hallucination", judge="judge", kind="quality", share=share)
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


def tuned(days: float = 180.0) -> float:
    """Return the threshold of a CUSUM that was fitted on history known to be good."""
    history = Stream(seed=99, for_s=days * DAY_S, per_minute=PER_MINUTE, rate=steady(BASE))
    return tuned_cusum(
        (answer.hallucinated for answer in history.answers()), days, before=BASE, after=0.08
    )


def contenders(cusum: float) -> dict[str, Callable[[], Rule]]:
    """Return everything that is compared, by name."""
    return {
        "ours, objective 4 %": lambda: Ours(BASE),
        "ours, objective 4 %, half of the alarms": lambda: Ours(BASE, share=0.5),
        "ours, objective 5 %": lambda: Ours(0.05),
        "ours, objective learned": lambda: Ours(None),
        **rules(BASE, cusum),
    }


# --- false alarms ---------------------------------------------------------------------------------


def false_alarms(days: float) -> None:
    """How often each rule fires in 30 days in which nothing is wrong."""
    cusum = tuned()
    quiet: dict[str, Stream] = {
        "steady 4 %": Stream(seed=1, rate=steady(BASE)),
        "steady 3.2 %": Stream(seed=2, rate=steady(BASE / 1.25)),
        "2 to 4 % over the day, traffic ± 70 %": Stream(seed=3, rate=rhythm(0.02, BASE), swing=0.7),
        "4 % in sessions of 5, correlation 0.3": Stream(
            seed=4, rate=steady(BASE), session_length=5.0, session_correlation=0.3
        ),
    }
    print(
        f"\nAlarms in 30 days of {days:.0f} quiet ones, 180 verdicts an hour, all answers "
        "judged. Ours are told of sessions; the other rules know none.\n"
    )
    head(["rule", *quiet])
    found: dict[str, list[str]] = {name: [] for name in contenders(cusum)}
    for stream in quiet.values():
        watching = {name: make() for name, make in contenders(cusum).items()}
        count = dict.fromkeys(watching, 0)
        for answer in with_(stream, for_s=days * DAY_S).answers():
            for name, rule in watching.items():
                count[name] += sees(rule, answer)
        for name, n in count.items():
            found[name].append(f"{n * 30 / days:.2f}")
    for name, cells in found.items():
        row([name, *cells])
    say_of_river()


def sees(rule: Rule, answer: Answer) -> bool:
    """Return whether a rule fires on this answer's verdict."""
    if isinstance(rule, Ours):
        return rule.see(answer.at_s, bad=answer.hallucinated, session=answer.session)
    return rule.see(answer.at_s, bad=answer.hallucinated)


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


# --- delays ---------------------------------------------------------------------------------------


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
    """How long each rule takes to fire after the rate has changed."""
    cusum = tuned()
    print(
        f"\nMedian / 90th percentile of {runs} runs, 180 verdicts an hour, two quiet days "
        "before the change.\n"
    )
    head(["rule", *CHANGES])
    found = {name: {change: Delays() for change in CHANGES} for name in contenders(cusum)}
    for change, (rate, within_s) in CHANGES.items():
        for seed in range(runs):
            stream = Stream(
                seed=1_000 + seed,
                for_s=BEFORE_S + within_s,
                per_minute=PER_MINUTE,
                rate=rate,
            )
            waiting = {name: make() for name, make in contenders(cusum).items()}
            for answer in stream.answers():
                for name, rule in tuple(waiting.items()):
                    if sees(rule, answer) and answer.at_s >= BEFORE_S:
                        found[name][change].add(answer.at_s - BEFORE_S)
                        del waiting[name]
                if not waiting:
                    break
            for name in waiting:
                found[name][change].add(None)
    for name, of in found.items():
        row([name, *of.values()])
    say_of_river()


# --- sessions -------------------------------------------------------------------------------------

SESSIONS = {
    "no session ids, 1 answer each": (1.0, 0.0),
    "5 answers, correlation 0.3": (5.0, 0.3),
    "20 answers, correlation 0.3": (20.0, 0.3),
    "20 answers, independent": (20.0, 0.0),
    "30 answers, correlation 0.3": (30.0, 0.3),
}


def sessions(days: float, runs: int) -> None:
    """Print what session ids cost: false alarms at exactly the objective, and delays."""
    print(
        f"\n180 verdicts an hour, all answers judged, eight sessions at a time, objective 4 %. "
        f"Alarms in 30 days of {days:.0f} at exactly 4 %; minutes to the alarm, median / 90th "
        f"percentile of {runs} runs.\n"
    )
    head(["sessions of", "alarms in 30 days", "4 -> 20 % at once"])
    before_s = DAY_S / 4
    for name, (length, correlation) in SESSIONS.items():

        def stream(
            seed: int, rate: Course, for_s: float, length: float = length, r: float = correlation
        ) -> Stream:
            return Stream(
                seed=seed,
                for_s=for_s,
                per_minute=PER_MINUTE,
                rate=rate,
                session_length=length,
                session_correlation=r,
            )

        quiet = Ours(BASE)
        raised = sum(sees(quiet, each) for each in stream(7, steady(BASE), days * DAY_S).answers())
        found = Delays()
        for seed in range(runs):
            rule, after = Ours(BASE), step(BASE, 0.20, at_s=before_s)
            alarmed = (
                answer.at_s - before_s
                for answer in stream(3_000 + seed, after, before_s + DAY_S).answers()
                if sees(rule, answer) and answer.at_s >= before_s
            )
            found.add(next(alarmed, None))
        row([name, f"{raised * 30 / days:.2f}", found])


def say_of_river() -> None:
    """Say what is not in the table."""
    if not has_river():
        print("\nADWIN is not in the table: the package river is not installed.")


# --- the whole monitor ----------------------------------------------------------------------------


def monitor(runs: int, only: str) -> None:
    """Print delays of sampling, estimates, and alarms together."""
    print(
        f"\n60 answers a minute, 5 % judged by uncertainty (180 an hour), AUROC 0.8, verdicts "
        f"after 3 s, hallucination has half of the alarms; {runs} runs, half a quiet day first. "
        "The other rules see a plain random sample of 5 % of the same answers.\n"
    )
    before_s = 0.5 * DAY_S
    changes: dict[str, tuple[Course, float]] = {
        "4 -> 20 % at once": (step(BASE, 0.20, at_s=before_s), 4 * HOUR_S),
        "4 -> 8 % at once": (step(BASE, 0.08, at_s=before_s), 1.5 * DAY_S),
    }
    changes = {name: change for name, change in changes.items() if only in name}
    cusum = tuned()
    names = [
        "ours, objective 4 %",
        "ours, objective 5 %",
        "ours, objective 4 %, after a month",
        *rules(BASE, cusum),
    ]
    head(["rule", *changes])
    found = {name: {change: Delays() for change in changes} for name in names}
    for change, (rate, within_s) in changes.items():
        for seed in range(runs):
            stream = Stream(seed=2_000 + seed, for_s=before_s + within_s, rate=rate)
            for name, objective, aside in (
                (names[0], BASE, 0.0),
                (names[1], 0.05, 0.0),
                (names[2], BASE, ASIDE),
            ):
                at_s = raised_after(stream, objective, before_s, aside=aside)
                found[name][change].add(None if at_s is None else at_s - before_s)
            waiting = {name: make() for name, make in rules(BASE, cusum).items()}
            for answer in stream.answers():
                if uniform_of(f"flat {seed} {answer.number}") >= 0.05:
                    continue
                for name, rule in tuple(waiting.items()):
                    if sees(rule, answer) and answer.at_s >= before_s:
                        found[name][change].add(answer.at_s - before_s)
                        del waiting[name]
                if not waiting:
                    break
            for name in waiting:
                found[name][change].add(None)
    for name, of in found.items():
        row([name, *of.values()])
    say_of_river()


ASIDE = 0.75
"""Of the capital that may be put aside, what is there after a quiet month."""


def waiting(runs: int) -> None:
    """Print delays with nothing put aside, and with what is there after a quiet month."""
    print(
        "\n60 answers a minute, 5 % judged by uncertainty (180 an hour), AUROC 0.8, 4 % "
        f"tolerated, half of the alarms; {runs} runs, 0.3 quiet days first. Missed: up before.\n"
    )
    before_s = 0.3 * DAY_S
    changes = {"4 -> 20 % at once": (0.20, 3 * HOUR_S), "4 -> 8 % at once": (0.08, 7 * HOUR_S)}
    head(["put aside, of what may be", *changes])
    for aside in (0.0, ASIDE):
        cells = []
        for after, within_s in changes.values():
            found = Delays()
            for seed in range(runs):
                rate = step(BASE, after, at_s=before_s)
                stream = Stream(seed=5_000 + seed, for_s=before_s + within_s, rate=rate)
                at_s = raised_after(stream, BASE, before_s, aside=aside)
                found.add(None if at_s is None else at_s - before_s)
            cells.append(found)
        row([f"{aside:.0%}", *cells])


def raised_after(
    stream: Stream, objective: float, after_s: float, *, aside: float = 0.0
) -> float | None:
    """Return when the hallucination alarm was raised, after the change; None: it was not.

    Args:
        stream: Of answers.
        objective: The limit of the mean.
        after_s: Of the change.
        aside: Of the capital that may be put aside, what is there 72 minutes before the change.
    """
    clock = ManualClock()
    records = Records(evaluators=("faithfulness",), seed=stream.seed)
    service = Service(
        estimates=simulation.statistics(clock, records, objectives={"hallucination": objective}),
        sampler=AdaptiveSampler(0.05, clock=clock),
        clock=clock,
        records=records,
        tick_s=15.0,
    )
    statistics = service.estimates
    assert isinstance(statistics, Statistics)
    detector = statistics.alarms._monitors[0].detector
    for answer in stream.answers():
        if aside > 0 and answer.at_s > after_s - 0.05 * DAY_S:
            detector.reserve, aside = aside * detector.max_reserve, 0.0
        service.feed((answer,))
        late = [at_s for at_s in service.raised() if at_s >= after_s]
        if late:
            return late[0]
    return None


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=("false", "delay", "sessions", "waiting", "monitor"))
    parser.add_argument("--days", type=float, default=0.0)
    parser.add_argument("--only", default="", help="part of a change's name, of `monitor`")
    parser.add_argument("--runs", type=int, default=0)
    given = parser.parse_args()
    if given.table == "false":
        false_alarms(given.days or 720.0)
    elif given.table == "delay":
        delays(given.runs or 200)
    elif given.table == "sessions":
        sessions(given.days or 480.0, given.runs or 60)
    elif given.table == "waiting":
        waiting(given.runs or 15)
    else:
        monitor(given.runs or 40, given.only)


if __name__ == "__main__":
    main()
