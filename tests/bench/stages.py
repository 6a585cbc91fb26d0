"""Where the CPU behind the request path goes, by stage.

    python tests/bench/stages.py [--answers 500] [--causes]

The worker's thread is profiled by its own CPU time while it scores, estimates and emits answers of
690 characters over five chunks, 4,000 characters together. A profile makes short functions dearer
than they are: read the shares, not the sum. `request_path.py` has the CPU of all of it.

With `--causes`: what finding causes costs of it without a judge of a sample, in microseconds per
answer. Answers with four attributes, a session, a priced model call and five chunks of one
retrieval go through a monitor; then each part takes the same answers again, not profiled.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from applications import ANSWER, CHUNKS, QUERY
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from variants import Dropping

from ragmonitor import Chunk, Monitor
from ragmonitor.causes.document_causes import Documents
from ragmonitor.causes.events import Events
from ragmonitor.causes.slices import Slices
from ragmonitor.causes.versions import Versions
from ragmonitor.estimation.answer_cost import AnswerCost
from ragmonitor.estimation.parts import Part
from ragmonitor.incidents import IncidentKeeper
from ragmonitor.records import Generation, Interaction, Report, Retrieval, Usage
from ragmonitor.worker import Worker

STAGES = {
    "reading by the built-in judge": ("judging.py", "read_now"),
    "spans": ("otel.py", "emit"),
    "record and redaction": ("worker.py", "_captured"),
    "statistics": ("worker.py", "_settle"),
    "what is kept every two seconds": ("worker.py", "_tick"),
    "all": ("worker.py", "_run"),
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


def causes(answers: int) -> None:
    """Print what the parts cost that tell why answers are worse."""
    rng, taken, reports = random.Random(0), [], []
    found: dict[str, Callable[[Any], Any]] = {}
    for of in (Slices, Documents, Versions, Events, AnswerCost):
        _remember(of, found, taken if of is Slices else None)
    export = IncidentKeeper.export

    def exported(keeper: IncidentKeeper, report: Report) -> None:
        found["Incidents"] = partial(export, keeper)
        reports.append(report)
        export(keeper, report)

    IncidentKeeper.export = exported  # type: ignore[method-assign]
    estimation = {"prices": ["m=0.5/1.5"]}
    with Monitor(service="bench", server=False, worker="thread", estimation=estimation) as monitor:
        for number in range(answers):
            monitor.observe(varied(number, rng))
            if number % 100 == 99:  # so that the queue is not full
                monitor.flush(600)
        print(f"| part | us per answer, of {len(taken)} answers |\n|---|---|")
        total = 0.0
        for name, add in found.items():
            given, rounds = reports if name == "Incidents" else taken, []
            for _ in range(9):
                began = time.thread_time()
                for each in given:
                    add(each)
                rounds.append(1e6 * (time.thread_time() - began) / len(given))
            total += median(rounds)
            print(f"| {name} | {median(rounds):.1f} |")
        print(f"| all | {total:.1f} |")


def _remember(
    of: type[Part], found: dict[str, Callable[[Any], Any]], taken: list[Any] | None
) -> None:
    """Have the part's method be kept, and what it is given."""
    add = of.add

    def added(part: Any, answer: Any) -> Any:
        found[of.__name__] = partial(add, part)
        if taken is not None:
            taken.append(answer)
        return add(part, answer)

    of.add = added  # type: ignore[method-assign]


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
    work = Worker._run

    def profiled(worker: Worker) -> None:
        profile.enable()
        work(worker)
        profile.disable()

    Worker._run = profiled  # type: ignore[method-assign]
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
