"""Changed examples, for hours, through everything that reads what others wrote.

    python -m tests.reliability.fuzz [--hours 1] [--parser "judge reply"] [--corpus FOLDER]

Each parser (`parsers.py`) takes its turn, again and again: examples of its format are cut, doubled,
joined and spoiled by Hypothesis, which makes what fails small. An input is a defect that raises
what the parser's documentation does not name, or takes more than a second of CPU time. It is
written to the corpus, from which the tests try it each time (`test_parsers.py`).

Prints a table and one line of JSON; exits with 1 if there was a defect.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.reliability.parsers import CORPUS, Parser, check, parsers, remembered

PER_TURN: Final = 500
"""Inputs of one parser before the next has its turn."""
MAX_CPU_S: Final = 1.0
"""Of one input, which is 20 kB at most."""
MAX_BYTES: Final = 20_000
MAX_CHANGES: Final = 8


class TooSlowError(Exception):
    """A parser took too long over a small input."""


@st.composite
def changed(draw: st.DrawFn, parser: Parser, seeds: Sequence[bytes]) -> bytes:
    """Return an example with a few changes, or something quite different."""
    data = draw(st.sampled_from(seeds) | st.binary(max_size=200))
    piece = st.sampled_from(parser.pieces) | st.binary(max_size=8)
    for _ in range(draw(st.integers(0, MAX_CHANGES))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + draw(st.sampled_from((1, 8, 10**6))))))
        part = data[start:end]
        match draw(st.sampled_from(("cut", "replace", "repeat", "flip", "join"))):
            case "cut":
                part = b""
            case "replace":
                part = draw(piece)
            case "repeat":
                part = (part or draw(piece)) * draw(st.sampled_from((2, 3, 50, 2_000)))
            case "flip":
                part = bytes(each ^ draw(st.integers(1, 255)) for each in part[:4]) + part[4:]
            case "join":
                part += draw(st.sampled_from(seeds))
        data = (data[:start] + part + data[end:])[:MAX_BYTES]
    return data


def turn(parser: Parser, number: int, inputs: int, seeds: Sequence[bytes]) -> bytes | None:
    """Try so many inputs; return a small one that found a defect, if one did."""
    failing: list[bytes] = []

    @seed(number)
    @settings(
        max_examples=inputs,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=changed(parser, seeds))
    def tried(data: bytes) -> None:
        failing.append(data)
        took(parser, data)
        failing.pop()

    try:
        tried()
    except Exception as error:  # noqa: BLE001 - of whatever kind, it is a defect
        print(f"{type(error).__name__}: {error}"[:500], file=sys.stderr)
        return failing[-1]
    return None


def took(parser: Parser, data: bytes) -> None:
    """Read an input within its time. Raises what is a defect."""
    began = time.thread_time()
    check(parser, data)
    if time.thread_time() - began <= MAX_CPU_S:
        return
    began = time.thread_time()  # once more: the first may have imported something
    check(parser, data)
    if (spent := time.thread_time() - began) > MAX_CPU_S:
        raise TooSlowError(f"{spent:.1f} s for {len(data)} bytes")


def main(given_: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if there was a defect."""
    every = parsers()
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--hours", type=float, default=1.0, help="default: 1")
    options.add_argument("--parser", choices=[*every], action="append", help="default: all")
    options.add_argument("--corpus", type=Path, default=CORPUS, help="where defects are written")
    chosen = options.parse_args(given_)
    names = chosen.parser or [*every]
    logging.getLogger("ragmonitor").disabled = True  # what is refused is said there
    began = time.monotonic()
    tried: Counter[str] = Counter()
    cpu: Counter[str] = Counter()
    defects: dict[str, list[str]] = {name: [] for name in names}
    number = time.time_ns()
    while (time.monotonic() - began) < chosen.hours * 3_600:
        for name in names:
            parser = every[name]
            spent = time.thread_time()
            failing = turn(parser, number, PER_TURN, (*parser.examples, *remembered(name)))
            cpu[name] += round(1e3 * (time.thread_time() - spent))
            tried[name] += PER_TURN
            number += 1
            if failing is not None:
                file = (
                    chosen.corpus
                    / name.replace(" ", "_")
                    / hashlib.sha256(failing).hexdigest()[:16]
                )
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(failing)
                if str(file) not in defects[name]:
                    defects[name].append(str(file))
    print("| parser | inputs | CPU, s | defects |\n|---|---|---|---|")
    for name in names:
        print(f"| {name} | {tried[name]:,} | {cpu[name] / 1e3:.0f} | {len(defects[name])} |")
    summary = {
        "minutes": round((time.monotonic() - began) / 60, 1),
        "inputs": sum(tried.values()),
        "defects": {name: files for name, files in defects.items() if files},
    }
    print(json.dumps(summary))
    return 1 if summary["defects"] else 0


if __name__ == "__main__":
    sys.exit(main())
