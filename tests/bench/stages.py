"""Where the CPU behind the request path goes, by stage.

    python tests/bench/stages.py [--answers 600]

The worker's thread is profiled by its own CPU time while it scores, estimates and emits answers of
690 characters over five chunks, 4,000 characters together. A profile makes short functions dearer
than they are: read the shares, not the sum. `request_path.py` has the CPU of all of it.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from typing import Any

from applications import ANSWER, CHUNKS, QUERY
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from variants import Dropping

from ragmonitor import Monitor
from ragmonitor.pipeline.pipeline import Pipeline

STAGES = {
    "reading by the built-in judge": ("judging.py", "read_now"),
    "spans": ("otel.py", "emit"),
    "record and redaction": ("pipeline.py", "_captured"),
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

    def profiled(worker: Pipeline) -> bool:
        profile.enable()
        try:
            return work(worker)
        finally:
            profile.disable()

    Pipeline._work = profiled  # type: ignore[method-assign]
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
