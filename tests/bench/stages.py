"""Where the CPU behind the request path goes, by stage.

    python tests/bench/stages.py [--answers 600]

One half of the answers tells how much CPU the worker's thread takes for each; the other half is
profiled by the thread's own CPU time, which tells the shares: a profile makes short functions
dearer than they are. An answer has 570 characters over five chunks, 3,700 characters together, or
what `BENCH_TEXT` names (see `applications.py`). `request_path.py` has the CPU of all of it.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from typing import Any

from applications import ANSWER, QUERY, retrieved
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from variants import Dropping

from ragmonitor import Monitor
from ragmonitor.pipeline.pipeline import Pipeline

STAGES = {
    "reading by the built-in judge": ("builtin/__init__.py", "read"),
    "evaluators": ("judging.py", "found"),
    "spans": ("otel.py", "emit"),
    "record and redaction": ("pipeline.py", "_captured"),
    "page and incidents": ("exports.py", "export"),
    "statistics": ("pipeline.py", "_complete"),
    "what is kept every two seconds": ("pipeline.py", "_tick"),
    "all": ("pipeline.py", "_work"),
}


def main() -> None:
    """Print each stage's share."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--answers", type=int, default=600)
    answers = options.parse_args().answers
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace.set_tracer_provider(provider)
    profile = cProfile.Profile(time.thread_time)
    work = Pipeline._work
    seconds = 0.0
    is_profiled = False

    def measured(worker: Pipeline) -> bool:
        nonlocal seconds
        if is_profiled:
            profile.enable()
        began = time.thread_time()
        try:
            return work(worker)
        finally:
            seconds = time.thread_time() - began
            profile.disable()

    Pipeline._work = measured  # type: ignore[method-assign]
    for is_profiled in (False, True):
        if is_profiled:
            per_answer = seconds / answers
        with Monitor(service="bench", server=False, worker="thread", content="all") as monitor:
            for _ in range(answers):
                with monitor.interaction(query=QUERY) as interaction:
                    interaction.retrieved(retrieved())
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
    print("| stage | share | µs for each answer |\n|---|---|---|")
    for stage, of_it in spent.items():
        share = of_it / spent["all"]
        print(f"| {stage} | {share:.0%} | {share * per_answer * 1e6:,.0f} |")


if __name__ == "__main__":
    main()
