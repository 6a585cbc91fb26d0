"""Where the CPU behind the request path goes, by stage.

    python tests/bench/stages.py [--answers 500] [--causes]

The worker's thread is profiled by its own CPU time while it scores, estimates and emits answers of
690 characters over five chunks, 4,000 characters together. A profile makes short functions dearer
than they are: read the shares, not the sum. `request_path.py` has the CPU of all of it.

With `--causes`: what finding causes costs of it, in microseconds per answer. Answers with four
attributes, a session, a priced model call and five chunks of one retrieval go through a monitor,
once without a judge of a sample, so that every answer has a verdict, and once with one that reads
one in ten; then each part takes the same answers again, not profiled, at several rates of traffic.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import pstats
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import Any, NamedTuple

from applications import ANSWER, CHUNKS, QUERY
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from variants import Dropping

from ragmonitor import Chunk, Monitor
from ragmonitor.causes.answer_log import MAX_JUDGED
from ragmonitor.causes.document_causes import RECORD_EVERY_S, Documents
from ragmonitor.causes.events import Events
from ragmonitor.causes.slices import Slices
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
from ragmonitor.testing import ScriptedJudge
from ragmonitor.worker.worker_thread import TICK_S, Worker

BUILTIN = BuiltinJudge()
JUDGE = JudgeIdentity(name="scripted", version="1", kind="CODE")
ROUNDS = 9
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
    given = [(of, of.add) for of in (Slices, Documents, Versions, Events, AnswerCost)]
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
        estimation={"prices": ["m=0.5/1.5"]},
        objectives={"hallucination": 0.05},
        **judged,  # type: ignore[arg-type]
    ) as monitor:
        for number in range(answers):
            monitor.observe(varied(number, rng))
            if number % 100 == 99:  # so that the queue is not full
                monitor.flush(600)
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

    Folding answers in at the ticks is part of it, and so is adding up documents' answers every six
    seconds, when their lists are drawn up. What ticks do besides, whatever the traffic, is
    left out, and its longest median goes to `at_ticks`, in seconds.
    """
    slices, documents = taken.parts["Slices"], taken.parts["Documents"]
    watch = slices._watch  # type: ignore[attr-defined]
    watch.tick(slices._log)  # type: ignore[attr-defined]
    watch._looked_at = watch._look_each_s = math.inf  # a look is a matter of minutes, not of ticks
    while len(slices._log) < MAX_JUDGED // 2:  # type: ignore[attr-defined]
        for answer in taken.answers:
            slices._log.add(answer)  # type: ignore[attr-defined]
    besides = {
        "choosing questions and chunks to compare": (documents, "_compare"),
        "versions: exchange and decision": (taken.parts["Versions"], "_exchange"),
    }
    found: dict[str, float] = {}
    observed: list[list[Observation]] = []
    for name, part in taken.parts.items():
        clocks = {what: Clocked(*of) for what, of in besides.items() if of[0] is part}
        rounds = []
        for answers in _rounds(taken.answers, per_s):
            spent = sum(each.spent_s for each in clocks.values())
            began, seen, ticks = time.thread_time(), [], 0
            for at, answer in enumerate(answers, 1):
                seen += part.add(answer)
                if at % max(1, TICK_S * per_s) == 0:
                    part.tick()
                    ticks += 1
                    if part is documents and ticks * TICK_S % RECORD_EVERY_S == 0:
                        documents._table.add_up()  # type: ignore[attr-defined]  # as lists need it
                    observed.append(seen) if name == "Slices" else None
                    seen = []
            of_ticks = sum(each.spent_s for each in clocks.values()) - spent
            rounds.append(time.thread_time() - began - of_ticks)
        found[name] = 1e6 * median(rounds) / len(taken.answers)
        for what, clock in clocks.items():
            at_ticks[what] = max(at_ticks.get(what, 0.0), clock.restored())
    found["Alarms of slices"] = _of_alarms(watch._alarms, observed, len(taken.answers), at_ticks)
    rounds = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for report in taken.reports:
            taken.keeper.export(report)
        rounds.append(time.thread_time() - began)
    found["Incidents"] = 1e6 * median(rounds) / len(taken.answers)
    return found | {"all": sum(found.values())}


def _of_alarms(
    alarms: Alarms, observed: list[list[Observation]], answers: int, at_ticks: dict[str, float]
) -> float:
    """Return the microseconds per answer of updating alarms with what ticks brought."""
    idle = []
    for _ in range(50):
        began = time.thread_time()
        alarms.apply(lambda _: None)
        idle.append(time.thread_time() - began)
    at_ticks["alarms without a verdict"] = median(idle)
    began = time.thread_time()
    for each in observed:
        for observation in each:
            alarms.update(observation)
        alarms.apply(lambda _: None)
    spent = time.thread_time() - began - len(observed) * median(idle)
    return 1e6 * max(0.0, spent) / (ROUNDS * answers)


def _rounds(answers: list[Answer], per_s: float) -> Iterator[list[Answer]]:
    """Yield the answers again and again, as if each had been given after the one before."""
    at_s = time.time() - ROUNDS * len(answers) / per_s
    for turn in range(ROUNDS):
        yield [
            answer._replace(at_s=at_s + (turn * len(answers) + number) / per_s)
            for number, answer in enumerate(answers)
        ]


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
    options.add_argument("--answers", type=int, default=500)
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
