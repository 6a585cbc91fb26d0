"""Where the CPU behind the request path goes, by stage.

    python tests/bench/stages.py [--answers 600] [--causes]

The worker's thread is profiled by its own CPU time while it scores, estimates and emits answers of
690 characters over five chunks, 4,000 characters together. A profile makes short functions dearer
than they are: read the shares, not the sum. `request_path.py` has the CPU of all of it.

With `--causes`: what finding causes costs of it, in microseconds per answer. Answers with four
attributes, a session, a priced model call and five chunks of one retrieval go through a monitor,
once without a judge of a sample, so that every answer has a verdict, and once with one that reads
one in ten; then each part takes the same answers again, not profiled, at several rates of traffic,
as if that traffic had come for hours. The parts take turns, and with them one that does nothing,
whose CPU time is that of the loop. Every turn has the same answers and the same ticks; of the time
up to each tick the low decile over all turns counts, which is what the work takes where nobody else
is at the caches.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from applications import ANSWER, CHUNKS, QUERY
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from variants import Dropping

from ragmonitor import Chunk, Monitor
from ragmonitor.causes.answer_log import _HALF_LIFE_S, MAX_JUDGED, AnswerLog
from ragmonitor.causes.events import Events
from ragmonitor.causes.slices import Slices
from ragmonitor.causes.sources import Sources
from ragmonitor.causes.versions import Versions
from ragmonitor.estimation import Alarms
from ragmonitor.estimation.answer_cost import AnswerCost
from ragmonitor.estimation.parts import Answer, Observation, Part
from ragmonitor.incidents import IncidentKeeper
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.records import (
    Assessment,
    Generation,
    Interaction,
    JudgeIdentity,
    Report,
    Retrieval,
    Usage,
)
from ragmonitor.sampling.arrivals import Arrivals
from ragmonitor.testing import ScriptedJudge
from ragmonitor.worker.worker_thread import TICK_S, Worker

BUILTIN = BuiltinJudge()
JUDGE = JudgeIdentity(name="scripted", version="1", kind="CODE")
WARM_UP = 200
"""Answers before those that are measured; the reference of retrievals takes 100."""
TURNS = 40
"""Of each part at each rate."""
STEADY_S = 4 * 3_600.0
"""For how long traffic has come at a rate before it is measured: four half-lives of the estimate
that decides which share of it slices keep."""
PER_S = (0.5, 5.0, 50.0)

STAGES = {
    "reading by the built-in judge": ("judging.py", "read_now"),
    "spans": ("otel.py", "emit"),
    "record and redaction": ("answer_handling.py", "_captured"),
    "statistics": ("answer_handling.py", "_settle"),
    "what is kept every two seconds": ("worker_thread.py", "_tick"),
    "all": ("worker_thread.py", "_work"),
}


def varied(number: int, rng: random.Random) -> Interaction:
    """Return an answer of one of sixty documents, five routes and twenty tenants; 4 % are bad."""
    shown = rng.sample(range(60), 5)
    chunks = tuple(
        Chunk(text=f"{CHUNKS[0][:300]} It lasts {at} days.", metadata={"source": f"{at}.md"})
        for at in shown
    )
    days = 999 if rng.random() < 0.04 else shown[0]
    ended_ns = time.time_ns()
    call = Generation(
        output=f"It lasts {days} days.",
        model="m",
        usage=Usage(input_tokens=900, output_tokens=90),
        started_ns=0,
        ended_ns=10**9,
    )
    return Interaction(
        id=f"{number:032x}",
        query=QUERY,
        chunks=chunks,
        answer=f"It lasts {days} days.",
        framework="python",
        started_ns=ended_ns - 2 * 10**9,
        ended_ns=ended_ns,
        session_id=f"s{rng.randrange(500)}",
        attributes={
            "route": rng.choice("abcde"),
            "tenant": f"t{rng.randrange(20)}",
            "service_version": rng.choice(("1.4", "1.5")),
            "prompt_id": rng.choice("pq"),
        },
        retrievals=(Retrieval(query=QUERY, chunks=chunks, started_ns=0, ended_ns=1, name="kb"),),
        generations=(call,),
    )


class Taken(NamedTuple):
    """What a monitor took in, and the parts that took it."""

    answers: list[Answer]
    reports: list[Report]
    parts: dict[str, Part]
    keeper: IncidentKeeper


def causes(answers: int) -> None:
    """Print what the parts cost that tell why answers are worse."""
    columns: dict[str, dict[str, float]] = {}
    at_ticks: dict[str, float] = {}
    for label, judge in (("every", None), ("one in ten", ScriptedJudge(_says))):
        taken = _taken(answers, judge)
        for per_s in PER_S:
            columns[f"{label}, {per_s:g}/s"] = _costs(taken, per_s, at_ticks)
    print(f"| us per answer, of {answers} | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in next(iter(columns.values())):
        print(f"| {name} | {' | '.join(f'{each[name]:.1f}' for each in columns.values())} |")
    print("\n| at each tick at most | ms |\n|---|---|")
    for name, seconds in at_ticks.items():
        print(f"| {name} | {1e3 * seconds:.2f} |")


def _says(interaction: Interaction) -> Assessment:
    return replace(BUILTIN.read(interaction), judge=JUDGE)


def _taken(answers: int, judge: ScriptedJudge | None) -> Taken:
    """Have a monitor take answers in, and return them with its parts."""
    rng = random.Random(0)
    taken, reports, parts, keepers = [], [], {}, []  # type: ignore[var-annotated]
    given = [(of, of.add) for of in (Slices, Sources, Versions, Events, AnswerCost)]
    for of, add in given:
        of.add = _remembering(of.__name__, add, parts, taken)  # type: ignore[method-assign]
    export = IncidentKeeper.export

    def exported(keeper: IncidentKeeper, report: Report) -> None:
        keepers.append(keeper)
        reports.append(report)
        export(keeper, report)

    IncidentKeeper.export = exported  # type: ignore[method-assign]
    judged = {} if judge is None else {"judge": judge, "sample": {"rate": 0.1}}
    with Monitor(
        service="bench",
        server=False,
        worker="thread",
        estimation={"prices": ["m=0.5/1.5"], "drift_reference_size": 100},
        objectives={"hallucination": 0.05},
        **judged,  # type: ignore[arg-type]
    ) as monitor:
        for number in range(-WARM_UP, answers):
            monitor.observe(varied(number + WARM_UP, rng))
            if number % 100 == 99:  # so that the queue is not full
                monitor.flush(600)
            if number == -1:
                taken.clear()
                reports.clear()
    for of, add in given:
        of.add = add  # type: ignore[method-assign]
    IncidentKeeper.export = export  # type: ignore[method-assign]
    return Taken(taken, reports, parts, keepers[0])


def _remembering(
    name: str, add: Callable[..., Any], parts: dict[str, Part], taken: list[Answer]
) -> Callable[..., Any]:
    """Return a part's method that remembers the part, and what slices are given."""

    def added(part: Part, answer: Answer) -> Any:
        parts[name] = part
        if name == "Slices":
            taken.append(answer)
        return add(part, answer)

    return added


