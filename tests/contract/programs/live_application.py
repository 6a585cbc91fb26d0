"""Answers the questions of a file, watched by a monitor with every exporter; prints its scrape.

Usage: live_application.py ANSWERS PHOENIX LANGFUSE REFUSING PARTIAL JSONL
"""

import logging
import sys
import time
from pathlib import Path

import yaml

from ragmonitor import (
    Budget,
    Chunk,
    Exporter,
    Interaction,
    Langfuse,
    Monitor,
    Phoenix,
    ServerSettings,
)
from ragmonitor.integration import Generation, Message, Retrieval, Usage
from ragmonitor.settings import EstimationSettings
from tests.contract.kit_outputs import CHUNK, GOOD, Judge, openmetrics, samples, until, value

MS = 1_000_000


class Broken(Exporter):
    """Takes nothing, and says so in the worst way."""

    def export(self, report):
        """Raise."""
        raise RuntimeError("as scripted")


def interaction(row, chunk):
    """Return an answer as an application records it that traces itself: two steps, streamed."""
    now = time.time_ns()
    chunks = (Chunk(text=chunk, id="policy", score=0.9, metadata={"source": "policy.md"}),)
    return Interaction(
        id=row["id"],
        query=row["question"],
        chunks=chunks,
        answer=row["answer"],
        framework="python",
        name="returns",
        started_ns=now - 500 * MS,
        ended_ns=now,
        first_token_ns=now - 200 * MS,
        session_id="s1",
        user_id="u1",
        attributes={"route": "billing"},
        status="error" if row.get("error") else "ok",
        error=row.get("error", ""),
        retrievals=(
            Retrieval(
                query=row["question"],
                chunks=chunks,
                started_ns=now - 500 * MS,
                ended_ns=now - 400 * MS,
            ),
        ),
        generations=(
            Generation(
                input=(Message(role="user", text=f"{chunk}\n{row['question']}"),),
                output=row["answer"],
                model="shop-model",
                provider="openai",
                usage=Usage(input_tokens=40, output_tokens=12),
                started_ns=now - 400 * MS,
                ended_ns=now,
                first_token_ns=now - 200 * MS,
            ),
        ),
        usage=Usage(input_tokens=40, output_tokens=12),
    )


def main() -> None:
    """Answer everything, take what a person says of it, and wait until all of it has left."""
    answers, phoenix, langfuse, refusing, partial, lines = sys.argv[1:]
    logging.getLogger("ragmonitor").setLevel(logging.CRITICAL)
    monitor = Monitor(
        "shop",
        service_version="1.2",
        content="all",
        judge=Judge(),
        sample=1.0,
        budget=Budget(usd_per_day=500),
        objectives={"hallucination": 0.05},
        estimation=EstimationSettings(prices=("shop-model=0.5/1.5",), group_by=("language",)),
        exporters=[
            f"jsonl:{lines}",
            Phoenix(phoenix, api_key="phoenix-key"),
            Langfuse(langfuse, public_key="pk-lf-1", secret_key="sk-lf-1"),
            Phoenix(refusing),
            Langfuse(partial, public_key="pk-lf-2", secret_key="sk-lf-2"),
            Broken(),
        ],
        server=ServerSettings(port=0),
    )
    with monitor:
        told = yaml.safe_load(Path(answers).read_text("utf-8"))
        rows = told["answers"]
        for row in rows:
            monitor.observe(interaction(row, row.get("chunk", told["chunk"])))
        monitor.flush(20)
        monitor.check(GOOD, [CHUNK])
        monitor.feedback(rows[0]["id"], True, comment="just right")
        monitor.flush(20)

        def summed_up():
            """Return the scrape that has every answer; means come with the next evaluation."""
            scrape = openmetrics(monitor.metrics_url)
            name = "ragmonitor_refusal_rate"
            rate = value(samples(scrape), name, judge="contract", window="1h")
            return scrape if rate == 1 / 4 else None

        print(until("means of all answers", summed_up), end="")


main()
