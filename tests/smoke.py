"""Uses the wheels as they are installed, from any folder: `python smoke.py` prints "smoke: ok"."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from urllib.request import urlopen

import ragmonitor
from ragmonitor import ServerSettings

HEAVY = {"langchain", "langchain_core", "litellm", "llama_index", "numpy"}
QUESTION = "When was the Eiffel Tower built?"
CONTEXTS = ["The Eiffel Tower was built from 1887 to 1889.", "It is 330 metres tall."]
ANSWER = "The Eiffel Tower was built from 1887 to 1889."


def check(*, holds: bool, message: str) -> None:
    """Stop with the message unless it holds; `assert` would vanish under -O."""
    if not holds:
        sys.exit(f"smoke: {message}")


def complete_with_litellm(monitor: ragmonitor.Monitor) -> None:
    """Let litellm complete a chat without a network, and tell what was retrieved for it."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    import ragmonitor_litellm

    ragmonitor_litellm.instrument(monitor)
    litellm.completion(
        model="openai/mocked",
        messages=[{"role": "user", "content": QUESTION}],
        mock_response=ANSWER,
        metadata={"ragmonitor": {"chunks": CONTEXTS}},
    )
    check(holds=monitor.flush(30), message="litellm's completion was not worked off")
    ragmonitor_litellm.uninstrument()


def main() -> None:
    """Import, monitor plain code, scrape, and ask an application of every framework."""
    loaded = HEAVY & set(sys.modules)
    check(holds=not loaded, message=f"`import ragmonitor` loads {', '.join(sorted(loaded))}")

    with ragmonitor.Monitor(service="smoke", server=ServerSettings(port=0)) as monitor:
        with monitor.interaction(query=QUESTION) as told:
            told.retrieved(CONTEXTS)
            told.answered(ANSWER)
        frameworks = ["python"]
        for entry in sorted(metadata.entry_points(group="ragmonitor.drivers")):
            driver = entry.load()()
            driver.instrument(monitor)
            application = driver.application(
                lambda _question: [ragmonitor.Chunk(text=text) for text in CONTEXTS],
                "Context: {context}\nQuestion: {question}",
                lambda _prompt: ANSWER,
            )
            shown = "".join(application(QUESTION, {}))
            driver.uninstrument()
            check(holds=shown == ANSWER, message=f"{entry.name} shows {shown!r}")
            frameworks.append(entry.name)
        complete_with_litellm(monitor)
        frameworks.append("litellm")
        check(
            holds={"langchain", "llama_index"} <= set(frameworks),
            message=f"drivers installed: {frameworks[1:]}",
        )
        check(holds=monitor.flush(30), message="the monitor did not flush")
        url = monitor.metrics_url
        check(holds=url is not None, message="/metrics is not served")
        with urlopen(str(url), timeout=10) as reply:
            text = reply.read().decode()

    for framework in frameworks:
        series = f'ragmonitor_interactions_total{{framework="{framework}",service="smoke"'
        check(holds=series in text, message=f"no {series} in /metrics:\n{text}")
    for name in (
        "ragmonitor_evaluations_total",
        "ragmonitor_score_bucket",
        "ragmonitor_score_mean",
        "ragmonitor_hallucination_rate",
    ):
        check(holds=f"\n{name}{{" in text, message=f"no {name} in /metrics:\n{text}")
    print("smoke: ok")


if __name__ == "__main__":
    main()