def _costs(taken: Taken, per_s: float, at_ticks: dict[str, float]) -> dict[str, float]:
    """Return the microseconds per answer of each part in traffic of so many answers a second.

    Folding answers in at the ticks is part of it. What ticks do besides, whatever the traffic, is
    left out, and its longest median goes to `at_ticks`, in seconds.
    """
    slices = taken.parts["Slices"]
    watch, log = slices._watch, slices._log  # type: ignore[attr-defined]
    watch.tick(log)
    watch._looked_at = watch._look_each_s = math.inf  # a look is a matter of minutes, not of ticks
    began_s = time.time() - TURNS * len(taken.answers) / per_s
    _settle(log, taken.answers, per_s, began_s)
    besides = {
        "versions: exchange and decision": (taken.parts["Versions"], "_exchange"),
    }
    clocks = {what: Clocked(*of) for what, of in besides.items()}
    parts = {"the loop": Part(), **taken.parts}
    # What an answer costs is looked up once for both.
    parts["Versions and AnswerCost"] = Both(parts.pop("Versions"), parts.pop("AnswerCost"))
    spent: dict[str, list[list[float]]] = {name: [] for name in (*parts, "Incidents")}
    observed: list[list[Observation]] = []
    for turn in range(TURNS):
        answers = _at(taken.answers, per_s, began_s + turn * len(taken.answers) / per_s)
        log._random.seed(0)  # so that each turn keeps the same answers
        for name, part in parts.items():
            seen = observed if name == "Slices" else []
            spent[name].append(_take(part, answers, per_s, seen, list(clocks.values())))
        spent["Incidents"].append(_quote(taken.keeper, taken.reports))
    for what, clock in clocks.items():
        at_ticks[what] = max(at_ticks.get(what, 0.0), clock.restored())
    idle = _low(spent.pop("the loop"))
    found = {name: _low(each) - idle * (name in parts) for name, each in spent.items()}
    found["Alarms of slices"] = _of_alarms(watch._alarms, observed, at_ticks)
    found = {name: 1e6 * max(0.0, each) / len(taken.answers) for name, each in found.items()}
    return found | {"all": sum(found.values())}


def _settle(log: AnswerLog, answers: list[Answer], per_s: float, until_s: float) -> None:
    """Let the log keep what it would, had such traffic come for hours."""
    while len(log) < MAX_JUDGED // 2:
        for answer in answers:
            log.add(answer)
    is_judged = [answer.verdicts is not None for answer in answers]
    log._arrivals = (Arrivals(_HALF_LIFE_S), Arrivals(_HALF_LIFE_S))
    for number in range(round(STEADY_S * per_s)):
        at_s = until_s - STEADY_S + number / per_s
        log._arrivals[is_judged[number % len(answers)]].note(at_s)
    log.refresh()


