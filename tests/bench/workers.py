"""How much faster `ragmonitor score` is with several processes.

    python tests/bench/workers.py [--answers 8000] [--rounds 3] [--workers 2]

Runs the command over one file of generated answers, with one process and with several in turn,
and prints a markdown table: the shortest wall time of each (others who use the machine only
lengthen it), its rate, the CPU time of all processes together, and the ratio of the rates.
Starting is in it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from builtin_judge import english


def written(folder: Path, n: int) -> Path:
    """Write answers of three sentences, half of them from one of their four chunks."""
    rng, sentence = random.Random(7), english()
    path = folder / "answers.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(n):
            chunks = ["".join(sentence(rng) for _ in range(4)) for _ in range(4)]
            told = chunks[0].split(". ")[0] + ". "
            record = {
                "id": str(number),
                "question": sentence(rng),
                "contexts": chunks,
                "answer": told + sentence(rng) + (told if number % 2 else sentence(rng)),
            }
            file.write(json.dumps(record) + "\n")
    return path


def timed(file: Path, workers: int) -> tuple[float, float]:
    """Return wall and CPU seconds of one run."""
    command = (sys.executable, "-m", "ragmonitor.cli.app", "score", str(file), "-q")
    out = file.with_name(f"scored-{workers}.jsonl")
    before, began_s = os.times(), time.perf_counter()
    subprocess.run([*command, "-o", str(out), "--workers", str(workers)], check=True)
    wall_s, after = time.perf_counter() - began_s, os.times()
    cpu_s = sum(after[2:4]) - sum(before[2:4])
    return wall_s, cpu_s


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers", type=int, default=8_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    runs: dict[int, list[tuple[float, float]]] = {1: [], asked.workers: []}
    with tempfile.TemporaryDirectory() as folder:
        file = written(Path(folder), asked.answers)
        for _ in range(asked.rounds):
            for workers, times in runs.items():
                times.append(timed(file, workers))
        outputs = {Path(folder, f"scored-{workers}.jsonl").read_bytes() for workers in runs}
    print(
        f"{asked.answers} answers, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; ", end=""
    )
    print("outputs are the same" if len(outputs) == 1 else "OUTPUTS DIFFER")
    print("| workers | wall s | answers/s | CPU s | ratio |\n|---|---|---|---|---|")
    alone_s = min(runs[1])[0]
    for workers, times in runs.items():
        wall_s, cpu_s = min(times)
        print(
            f"| {workers} | {wall_s:.1f} | {asked.answers / wall_s:.0f} | {cpu_s:.1f} "
            f"| {alone_s / wall_s:.2f} |"
        )


if __name__ == "__main__":
    main()
