"""A million recorded answers through `ragmonitor score --workers N`, ended twice and resumed.

    python tests/bench/million_scored.py [--answers 1000000] [--workers 2]

The answers are short, and no two are the same. The command is ended by Ctrl-C after a fiftieth of
them and killed with -9 after another one, and goes on with `--resume`. Prints resident memory of
the command and of its largest worker at each tenth; exits with 1 if a line is missing, comes twice
or is out of order, if the first tenth differs from what one process without an interruption makes
of it, or if memory grew by more than a twentieth after the first fifth. Linux only: reads /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

MAX_GROWTH = 0.05
PARTS = 10
SAMPLED_EACH_S = 2.0
LINES = 65_536
PLACES = ("tower", "bridge", "museum", "station", "harbour", "library", "castle", "market")


def written(folder: Path, n: int) -> Path:
    """Write short answers: two sentences over two chunks; of every eighth one is made up."""
    chance, path = random.Random(7), folder / "answers.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(n):
            place = f"{chance.choice(PLACES)} of Newport {number}"
            metres, year = chance.randrange(10, 400), chance.randrange(1500, 2020)
            told = metres if number % 8 else metres + 7
            record = {
                "id": str(number),
                "question": f"How tall is the {place}?",
                "contexts": [
                    f"The {place} is {metres} metres tall.",
                    f"The {place} was opened in {year} by the mayor.",
                ],
                "answer": f"The {place} is {told} metres tall. It was opened in {year}.",
            }
            file.write(json.dumps(record) + "\n")
    return path


def command(file: Path, output: Path, workers: int) -> subprocess.Popen[bytes]:
    """Begin to score a file, or go on."""
    arguments = ["score", str(file), "-q", "-o", str(output), "--workers", str(workers)]
    if output.exists():
        arguments.append("--resume")
    return subprocess.Popen([sys.executable, "-m", "ragmonitor.cli.app", *arguments])


def resident(process: int) -> float:
    """Return the resident memory of a process in MB; 0: it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, ValueError):
        return 0.0
    return pages * resource.getpagesize() / 1e6


def children(process: int) -> list[int]:
    """Return the processes that a process has started."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(each) for task in tasks for each in task.read_text().split()]


def growing(output: Path) -> Iterator[int]:
    """Yield how many lines a file has, again and again."""
    lines, position = 0, 0
    while True:
        if output.exists():
            with output.open("rb") as file:
                file.seek(position)
                while part := file.read(LINES * 16):
                    lines += part.count(b"\n")
                position = file.tell()
        yield lines


def interrupted(file: Path, output: Path, workers: int, after: int, how: signal.Signals) -> None:
    """Score until so many lines are there, and end the command then."""
    running = command(file, output, workers)
    for lines in growing(output):
        if lines >= after or running.poll() is not None:
            break
        time.sleep(0.2)
    running.send_signal(how)
    running.wait()


def watched(file: Path, output: Path, workers: int, answers: int) -> list[tuple[int, float, float]]:
    """Score the rest; return lines, and the memory of the command and its largest worker."""
    running = command(file, output, workers)
    found: list[tuple[int, float, float]] = []
    for lines in growing(output):
        code = running.poll()
        if code is not None:
            if code:
                sys.exit(f"the command ended with {code}")
            return found
        if lines * PARTS // answers > len(found):
            largest = max(map(resident, children(running.pid)), default=0.0)
            found.append((lines, resident(running.pid), largest))
        time.sleep(SAMPLED_EACH_S)
    return found


def check(file: Path, output: Path, answers: int) -> list[str]:
    """Return what is wrong with the output."""
    wrong = []
    with output.open(encoding="utf-8") as scored:
        ids = [int(json.loads(line)["id"]) for line in scored]
    if ids != list(range(answers)):
        wrong.append(f"{len(ids)} lines, {len(set(ids))} different ones, not 0 to {answers - 1}")
    few, alone = file.with_name("few.jsonl"), file.with_name("alone.jsonl")
    with file.open("rb") as lines:
        few.write_bytes(b"".join(islice(lines, answers // PARTS)))
    command(few, alone, 1).wait()
    with output.open("rb") as scored:
        same = b"".join(islice(scored, answers // PARTS)) == alone.read_bytes()
    return wrong if same else [*wrong, "the first tenth is not what one process makes of it"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    fiftieth = asked.answers // 50
    with tempfile.TemporaryDirectory() as folder:
        file, output = written(Path(folder), asked.answers), Path(folder, "scored.jsonl")
        began_s, before = time.monotonic(), os.times()
        interrupted(file, output, asked.workers, fiftieth, signal.SIGINT)
        interrupted(file, output, asked.workers, 2 * fiftieth, signal.SIGKILL)
        memory = watched(file, output, asked.workers, asked.answers)
        wall_s, after = time.monotonic() - began_s, os.times()
        wrong = check(file, output, asked.answers)
    print(
        f"{asked.answers:,} answers, {asked.workers} workers: {wall_s:.0f} s, "
        f"{sum(after[:4]) - sum(before[:4]):.0f} s of CPU; load {os.getloadavg()[0]:.1f}"
    )
    print("| answers | the command, MB | its largest worker, MB |\n|---|---|---|")
    for lines, own, largest in memory:
        print(f"| {lines:,} | {own:.1f} | {largest:.1f} |")
    for name, at in (("the command", 1), ("a worker", 2)):
        if memory and memory[-1][at] > (1 + MAX_GROWTH) * memory[min(1, len(memory) - 1)][at]:
            wrong.append(f"{name} grew")
    sys.exit("; ".join(wrong) or 0)


if __name__ == "__main__":
    main()
