"""What the drift of the input sees on real questions, and what it costs.

    python tests/bench/drift.py [FOLDER]

Every FOLDER/*.jsonl holds one object a line with `question`, `contexts` (list of text) and
`language`; of Chinese news, a question starts with its section in full-width parentheses. Prints
tables in Markdown.

A third table: what of it is left where few questions are asked again and again.

Power: of each corpus most questions are the reference, the rest are fresh; novel ones are another
corpus's, or those of a topic that the reference does not have. Shares are means over `SPLITS`
random splits; mixed ones follow from the two. Costs are of CPU, on a reference of 2,000 questions.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.estimation.drift.centroids import packed, packed_dense  # noqa: E402
from ragmonitor.estimation.drift.features import features  # noqa: E402
from ragmonitor.estimation.drift.reference import (  # noqa: E402
    FOLDS,
    Asked,
    Collected,
    Reference,
    Scores,
)

DEFAULT_FOLDER = "../shared/data"
SPLITS = 3
SIZE = 2_000
MIXED = (0.05, 0.10, 0.20)
SPORT = re.compile(
    r"\b(football\w*|basketball|league|baseball|hockey|olympic|rugby|cricket)\b", re.IGNORECASE
)
SECTION = re.compile("^（([^）]*)）")
SPORT_SECTION = re.compile("体育|足球|篮|NBA|杯")
SENTENCE_END = re.compile("[。！？\n]")


@dataclass(frozen=True, slots=True)
class Case:
    """Questions that belong together stay together: a group is fitted, or fresh."""

    name: str
    usual: Sequence[Sequence[str]]
    novel: Sequence[str]
    fitted: float = 0.7
    """Share of the groups that are the reference."""


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return one row per question that has words."""
    found: dict[str, dict[str, Any]] = {}
    for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["question"].strip():
            found.setdefault(row["question"], row)
    return list(found.values())


def cases(folder: Path) -> Iterator[Case]:
    """Return what is compared with what."""
    trivia, experts = rows(folder, "halueval"), rows(folder, "expertqa")
    dialogue, news = rows(folder, "begin"), rows(folder, "uhgeval")

    def questions(found: Sequence[dict[str, Any]]) -> list[str]:
        return [row["question"] for row in found]

    def groups(found: Sequence[dict[str, Any]]) -> list[list[str]]:
        return [[row["question"]] for row in found]

    yield Case("dialogue (BEGIN), new: trivia", groups(dialogue), questions(trivia))
    yield Case("dialogue (BEGIN), new: expert questions", groups(dialogue), questions(experts))
    yield Case("trivia (HaluEval), new: expert questions", groups(trivia), questions(experts))
    yield Case("trivia (HaluEval), new: dialogue", groups(trivia), questions(dialogue))
    sport = [row for row in trivia if SPORT.search(" ".join(row["contexts"]))]
    other = [row for row in trivia if row not in sport]
    yield Case("trivia but sport, new: sport", groups(other), questions(sport))
    sections: tuple[list[list[str]], list[list[str]]] = ([], [])
    for row in news:
        section = SECTION.match(row["question"])
        title = SECTION.sub("", row["question"])
        texts = SENTENCE_END.split("".join(row["contexts"]))
        short = [text.strip() for text in texts if 8 <= len(text.strip()) <= 60]
        is_sport = section is not None and SPORT_SECTION.search(section[1]) is not None
        sections[is_sport].append([title, *short])
    usual, novel = sections
    new = [text for article in novel for text in article]
    yield Case("Chinese news but sport (UHGEval), new: sport", usual, new)
    english = groups(trivia) + groups(dialogue)
    yield Case("all English, new: Chinese news titles", english, [group[0] for group in usual])


def finished(collected: Collected, *, dense: bool = False) -> tuple[Reference, float]:
    """Return a reference, and the seconds of CPU it took."""
    began = time.thread_time()
    reference = Reference.fitted(collected, dense=dense, made_of="bench")
    return reference, time.thread_time() - began


def collected(points: Iterable[tuple[bytes, int]]) -> Collected:
    """Return a full collection of these; a group is as a session."""
    found = Collected()
    for at, (point, group) in enumerate(points):
        asked = Asked(point=point, scores=Scores(), fold=group % FOLDS)
        found.add(str(at), asked)
    return found


def points(questions: Sequence[str]) -> list[bytes]:
    return [packed(features(question)) for question in questions]


def novel_share(reference: Reference, questions: Sequence[str]) -> float:
    """Return the share of the questions that the reference calls novel."""
    placed = [reference.place(point) for point in points(questions)]
    return statistics.fmean(found[1] for found in placed if found is not None)