def _take(
    part: Part,
    answers: list[Answer],
    per_s: float,
    observed: list[list[Observation]],
    aside: list[Clocked],
) -> list[float]:
    """Have a part take answers, with a tick every two seconds; return the seconds up to each.

    Versions add answers up over several ticks: theirs is the time of a turn as a whole.

    Args:
        part: What takes them.
        answers: In order.
        per_s: How many there are in a second.
        observed: Is given what each tick brought.
        aside: Their time does not count.
    """
    spent = []
    each_tick = max(1, round(TICK_S * per_s))
    for first in range(0, len(answers), each_tick):
        without = sum(clock.spent_s for clock in aside)
        if isinstance(part, Both):
            part.versions._now = partial(float, answers[first].at_s)  # type: ignore[attr-defined]
        seen: list[Observation] = []
        began = time.thread_time()
        for answer in answers[first : first + each_tick]:
            seen += part.add(answer)
        part.tick()
        if isinstance(part, Both) and first + each_tick >= len(answers):
            part.versions._add_up()  # type: ignore[attr-defined]
        ended = time.thread_time()
        spent.append(ended - began - sum(clock.spent_s for clock in aside) + without)
        observed.append(seen)
    return [sum(spent)] if isinstance(part, Both) else spent


def _quote(keeper: IncidentKeeper, reports: list[Report]) -> list[float]:
    spent = []
    for first in range(0, len(reports), 100):
        began = time.thread_time()
        for report in reports[first : first + 100]:
            keeper.export(report)
        spent.append(time.thread_time() - began)
    return spent


def _low(turns: list[list[float]]) -> float:
    """Return the seconds of one turn: of each of its ticks the low decile over all turns."""
    return sum(sorted(each)[len(each) // 10] for each in zip(*turns, strict=True))


def _of_alarms(
    alarms: Alarms, observed: list[list[Observation]], at_ticks: dict[str, float]
) -> float:
    """Return the seconds of one turn of updating alarms with what ticks brought."""
    ticks = len(observed) // TURNS
    idle: list[float] = []
    spent: list[float] = []
    for turn in range(TURNS):
        of_turn = observed[turn * ticks : (turn + 1) * ticks]
        for turns, brought in ((idle, [()] * ticks), (spent, of_turn)):
            found = []
            for each in brought:
                began = time.thread_time()
                for observation in each:
                    alarms.update(observation)
                alarms.apply(lambda _: None)
                found.append(time.thread_time() - began)
            turns.append(found)
    at_ticks["alarms without a verdict"] = _low(idle) / ticks
    return _low(spent) - _low(idle)


def _at(answers: list[Answer], per_s: float, began_s: float) -> list[Answer]:
    """Return the answers as if they had been given one after the other from a time on."""
    return [answer._replace(at_s=began_s + number / per_s) for number, answer in enumerate(answers)]


class Both(Part):
    """The comparison of versions and what a good answer costs, one after the other."""

    def __init__(self, versions: Part, cost: Part) -> None:
        self.versions, self._cost = versions, cost

    def add(self, answer: Answer) -> list[Observation]:
        """Have both take it."""
        return [*self.versions.add(answer), *self._cost.add(answer)]

    def tick(self) -> list[Observation]:
        """Let time pass for both."""
        return [*self.versions.tick(), *self._cost.tick()]


class Clocked:
    """Times a method of one object."""

    def __init__(self, owner: object, name: str) -> None:
        self._owner, self._name, self._method = owner, name, getattr(owner, name)
        self.spent_s = 0.0
        self._each: list[float] = []
        setattr(owner, name, self._timed)

    def _timed(self, *given: Any) -> Any:
        began = time.thread_time()
        result = self._method(*given)
        self._each.append(time.thread_time() - began)
        self.spent_s += self._each[-1]
        return result

    def restored(self) -> float:
        """Let the method be as it was, and return the median of its times, in seconds."""
        setattr(self._owner, self._name, self._method)
        return median(self._each) if self._each else 0.0


def main() -> None:
    """Print each stage's share."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--answers", type=int, default=600, help="with --causes a multiple of 600")
    options.add_argument("--causes", action="store_true")
    given = options.parse_args()
    if given.causes:
        causes(given.answers)
        return
    answers = given.answers
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace.set_tracer_provider(provider)
    profile = cProfile.Profile(time.thread_time)
    work = Worker._work

    def profiled(worker: Worker) -> bool:
        profile.enable()
        try:
            return work(worker)
        finally:
            profile.disable()

    Worker._work = profiled  # type: ignore[method-assign]
    with Monitor(service="bench", server=False, worker="thread") as monitor:
        for _ in range(answers):
            with monitor.interaction(query=QUERY) as interaction:
                interaction.retrieved(CHUNKS)
                interaction.answered(ANSWER)
        monitor.flush(600)
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spent = {
        stage: sum(
            each[3]
            for (path, _, function), each in stats.items()
            if path.endswith(f"/{file}") and function == name
        )
        for stage, (file, name) in STAGES.items()
    }
    print("| stage | share |\n|---|---|")
    for stage, seconds in spent.items():
        print(f"| {stage} | {seconds / spent['all']:.0%} |")


if __name__ == "__main__":
    main()
