"""What a record costs as bytes: size, writing, reading, and compressions beside each other.

    python tests/bench/wire.py [--stream]

A record of four chunks of 800 characters each, which stand in it three times (shown, retrieved, in
the prompt), out of the texts of docs/, English and Chinese; and longer ones, of which the time per
byte must not grow. Each figure is the median of 15 rounds. With `--stream` also what putting one on
a stream costs, with a redis-server of its own (Debian's package).
"""

from __future__ import annotations

import pickle
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import zstandard

from ragmonitor import Chunk, Generation, Interaction, Message, Retrieval, SpanReference, Usage
from ragmonitor.wire import decode, encode

DOCS = Path(__file__).parents[2] / "docs"
ROUNDS = 15


def record(source: str, characters: int) -> Interaction:
    """Return a record of four chunks of so many characters each."""
    texts = [source[n * characters : (n + 1) * characters] for n in range(4)]
    answer = source[4 * characters :][:400]
    chunks = tuple(
        Chunk(text=text, id=f"doc-{n}", score=0.8 - n / 10, metadata={"page": n, "source": "a.md"})
        for n, text in enumerate(texts)
    )
    usage = Usage(input_tokens=1_204, output_tokens=98)
    return Interaction(
        id="0af7651916cd43dd8448eb211c80319c",
        query=source[60:120],
        chunks=chunks,
        answer=answer,
        framework="langchain",
        started_ns=time.time_ns(),
        ended_ns=time.time_ns(),
        name="docs",
        retrievals=(Retrieval(query=source[60:120], chunks=chunks, started_ns=1, ended_ns=2),),
        generations=(
            Generation(
                output=answer,
                started_ns=1,
                ended_ns=2,
                input=(Message(role="user", text="\n\n".join(texts)),),
                model="gpt-4o-mini",
                provider="openai",
                usage=usage,
            ),
        ),
        usage=usage,
        caller=SpanReference(trace_id="0" * 31 + "1", span_id="0" * 15 + "1"),
        session_id="session",
        attributes={"route": "docs"},
    )


def microseconds(call: Callable[[], object]) -> float:
    """Return the median time of one call."""
    began = time.perf_counter()
    call()
    calls = max(1, int(0.02 / max(time.perf_counter() - began, 1e-6)))
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - began) / calls * 1e6)
    return statistics.median(rounds)


def row(name: str, write: Callable[[], bytes], read: Callable[[bytes], object]) -> None:
    """Print one line of the table."""
    data = write()
    read_us = microseconds(lambda: read(data))
    print(f"  {name:22} {len(data):9,} {microseconds(write):10.1f} {read_us:10.1f}")


def compressions(interaction: Interaction) -> None:
    """Print the compressions of one record."""
    body = encode(interaction)
    for level in (1, 6):
        row(f"zlib {level}", lambda level=level: zlib.compress(body, level), zlib.decompress)
    for level in (1, 3):
        compress = zstandard.ZstdCompressor(level=level).compress
        row(
            f"zstandard {level}",
            lambda compress=compress: compress(body),
            zstandard.ZstdDecompressor().decompress,
        )


def put_on_a_stream(interaction: Interaction) -> None:
    """Print what a record costs on its way to a stream, and there."""
    sys.path.insert(0, str(DOCS.parent))
    from ragmonitor.streams import RedisStream
    from tests.support.redis_server import running_redis

    batch = [encode(interaction, compressed=True)] * 64
    with tempfile.TemporaryDirectory() as folder, running_redis(Path(folder)) as server:
        stream = RedisStream(server.url, "bench")
        stream.put(batch)
        costs = []
        for _ in range(ROUNDS):
            began = time.process_time()
            for _ in range(10):
                stream.put(batch)
            costs.append((time.process_time() - began) / 640 * 1e6)
        stored = stream.state().waiting
        with server.client() as client:
            size = client.memory_usage("ragmonitor:{bench}:records", samples=0)
        stream.close()
    print(
        f"On a stream: {statistics.median(costs):.1f} µs of CPU a put, {size / stored:,.0f} bytes"
    )


def main() -> None:
    """Print all tables."""
    sources = {
        "English": "".join(path.read_text() for path in sorted(DOCS.glob("*.md"))),
        "Chinese": "".join(path.read_text() for path in sorted((DOCS / "zh").glob("*.md"))),
    }
    for language, source in sources.items():
        interaction = record(source, 800)
        print(f"{language:24} {'bytes':>9} {'write µs':>10} {'read µs':>10}")
        row("wire", lambda: encode(interaction), decode)  # noqa: B023 - called at once
        row("wire, compressed", lambda: encode(interaction, compressed=True), decode)  # noqa: B023
        row("pickle", lambda: pickle.dumps(interaction, 5), pickle.loads)  # noqa: B023
        print("  the compression alone:")
        compressions(interaction)
    print(f"{'Longer ones':24} {'bytes':>9} {'write µs':>10} {'read µs':>10}")
    source = sources["English"] * 4
    for characters in (8_000, 80_000, 300_000):
        interaction = record(source, characters)
        row(f"4 × {characters:,}", lambda: encode(interaction), decode)  # noqa: B023
        row("  compressed", lambda: encode(interaction, compressed=True), decode)  # noqa: B023
    if "--stream" in sys.argv[1:]:
        put_on_a_stream(record(source, 800))


if __name__ == "__main__":
    main()
