"""False alarms, misses and time of the check before an answer is seen, on labelled answers.

    python tests/bench/guard.py ../shared/data

By corpus: of the answers that people found fine, the share that `Monitor.check` flags; of those
they found hallucinated, the share that it lets pass; and the same of `Monitor.guarded`, which reads
sentence by sentence and flags an answer with its first finding. Then the CPU time of a check and of
a sentence: the first reading of the chunks is in the first sentence's time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from ragmonitor import Monitor


async def pieces(text: str) -> AsyncIterator[str]:
    for at in range(0, len(text), 12):
        yield text[at : at + 12]


async def guarded(monitor: Monitor, row: dict[str, Any], times: list[float]) -> bool:
    """Return whether a finding came in the stream, and note the time of each sentence."""
    is_flagged = False
    stream = monitor.guarded(pieces(row["answer"]), row["contexts"], row["question"] or "")
    began = time.thread_time()
    async for piece in stream:
        times.append(time.thread_time() - began)
        is_flagged |= bool(piece.findings)
        began = time.thread_time()
    return is_flagged


def share(flags: Sequence[bool]) -> str:
    return f"{100 * sum(flags) / len(flags):.0f} %" if flags else "-"


def quantiles(times: Sequence[float]) -> str:
    ranked = sorted(times)
    at = [ranked[int(of * (len(ranked) - 1))] * 1e3 for of in (0.5, 0.99)]
    return f"{at[0]:.1f} / {at[1]:.1f} ms"


def main() -> None:
    folder = Path(sys.argv[1])
    checks: list[float] = []
    sentences: list[float] = []
    print(
        "| corpus | answers | false alarms | misses | "
        "by sentence: false alarms | misses | check, p50 / p99 |"
    )
    print("|---|---|---|---|---|---|---|")
    with Monitor(service="bench", server=False, worker="thread", exporters=[]) as monitor:
        for file in sorted(folder.glob("*.jsonl")):
            rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            whole: dict[bool, list[bool]] = {True: [], False: []}
            streamed: dict[bool, list[bool]] = {True: [], False: []}
            times: list[float] = []
            for row in rows:
                label = bool(row["hallucinated"])
                began = time.thread_time()
                found = monitor.check(row["answer"], row["contexts"], row["question"] or "")
                times.append(time.thread_time() - began)
                whole[label].append(bool(found.hallucinated))
                streamed[label].append(asyncio.run(guarded(monitor, row, sentences)))
            checks += times
            print(
                f"| {file.stem} | {len(rows)} | {share(whole[False])} | "
                f"{share([not each for each in whole[True]])} | {share(streamed[False])} | "
                f"{share([not each for each in streamed[True]])} | {quantiles(times)} |"
            )
    print(f"check: {quantiles(checks)}; a sentence of a stream: {quantiles(sentences)}")


if __name__ == "__main__":
    main()
