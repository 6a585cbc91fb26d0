"""What the built-in judge, or an encoder, tells apart on labelled answers, and how long it takes.

    python tests/bench/auroc.py [FOLDER] [--judge encoder:ORG/MODEL] [--threads N] [--rows N]

Every FOLDER/*.jsonl holds one object a line: `question`, `contexts` (list of text), `answer`,
`hallucinated`, and perhaps `spans` (`[[start, end], ...]` or objects with `start` and `end`:
offsets of unsupported text in the answer). Prints one table in Markdown; milliseconds
are for one whole answer, its chunks read anew: of CPU, or those that pass where it is an encoder.
Answers that an encoder cannot read are left out, and counted.

AUROC by ranks: the chance that a hallucinated answer's figure is above a sound one's, ties
counting half. Refusals and answers without a claim have no faithfulness; in its AUROC they count
as faithful.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor import Chunk, Interaction  # noqa: E402  # runs from a checkout
from ragmonitor.judges import EncoderJudge  # noqa: E402
from ragmonitor.judges.builtin import assess  # noqa: E402
from ragmonitor.records import Assessment, Verdict  # noqa: E402
from ragmonitor.runtime.errors import JudgeError  # noqa: E402

DEFAULT_FOLDER = "../shared/data"
FLAGS = (Verdict.ABSENT, Verdict.CONTRADICTED)


@dataclass(frozen=True, slots=True)
class Judged:
    """One row and what the judge made of it."""

    row: dict[str, Any]
    assessment: Assessment
    milliseconds: float


def auroc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the area under the ROC curve, from mean ranks; nan if a class is empty.

    Source:
        Hanley and McNeil (1982), the Mann-Whitney form.
    """
    order = sorted(range(len(scores)), key=lambda at: scores[at])
    positives = sum(labels)
    negatives = len(labels) - positives
    if not positives or not negatives:
        return float("nan")
    ranks = 0.0
    at = 0
    while at < len(order):
        after = at
        while after < len(order) and scores[order[after]] == scores[order[at]]:
            after += 1
        mean_rank = (at + after + 1) / 2
        ranks += mean_rank * sum(labels[order[i]] for i in range(at, after))
        at = after
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def unfaithfulness(assessment: Assessment) -> float:
    """Return 1 - supported / claims; 0 without a claim or for a refusal."""
    claims = assessment.claims
    if not claims or assessment.evasive:
        return 0.0
    return sum(claim.verdict in FLAGS for claim in claims) / len(claims)


Read = Callable[[dict[str, Any]], "Assessment | None"]
"""Returns what a judge finds in a row; None: it cannot read it."""


def by_rules(row: dict[str, Any]) -> Assessment:
    """Return what the built-in rules find."""
    return assess(row["question"], row["contexts"], row["answer"])


def by_encoder(named: str, threads: int) -> Read:
    """Return what has an encoder read one answer at a time; its model is loaded."""
    judge = EncoderJudge(named.removeprefix("encoder:"))
    asyncio.run(judge.prepare())

    def read(row: dict[str, Any]) -> Assessment | None:
        told = Interaction(
            id="",
            query=row["question"],
            chunks=tuple(Chunk(text=text) for text in row["contexts"]),
            answer=row["answer"],
            framework="python",
            started_ns=0,
            ended_ns=0,
        )
        with contextlib.suppress(JudgeError):
            return asyncio.run(judge.assess(told))
        return None

    return read


def judged(path: Path, read: Read, rows: int | None) -> list[Judged]:
    """Return the rows of a file, judged and timed each on its own."""
    clock = time.thread_time_ns if read is by_rules else time.perf_counter_ns
    found = []
    for line in path.read_text("utf-8").splitlines()[:rows]:
        row = json.loads(line)
        begun = clock()
        assessment = read(row)
        if assessment is not None:
            found.append(Judged(row, assessment, (clock() - begun) / 1e6))
    return found


