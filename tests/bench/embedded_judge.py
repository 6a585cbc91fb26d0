"""The embedded judge's CPU time per answer, by length of context.

    python tests/bench/embedded_judge.py [--repeats 40]

Texts are made from a fixed vocabulary by a seeded generator, every one different, so that no cache
helps. Prints a markdown table: median and 95th percentile of milliseconds on one core, and the
median divided by the context's length, which shows that long contexts stay linear.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from ragmonitor.judges.lexical import assess

SYLLABLES = ["ra", "ten", "mo", "lis", "ver", "ko", "stan", "ing", "bel", "ur", "ap", "tion"]
HAN = "的一是了我不人在他有这上们来到时大地为子中你说生国年着就那和要她出也得里后自以会"


def english(rng: random.Random, length: int) -> str:
    """Return sentences of made-up words, numbers and names."""
    sentences: list[str] = []
    while sum(map(len, sentences)) + len(sentences) < length:
        words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(14)]
        words[rng.randrange(14)] = str(rng.randint(1, 3000))
        words[0] = words[0].capitalize()
        sentences.append(" ".join(words) + ".")
    return " ".join(sentences)[:length]


def chinese(rng: random.Random, length: int) -> str:
    """Return sentences of frequent characters."""
    sentences: list[str] = []
    while sum(map(len, sentences)) < length:
        sentences.append("".join(rng.choices(HAN, k=24)) + f"{rng.randint(1, 99)}年。")
    return "".join(sentences)[:length]


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=40)
    repeats = options.parse_args().repeats
    rng = random.Random(7)
    print("\n### Embedded judge: CPU ms per answer of 800 characters\n")
    print("| language | context, characters | chunks | median | p95 | µs per 1,000 characters |")
    print("|---|---|---|---|---|---|")
    for language, write in (("en", english), ("zh", chinese)):
        for length in (500, 2_000, 8_000, 30_000, 100_000):
            times: list[float] = []
            for n in range(repeats + 3):
                parts = max(1, length // 500)
                chunks = [write(rng, length // parts) for _ in range(parts)]
                # Half copied, half new: both ends of the work.
                answer = " ".join(chunks)[:400] + " " + write(rng, 400)
                query = write(rng, 60)
                began = time.process_time()
                assess(query, chunks, answer)
                if n >= 3:
                    times.append((time.process_time() - began) * 1e3)
            median = statistics.median(times)
            p95 = statistics.quantiles(times, n=20)[-1]
            print(
                f"| {language} | {length:,} | {parts} | {median:.2f} | {p95:.2f} "
                f"| {median / length * 1e6:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
