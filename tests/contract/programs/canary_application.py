"""An application in each of whose texts stands a canary, and in some a secret.

Usage: canary_application.py POLICY FOLDER PHOENIX LANGFUSE. The folder gets what leaves by other
ways than HTTP: `jsonl`, `metrics`, `log`, `judge`, `incident`, `state/`.
"""

import itertools
import logging
import sys
import time
from pathlib import Path

from ragmonitor import (
    Budget,
    Chunk,
    Exporter,
    FunctionJudge,
    Interaction,
    Langfuse,
    Monitor,
    Phoenix,
    ServerSettings,
)
from ragmonitor.integration import Generation, Message, Retrieval
from tests.contract.kit_outputs import SECRET, fetched, openmetrics, until
from tests.support.renamed_judge import JUDGE

MS = 1_000_000


def text(way):
    """Return a sentence with the canary of one way in, and a secret."""
    return f"The zq{way}zq was built in 1999 by Napoleon, api_key={SECRET}."


def interaction(number, **changes):
    """Return an answer with a canary in every text and name."""
    now = time.time_ns()
    metadata = {"source": f"zqsourcezq-{number}", "note": text("metadata"), "deep": [text("deep")]}
    chunk = Chunk(text=text("chunk"), id="c1", score=0.5, metadata=metadata)
    times = {"started_ns": now - 500 * MS, "ended_ns": now}
    fields = {
        "id": f"{number:032x}",
        "query": f"When was the zqquestionzq built? api_key={SECRET}",
        "chunks": (chunk,),
        "not_shown": (Chunk(text=text("hidden")),),
        "answer": f"A circus of Ohio sold the zqanswerzq for 90 euros. api_key={SECRET}",
        "framework": "python",
        "name": "tower",
        "session_id": f"zqsessionzq-{number}",
        "user_id": "zquserzq",
        "attributes": {"route": "zqattributezq", "note": f"api_key={SECRET}"},
        "retrievals": (Retrieval(query=text("search"), chunks=(chunk,), **times),),
        "generations": (
            Generation(
                input=(Message(role="user", text=text("prompt")),),
                output=text("output"),
                model="m",
                provider="openai",
                **times,
            ),
        ),
        **times,
    }
    return Interaction(**(fields | changes))


class Replies:
    """What stands behind a function judge: it keeps what it is asked and replies with nonsense."""

    def __init__(self, kept):
        self._kept, self._n = kept, 0

    def __call__(self, prompts):
        """Reply, and raise every other time."""
        self._n += 1
        with self._kept.open("a", encoding="utf-8") as file:
            file.write("\n".join(prompts))
        if self._n % 2:
            raise ValueError(text("refusal"))
        return [text("reply") for _ in prompts]


class Broken(Exporter):
    """Says of a report that it takes none."""

    def export(self, _report):
        """Raise."""
        raise ValueError(text("plugin"))


def main() -> None:
    """Let every text in, and wait until everything has left."""
    policy, name, phoenix, langfuse = sys.argv[1:]
    folder = Path(name)
    logging.basicConfig(filename=folder / "log", level=logging.DEBUG, force=True)
    judged(policy, folder, phoenix, langfuse)
    alarmed(policy, folder)


def judged(policy, folder, phoenix, langfuse):
    """Have a few answers judged and sent everywhere, with all that goes wrong."""
    monitor = Monitor(
        "shop",
        **({} if policy == "unsaid" else {"content": policy}),
        judge=FunctionJudge(Replies(folder / "judge"), name="f"),
        sample=1.0,
        budget=Budget(calls_per_day=10**6),
        exporters=[
            f"jsonl:{folder / 'jsonl'}",
            Phoenix(phoenix),
            Langfuse(langfuse, public_key="pk", secret_key="sk"),
            Broken(),
        ],
        state=folder / "state",
        server=ServerSettings(port=0),
    )
    with monitor:
        for number in range(1, 5):
            monitor.observe(interaction(number))
        monitor.observe(interaction(9, status="error", error=f"ValueError: {text('error')}"))
        try:
            with monitor.interaction(query="What is it?") as i:
                i.retrieved([Chunk(text=text("chunk"))])
                raise RuntimeError(text("exception"))
        except RuntimeError:
            pass
        monitor.flush(30)
        monitor.feedback(f"{1:032x}", False, comment=text("comment"))
        monitor.flush(30)
        served = [fetched(monitor.metrics_url), openmetrics(monitor.metrics_url)]
        (folder / "metrics").write_text("\n".join(served), encoding="utf-8")


def alarmed(policy, folder):
    """Give bad answers until there is an incident."""
    monitor = Monitor(
        "desk",
        **({} if policy == "unsaid" else {"content": policy}),
        judge=JUDGE,
        sample=1.0,
        objectives={"hallucination": 0.05},
        state=folder / "state",
        server=ServerSettings(ui=True, port=0),
    )
    with monitor:
        numbers = itertools.count(100)

        def incident():
            for number in itertools.islice(numbers, 60):
                monitor.observe(interaction(number))
            monitor.flush(30)
            return fetched(f"{monitor.ui_url}incidents/latest.md")

        (folder / "incident").write_text(until("an incident", incident), encoding="utf-8")


main()