def spans_of(row: dict[str, Any]) -> list[tuple[int, int]]:
    """Return a row's unsupported spans as offsets."""
    spans = row.get("spans") or []
    return [(s["start"], s["end"]) if isinstance(s, dict) else (s[0], s[1]) for s in spans]


def span_shares(rows: Iterable[Judged]) -> tuple[str, str]:
    """Return the share of spans in a flagged sentence, and of flagged sentences with a span."""
    spans_hit = spans_all = flags_hit = flags_all = 0
    has_spans = False
    for one in rows:
        has_spans = has_spans or "spans" in one.row
        spans = spans_of(one.row)
        flagged = [s for s in one.assessment.sentences or () if s.verdict in FLAGS]
        spans_all += len(spans)
        flags_all += len(flagged)
        spans_hit += sum(
            any(f.start < end and start < f.end for f in flagged) for start, end in spans
        )
        flags_hit += sum(
            any(f.start < end and start < f.end for start, end in spans) for f in flagged
        )
    if not has_spans:
        return "", ""
    return f"{spans_hit / max(1, spans_all):.2f}", f"{flags_hit / max(1, flags_all):.2f}"


COLUMNS = (
    "file", "rows", "AUROC risk", "AUROC 1-faithfulness", "flagged if hallucinated",
    "flagged if not", "refusals", "median ms", "p95 ms", "spans flagged", "flags on a span",
)  # fmt: skip


def table_row(path: Path, read: Read, most: int | None) -> list[str]:
    """Return one file's cells."""
    rows = judged(path, read, most)
    labels = [bool(one.row["hallucinated"]) for one in rows]
    flagged = [bool(one.assessment.hallucinated) for one in rows]
    times = sorted(one.milliseconds for one in rows)
    return [
        path.stem,
        str(len(rows)),
        f"{auroc([one.assessment.risk or 0.0 for one in rows], labels):.3f}",
        f"{auroc([unfaithfulness(one.assessment) for one in rows], labels):.3f}",
        f"{share(flagged, labels):.2f}",
        f"{share(flagged, [not label for label in labels]):.2f}",
        str(sum(bool(one.assessment.evasive) for one in rows)),
        f"{statistics.median(times):.2f}",
        f"{times[int(0.95 * (len(times) - 1))]:.2f}",
        *span_shares(rows),
    ]


def share(flags: Sequence[bool], chosen: Sequence[bool]) -> float:
    """Return the share of true flags among the chosen rows."""
    return sum(f for f, c in zip(flags, chosen, strict=True) if c) / max(1, sum(chosen))


def main() -> None:
    """Print the table for every file of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", help=f"labelled answers, by default {DEFAULT_FOLDER}")
    parser.add_argument("--judge", default="builtin", help="builtin, or encoder:ORG/MODEL")
    parser.add_argument("--threads", type=int, default=1, help="of the encoder")
    parser.add_argument("--rows", type=int, help="the first so many of each file; all by default")
    given = parser.parse_args()
    folder = given.folder
    paths = sorted(Path(folder or DEFAULT_FOLDER).glob("*.jsonl"))
    if not paths and folder is None:
        # All the other benchmarks need nothing but a clone; this one needs somebody's labels.
        print(f"skipped: no labelled answers in {DEFAULT_FOLDER}; name a folder that has some")
        return
    if not paths:
        raise SystemExit(f"no .jsonl file in {folder}; name the folder with the labelled answers")
    is_rules = given.judge == "builtin"
    named = "Built-in judge" if is_rules else f"{given.judge}, {given.threads} threads"
    print(f"\n### {named}: what it tells apart\n")
    assess("warm up", ["the table of frequencies is read once"], "so it is not timed.")
    read = by_rules if is_rules else by_encoder(given.judge, given.threads)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for path in paths:
        print("| " + " | ".join(table_row(path, read, given.rows)) + " |", flush=True)


if __name__ == "__main__":
    main()
