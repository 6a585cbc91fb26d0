"""The built-in judge's CPU time per answer, by length of context.

    python tests/bench/builtin_judge.py [--repeats 40] [--beside CHECKOUT]
                                        [--data FOLDER --cases FOLDER]

Texts are made by a seeded generator, every one different. English words follow a Zipf-like law
over the shipped table of frequencies, so that the cache of words helps as much as it does with
real text, and no more: a tenth of them are made-up words, names and numbers. Chinese words are
recurring pairs of frequent characters, with particles, negations and numbers between them. Half
of each answer are sentences of its chunks. Structured chunks are JSON objects of eight fields, with
answers of sentences about them, half of them true.

Prints a markdown table of milliseconds on one core for answers of 800 characters: median and 95th
percentile with chunks that are read for the first time, and the median with chunks that were read
before. With `--beside`, also the medians divided by those of another checkout's judge, read in
turns, so that a busy machine is busy for both. With `--data` and `--cases`, first what both tell
apart: the AUROC of `risk` in each `FOLDER/*.jsonl` (see auroc.py), and on short pairs in
`pairs_*.jsonl` (`label` is `good` or `bad`) how many are judged rightly.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import resources
from itertools import accumulate
from pathlib import Path
from typing import Any

from ragmonitor.judges import builtin
from ragmonitor.judges.builtin.word_lists import STOP_WORDS
from ragmonitor.records import Verdict

sys.path.append(str(Path(__file__).resolve().parents[2]))  # of whatever checkout the judge is
from tests.bench.auroc import auroc

SYLLABLES = ["ra", "ten", "mo", "lis", "ver", "ko", "stan", "ing", "bel", "ur", "ap", "tion"]
HAN = (
    "一不有人上大来到时地出会可说得下自年后能过子去要天多然没日家学无心好想看起用行方又里样事成只当"
    "种同面进间些现部定实经力前开高长已水理情两内国中新全各今月第表示认通作者主公司市场发展政府企业"
    "产品技术管理工程教育社会经济建设服务研究数据系统城区世界历史文化民族关系问题生活条件环境质量标准"
    "计划项目投资金融银行贸易汽车交通电网信息科医院药物安全法律规合同员工会议代表总统首都北京海南东西"
    "江河山林农村土气温度期比赛队球员冠军记录书报纸影音乐美食酒店旅游客户支持增加提高减少影响结果原因"
)
"""Frequent characters."""
PARTICLES = "的了在是和与将对为从"

LENGTHS = (500, 2_000, 8_000, 30_000)

Write = Callable[[random.Random], str]
"""Returns one sentence."""


def zipf(words: list[str], offset: float) -> list[float]:
    """Return cumulative weights by which the n-th word is drawn in proportion to 1 / (n + offset).

    Source:
        Mandelbrot, "An informational theory of the statistical structure of language" (1953).
    """
    return list(accumulate(1 / (rank + offset) for rank in range(len(words))))


def english() -> Write:
    """Return what writes sentences of some 18 words; half of them are function words."""
    rng = random.Random(1)
    words = rng.sample(sorted(STOP_WORDS), len(STOP_WORDS))
    table = resources.files(builtin).joinpath("frequencies.txt").read_text("utf-8")
    for line in table.splitlines():
        if not line.startswith("#"):
            words += rng.sample(line.split(), len(line.split()))
    weights = zipf(words, 2.7)

    def unknown(rng: random.Random) -> str:
        word = "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3)))
        return rng.choice((word, word.capitalize(), str(rng.randint(1, 3000))))

    def write(rng: random.Random) -> str:
        chosen = rng.choices(words, cum_weights=weights, k=rng.randint(10, 26))
        for at in range(len(chosen)):
            if rng.random() < 0.1:
                chosen[at] = unknown(rng)
        chosen[len(chosen) // 2] += ","
        return " ".join(chosen).capitalize() + ". "

    return write


def chinese() -> Write:
    """Return what writes sentences of some 40 characters: words, particles, numbers, commas."""
    rng = random.Random(2)
    words = ["".join(rng.sample(HAN, 2)) for _ in range(3000)]
    weights = zipf(words, 30)  # the commonest words are the particles

    def write(rng: random.Random) -> str:
        chosen = rng.choices(words, cum_weights=weights, k=rng.randint(11, 19))
        for at in range(2, len(chosen), 3):
            chosen[at] += rng.choice(PARTICLES)
        chosen[len(chosen) // 2] += "，"
        if rng.random() < 0.5:
            chosen[1] += f"{rng.randint(1, 3000)}{rng.choice('年月万元')}"
        if rng.random() < 0.2:
            chosen[3] = rng.choice(("不", "没有", "未")) + chosen[3]
        return "".join(chosen) + "。"

    return write


def sentences(write: Write, rng: random.Random, length: int) -> list[str]:
    """Return new sentences of at least `length` characters together."""
    written: list[str] = []
    while sum(map(len, written)) < length:
        written.append(write(rng))
    return written


def answered(
    write: Write, rng: random.Random, length: int, parts: int
) -> tuple[str, list[str], str]:
    """Return a question, its chunks and an answer of which half is copied from the chunks."""
    chunks = [sentences(write, rng, length // parts) for _ in range(parts)]
    copied = rng.sample([s for chunk in chunks for s in chunk], sum(map(len, chunks)))
    while sum(map(len, copied[:-1])) >= 400:
        copied.pop()
    answer = copied + sentences(write, rng, 800 - sum(map(len, copied)))
    rng.shuffle(answer)
    query = write(rng)[:60]
    return query, ["".join(chunk)[: length // parts] for chunk in chunks], "".join(answer)[:800]


KEYS = ["price", "weight_kg", "inStock", "color", "warranty_years", "rating", "wifi"]


def recorded(rng: random.Random, length: int, parts: int) -> tuple[str, list[str], str]:
    """Return a question, chunks of JSON objects, and an answer of sentences about their fields."""

    def value() -> object:
        return rng.choice([True, False, None, rng.randint(1, 999), rng.choice(SYLLABLES)])

    chunks: list[str] = []
    answer: list[str] = []
    for _ in range(parts):
        chunk = ""
        while len(chunk) < length // parts:
            name = "".join(rng.choices(SYLLABLES, k=3)).capitalize()
            record = {"name": name, **{key: value() for key in KEYS}}
            chunk += json.dumps(record) + "\n"
            key = rng.choice(KEYS)
            said = record[key] if rng.random() < 0.5 else value()
            answer.append(f"The {key.partition('_')[0]} of {name} is {said}. ")
        chunks.append(chunk)
    rng.shuffle(answer)
    return f"What is the {rng.choice(KEYS)}?", chunks, "".join(answer * (800 // length + 1))[:800]


def timed(repeats: int) -> dict[str, list[list[float]]]:
    """Return the CPU milliseconds of each kind of answer, its chunks fresh and read before."""
    rng = random.Random(7)
    makers = {
        "en": partial(answered, english()),
        "zh": partial(answered, chinese()),
        "JSON": recorded,
    }
    found: dict[str, list[list[float]]] = {}
    for language, make in makers.items():
        for length in LENGTHS:
            times: list[list[float]] = [[], []]
            for n in range(repeats + 3):
                texts = make(rng, length, max(1, length // 500))
                for which in times:
                    began = time.process_time()
                    builtin.assess(*texts)
                    if n >= 3:
                        which.append((time.process_time() - began) * 1e3)
            found[f"{language} | {length:,}"] = times
    return found


def told_apart(data: Path, cases: Path) -> dict[str, str]:
    """Return the AUROC of `risk` in each corpus, and how many short pairs are judged rightly."""
    found: dict[str, str] = {}
    areas: list[float] = []
    for file in sorted(data.glob("*.jsonl")):
        rows = [json.loads(line) for line in file.open()]
        risks = [builtin.assess(r["question"], r["contexts"], r["answer"]).risk for r in rows]
        labels = [bool(row["hallucinated"]) for row in rows]
        areas.append(auroc([1.0 if risk is None else risk for risk in risks], labels))
        found[f"AUROC, {file.stem}"] = f"{areas[-1]:.3f}"
    found["AUROC, mean"] = f"{statistics.mean(areas):.4f}" if areas else ""
    for file in sorted(cases.glob("pairs_*.jsonl")):
        right: dict[bool, list[bool]] = {True: [], False: []}
        for row in map(json.loads, file.open()):
            read = builtin.assess(row["question"], row["contexts"], row["answer"])
            flags = [
                s.verdict in {Verdict.ABSENT, Verdict.CONTRADICTED} for s in read.sentences or ()
            ]
            is_bad = row["label"] == "bad"
            right[is_bad].append(any(flags) == is_bad)
        every = [*right[True], *right[False]]
        found[f"{file.stem}, right"] = f"{sum(every)} of {len(every)}"
        wrong = right[False].count(False)
        found[f"{file.stem}, good ones flagged"] = f"{wrong} of {len(right[False])}"
    return found


def run_in(checkout: Path, *options: str) -> Any:
    """Return what this bench finds for the judge of a checkout, in a process of its own."""
    command = [sys.executable, __file__, "--json", *options]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    run = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT")
    parser.add_argument("--data", type=Path, help="a folder of labelled answers")
    parser.add_argument("--cases", type=Path, help="a folder with pairs_*.jsonl")
    parser.add_argument("--json", action="store_true", help="print the figures alone")
    options = parser.parse_args()
    if options.json:
        has_data = options.data and options.cases
        told = told_apart(options.data, options.cases) if has_data else timed(options.repeats)
        print(json.dumps(told))
        return
    checkouts = [Path(__file__).resolve().parents[2], *filter(None, [options.beside])]
    if options.data and options.cases:
        folders = ("--data", str(options.data), "--cases", str(options.cases))
        tables = [run_in(checkout, *folders) for checkout in checkouts]
        print("| | here | beside |\n|---|---|---|")
        for name in tables[0]:
            print("| " + " | ".join([name, *(table[name] for table in tables)]) + " |")
    print("\n| language | context, characters | fresh | p95 | warm | CPU beside: fresh | warm |")
    print("|---|---|---|---|---|---|---|")
    repeats = ("--repeats", str(options.repeats // 4))
    rounds = [[run_in(checkout, *repeats) for checkout in checkouts] for _ in range(4)]
    for name in rounds[0][0]:
        fresh, warm = ([t for own, *_ in rounds for t in own[name][at]] for at in (0, 1))
        p95 = statistics.quantiles(fresh, n=20)[-1]
        row = (
            f"| {name} | {statistics.median(fresh):.2f} | {p95:.2f} | {statistics.median(warm):.2f}"
        )
        for at, own in enumerate((fresh, warm)) if options.beside else ():
            other = [t for _, beside in rounds for t in beside[name][at]]
            row += f" | {statistics.median(own) / statistics.median(other):.2f}"
        print(f"{row} |", flush=True)


if __name__ == "__main__":
    main()