def power(case: Case) -> tuple[int, float, float]:
    """Return the reference's size and the novel shares of fresh and of new questions."""
    fresh_shares, new_shares, sizes = [], [], []
    for seed in range(SPLITS):
        order = list(case.usual)
        random.Random(seed).shuffle(order)
        cut = round(case.fitted * len(order))
        fitted = [(question, at) for at, group in enumerate(order[:cut]) for question in group]
        fitted = fitted[:SIZE]
        fresh = [question for group in order[cut:] for question in group]
        reference, _ = finished(
            collected((packed(features(question)), at) for question, at in fitted)
        )
        fresh_shares.append(novel_share(reference, fresh))
        new_shares.append(novel_share(reference, case.novel))
        sizes.append(len(fitted))
    return (
        round(statistics.fmean(sizes)),
        statistics.fmean(fresh_shares),
        statistics.fmean(new_shares),
    )


def costs(folder: Path) -> Iterator[tuple[str, str]]:
    """Return what a question, and freezing, cost."""
    asked = [r["question"] for n in ("halueval", "begin", "expertqa") for r in rows(folder, n)]
    asked = (asked * 2)[:SIZE]
    began = time.thread_time()
    made = points(asked)
    yield "features of a question", f"{(time.thread_time() - began) / SIZE * 1e6:.0f} µs"
    whole = collected(zip(made, range(SIZE), strict=True))
    reference, took = finished(whole)
    began = time.thread_time()
    for point in made:
        reference.place(point)
    yield "its nearest centroid", f"{(time.thread_time() - began) / SIZE * 1e6:.0f} µs"
    yield "freezing", f"{took:.1f} s"
    yield (
        "on disk, collecting / frozen",
        " / ".join(
            f"{len(json.dumps(state)) / 1024:.0f} KiB" for state in (whole.state(), reference.state)
        ),
    )
    began = time.thread_time()
    Collected.restored(json.loads(json.dumps(whole.state()))).merge(whole)
    yield "one exchange with other processes", f"{(time.thread_time() - began) * 1e3:.0f} ms"
    luck = random.Random(0)
    vectors = [packed_dense([luck.gauss(0, 1) for _ in range(1_536)]) for _ in range(SIZE)]
    reference, took = finished(collected(zip(vectors, range(SIZE), strict=True)), dense=True)
    began = time.thread_time()
    for vector in vectors[:200]:
        reference.place(vector)
    yield (
        "own embedding of 1,536 dimensions: nearest centroid",
        f"{(time.thread_time() - began) / 200 * 1e6:.0f} µs",
    )
    yield "... freezing", f"{took:.1f} s"


def repeated(case: Case) -> Iterator[tuple[float, int, float, float]]:
    """Yield, for laws of Zipf's, the reference's different questions, and what is novel to it."""
    for exponent in (0.0, 0.5, 1.0, 1.5):
        fresh_shares, new_shares, sizes = [], [], []
        for seed in range(SPLITS):
            luck = random.Random(seed)
            order = [group[0] for group in case.usual]
            luck.shuffle(order)
            cut = round(case.fitted * len(order))
            often = [1 / (rank + 1) ** exponent for rank in range(cut)]
            asked = luck.choices(order[:cut], often, k=SIZE)
            whole = collected((point, at) for at, point in enumerate(points(asked)))
            reference, _ = finished(whole)
            fresh_shares.append(novel_share(reference, order[cut:]))
            new_shares.append(novel_share(reference, case.novel))
            sizes.append(len(set(asked)))
        shares = statistics.fmean(fresh_shares), statistics.fmean(new_shares)
        yield exponent, round(statistics.fmean(sizes)), *shares


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / DEFAULT_FOLDER)
    mixes = " | ".join(f"{share:.0%} new" for share in MIXED)
    print(f"| reference | size | fresh | new | {mixes} |")
    print("|---|---" + "|---" * (2 + len(MIXED)) + "|")
    for case in cases(folder):
        size, fresh, new = power(case)
        mixed = " | ".join(f"{(1 - f) * fresh + f * new:.1%}" for f in MIXED)
        print(f"| {case.name} | {size:,} | {fresh:.1%} | {new:.0%} | {mixed} |", flush=True)
    *_, last = cases(folder)
    print(f"\n{SIZE:,} questions asked by a law of Zipf's; {last.name}\n")
    print("| exponent | different questions | fresh | new |\n|---|---|---|---|")
    for exponent, size, fresh, new in repeated(last):
        print(f"| {exponent:g} | {size:,} | {fresh:.1%} | {new:.0%} |", flush=True)
    print("\n| cost | |\n|---|---|")
    for what, cost in costs(folder):
        print(f"| {what} | {cost} |", flush=True)


if __name__ == "__main__":
    main()
