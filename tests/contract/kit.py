"""What the contract tests share: data, a monitor's options, answers, judges, programs, scrapes.

Nothing here knows the inside of the package, so that its parts may be replaced one by one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ragmonitor import Assessment, Chunk, Interaction, JudgeIdentity, SentenceVerdict
from ragmonitor.records import Verdict

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DATA = HERE / "data"

IN_PROCESS: dict[str, Any] = {"worker": "thread"}
"""The only place that names where answers are scored: a process of its own takes a second to start,
for which tests of other promises would wait. Remove it where the default is a thread."""

Found = TypeVar("Found")


# --- data and waiting


def cases(name: str) -> list[dict[str, Any]]:
    """Return the objects of `data/NAME`: JSON, one a line; # begins a remark."""
    lines = (DATA / name).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip() and not line.startswith("#")]


def parametrize(name: str) -> Any:
    """Return the mark that runs a test with each object of `data/NAME`, by its `case`."""
    return pytest.mark.parametrize("case", cases(name), ids=lambda case: case["case"])


def until(what: str, look: Callable[[], Found | None], *, within_s: float = 60.0) -> Found:
    """Return the first true answer of `look`, which may raise until then."""
    deadline = time.monotonic() + within_s
    while True:
        failure: Exception | None = None
        try:
            if found := look():
                return found
        except Exception as error:  # noqa: BLE001 - the server is not up yet, or not that far
            failure = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what}") from failure
        time.sleep(0.02)


def free_port() -> int:
    """Return a port of this machine at which nobody listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def program(name: str) -> str:
    """Return the path of a server's program; skip the test where it is not installed."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("TESTS_REQUIRE_SERVERS") == "1":
            raise AssertionError(f"{name} is not installed, and TESTS_REQUIRE_SERVERS is 1")
        pytest.skip(f"{name} is not installed")
    return found


# --- monitors, answers and judges


def settings(**options: Any) -> dict[str, Any]:
    """Return the options of a monitor that serves no port: `Monitor(**settings(judge=...))`."""
    return {"service": "contract", "server": False, **IN_PROCESS, **options}


def interaction(number: int = 0, **changes: Any) -> Interaction:
    """Return an answer that its one chunk supports; ids and questions differ by the number."""
    fields: dict[str, Any] = {
        "id": f"{number:032x}",
        "query": f"When was tower {number} built?",
        "chunks": (Chunk(text=f"Tower {number} was built in 1889."),),
        "answer": f"Tower {number} was built in 1889.",
        "framework": "python",
        "started_ns": time.time_ns(),
        "ended_ns": time.time_ns() + 1_000,
    }
    return Interaction(**(fields | changes))


def assessment(answer: Interaction, verdict: Verdict = Verdict.SUPPORTED) -> Assessment:
    """Return what a judge named `contract` may say: one verdict on the whole answer."""
    text = answer.answer
    return Assessment(
        judge=JudgeObject.identity,
        language="en",
        sentences=(
            SentenceVerdict(text=text, start=0, end=len(text), verdict=verdict, chunks=(0,)),
        ),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=(1.0,) * len(answer.chunks),
    )


class JudgeObject:
    """A judge that says what a function says; by default that all is supported."""

    identity = JudgeIdentity(name="contract", version="1", kind="CODE")

    def __init__(self, says: Callable[[Interaction], Any] = assessment) -> None:
        self.says = says
        self.asked: list[str] = []

    async def assess(self, answer: Interaction) -> Any:
        """Note whose answer it is, and say it."""
        self.asked.append(answer.id)
        return self.says(answer)


# --- what a monitor exports


def samples(source: CollectorRegistry | str) -> list[Sample]:
    """Return every sample of a registry, or of a page in Prometheus' text format."""
    families = (
        text_string_to_metric_families(source) if isinstance(source, str) else source.collect()
    )
    return [sample for family in families for sample in family.samples]


def scrape(url: str) -> list[Sample]:
    """Return every sample that an address serves to Prometheus."""
    with urlopen(url, timeout=10) as reply:
        return samples(reply.read().decode())


def total(found: Iterable[Sample], name: str, **labels: str) -> float:
    """Return the sum of the samples of this name that have these labels."""
    return sum(s.value for s in found if s.name == name and labels.items() <= s.labels.items())


def outcomes(found: Iterable[Sample], **labels: str) -> dict[str, int]:
    """Return how many evaluations had each outcome: `scored`, or a cause."""
    counts: Counter[str] = Counter()
    for sample in found:
        is_count = sample.name == "ragmonitor_evaluations_total"
        if is_count and labels.items() <= sample.labels.items():
            counts[sample.labels["outcome"]] += int(sample.value)
    return {outcome: n for outcome, n in counts.items() if n}


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the reports in a file of JSON lines (`exporters="jsonl:..."`); it may not be there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# --- programs


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    status: int
    out: str
    err: str
    seconds: float


def environment(**variables: str) -> dict[str, str]:
    """Return the variables of a program that can import this tree and its tests."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **variables}


def run(
    arguments: Sequence[str | Path], folder: Path, *, stdin: str = "", **variables: str
) -> Ended:
    """Run a program in a folder to its end, at most five minutes."""
    began = time.monotonic()
    done = subprocess.run(
        [*map(str, arguments)],
        cwd=folder,
        env=environment(**variables),
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - began)


def python(code: str, folder: Path, **variables: str) -> Ended:
    """Run a script in a process of its own; a file, which spawned processes can import."""
    script = folder / "script.py"
    script.write_text(code, encoding="utf-8")
    return run([sys.executable, script], folder, **variables)


def command(arguments: Sequence[str], folder: Path, *, stdin: str = "", **variables: str) -> Ended:
    """Run `ragmonitor` with arguments."""
    program = [sys.executable, "-m", "ragmonitor.cli.app"]
    return run([*program, *arguments], folder, stdin=stdin, **variables)
