"""What one answer costs: our judge's one call beside the calls of RAGAS.

    python tests/bench/judge_cost.py [--encoding cl100k_base|o200k_base] [--ragas FOLDER]

Twenty answers, ten in English and ten in Chinese (`judge_cost_samples.json`: 3.7 chunks and 3.8
sentences each), are judged by the real `LlmJudge` through litellm, and by RAGAS in a process and
an environment of its own, which is made in FOLDER (`.ragas`) if it is not there. Both talk to one
server on loopback, which knows by the address what each request is for.

Calls and prompt tokens are what was really sent: the contents of the messages, with neither the
few tokens of a chat's framing nor a schema that goes beside them, which stands in a column of its
own. The replies are scripted from one reading of each sample, made by hand, and written without
spaces as our prompt's example is: RAGAS' with one statement a sentence and a reason of about twenty
tokens (its own examples are indented, and a model that follows them pays more). No model is run, so
nothing is said about accuracy.

Prints markdown tables, means per answer. Exit code 1: a target is missed, or RAGAS did not give
the score that its script implies.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import venv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import tiktoken  # noqa: E402 - the path is set above
from litellm.litellm_core_utils import default_encoding  # noqa: E402, F401 - ships vocabularies

from ragmonitor.judges.llm import LlmJudge  # noqa: E402
from ragmonitor.judges.sentences import split  # noqa: E402
from ragmonitor.records import Chunk, Interaction, Verdict  # noqa: E402
from tests.support.openai_server import OpenAiServer, Reply, Request  # noqa: E402

SAMPLES = Path(__file__).with_name("judge_cost_samples.json")
CONSTRAINTS = ROOT / "tests" / "support" / "ragas-constraints.txt"
LANGUAGES = ("en", "zh")
OURS = "ragmonitor"
STRICT = "ragmonitor_strict"
PAIR = ("faithfulness", "answer_relevancy")
TRIPLE = (*PAIR, "context_relevance")
TARGETS = {"en": 0.30, "zh": 0.35}
"""Our total, context relevance included, by that of RAGAS' current `PAIR`."""
ASKED_NS = 1_763_000_000_000_000_000
REASONS = {
    (
        "en",
        1,
    ): "The context states this directly, so the statement can be inferred from the context.",
    (
        "en",
        0,
    ): "The context does not state this, so the statement cannot be inferred from the context.",
    ("zh", 1): "上下文明确提到了这一点,因此可以推断出来。",
    ("zh", 0): "上下文没有提到这一点,因此无法推断出来。",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One answer, and how a careful reader judges it."""

    question: str
    contexts: list[str]
    answer: str
    reading: dict[str, Any]
    """As our judge's reply: s, bad, rel, evasive, ctx."""

    @property
    def sentences(self) -> list[str]:
        return [sentence.text for sentence in split(self.answer)]

    @property
    def is_supported(self) -> list[int]:
        """One 0 or 1 for each sentence, as RAGAS' model would say it."""
        return [int(isinstance(entry, list) and entry[0] != "X") for entry in self.reading["s"]]

    @property
    def strict_reading(self) -> dict[str, Any]:
        faults = {number: fault for number, *fault in self.reading["bad"]}
        entries = []
        for number, entry in enumerate(self.reading["s"], 1):
            parts = entry if isinstance(entry, list) else [entry]
            letter, cited = (parts[0], parts[1:]) if isinstance(parts[0], str) else ("S", parts)
            words, severity = faults.get(number, ("", 0))
            entries.append({"v": letter, "c": cited, "w": words, "sev": severity})
        rest = {name: self.reading[name] for name in ("rel", "evasive", "ctx")}
        return {"s": entries, **rest}


@dataclass(slots=True)
class Cost:
    """What was asked for one metric in one language, all samples together."""

    calls: int = 0
    embeddings: int = 0
    prompt: int = 0
    schema: int = 0
    completion: int = 0

    @property
    def total(self) -> int:
        """Without schemas, which not every provider bills."""
        return self.prompt + self.completion


Costs = dict[tuple[str, str], Cost]
"""By metric and language."""


def load() -> dict[str, list[Sample]]:
    tables = json.loads(SAMPLES.read_text("utf-8"))
    return {
        language: [
            Sample(
                question=row["question"],
                contexts=[table["chunks"][name] for name in row["chunks"]],
                answer=row["answer"],
                reading=row["reading"],
            )
            for row in table["samples"]
        ]
        for language, table in tables.items()
    }


# The server


def purpose(path: str) -> tuple[str, str, int]:
    """Return the metric, the language and the sample's number that an address names."""
    found = re.fullmatch(r"/v1/(\w+)/(\w+)/(\d+)/(?:chat/completions|embeddings)", path)
    if found is None:
        raise ValueError(f"an address of nobody's: {path}")
    return found[1], found[2], int(found[3])


def reply_to(request: Request, samples: dict[str, list[Sample]]) -> Reply:
    """Return what a model would say that reads the sample as its script does."""
    metric, language, number = purpose(request.path)
    said = _said(metric, request, samples[language][number], language)
    count = int(request.body.get("n") or 1)
    choices = [
        {"index": at, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
        for at in range(count)
    ]
    head = {"id": "1", "object": "chat.completion", "created": 0, "model": "judge"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return Reply(
        content=said, body=json.dumps({**head, "choices": choices, "usage": usage}).encode()
    )


def _said(metric: str, request: Request, sample: Sample, language: str) -> str:
    value: Any
    if metric == OURS:
        value = sample.reading
    elif metric == STRICT:
        value = sample.strict_reading
    elif metric == "legacy_context_relevance":
        return "2"
    elif metric == "context_relevance":
        value = {"rating": 2}
    elif metric.endswith("answer_relevancy"):
        value = {"question": sample.question, "noncommittal": 0}
    elif "faithfulness of a series of statements" in request.user:
        value = {
            "statements": [
                {"statement": text, "reason": REASONS[language, verdict], "verdict": verdict}
                for text, verdict in zip(sample.sentences, sample.is_supported, strict=True)
            ]
        }
    else:
        value = {"statements": sample.sentences}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count(server: OpenAiServer, samples: dict[str, list[Sample]], encoding: str) -> Costs:
    """Return what the server was asked."""
    encoder = tiktoken.get_encoding(encoding)

    def tokens(text: str) -> int:
        return len(encoder.encode(text, disallowed_special=()))

    costs: Costs = defaultdict(Cost)
    for request in server.requests:
        metric, language, number = purpose(request.path)
        cost = costs[metric, language]
        if request.path.endswith("embeddings"):
            cost.embeddings += 1
            continue
        cost.calls += 1
        cost.prompt += sum(tokens(message["content"]) for message in request.messages)
        beside = [request.body[key] for key in ("tools", "functions") if key in request.body]
        form = request.body.get("response_format") or {}
        if "json_schema" in form:
            beside.append(form["json_schema"])
        cost.schema += sum(tokens(json.dumps(schema)) for schema in beside)
        said = _said(metric, request, samples[language][number], language)
        cost.completion += tokens(said) * int(request.body.get("n") or 1)
    return costs


# The two sides


async def judge_ours(address: str, samples: dict[str, list[Sample]]) -> None:
    """Judge every sample once in each form. Raises if a reading is not what was scripted."""
    forms: dict[str, Literal["json_object", "json_schema"]] = {
        OURS: "json_object",
        STRICT: "json_schema",
    }
    for name, form in forms.items():
        for language, those in samples.items():
            for number, sample in enumerate(those):
                judge = LlmJudge(
                    "openai/judge",
                    api_base=f"{address}/{name}/{language}/{number}",
                    api_key="none",
                    budget_unit="tokens",
                    reply_format=form,
                )
                found = await judge.assess(
                    Interaction(
                        id=str(number),
                        query=sample.question,
                        chunks=tuple(Chunk(text=text) for text in sample.contexts),
                        answer=sample.answer,
                        framework="python",
                        started_ns=ASKED_NS,
                        ended_ns=ASKED_NS + 1,
                    )
                )
                await judge.close()
                verdicts = [s.verdict is Verdict.SUPPORTED for s in found.sentences or ()]
                complete = None not in (found.answer_relevancy, found.chunk_relevance)
                if verdicts != [bool(one) for one in sample.is_supported] or not complete:
                    raise RuntimeError(f"{name} {language} {number} was not read as it was written")


def judge_ragas(address: str, samples: dict[str, list[Sample]], folder: Path) -> dict[str, Any]:
    """Return RAGAS' version and scores; its environment is made first, if there is none."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    ready = folder / ".installed"
    if not ready.exists() or ready.stat().st_mtime < CONSTRAINTS.stat().st_mtime:
        print(f"installing RAGAS into {folder} (800 MB)", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--constraint", CONSTRAINTS, "ragas"], check=True)
        ready.touch()
    given = {
        language: [
            {"question": s.question, "contexts": s.contexts, "answer": s.answer} for s in those
        ]
        for language, those in samples.items()
    }
    ran = subprocess.run(
        [python, Path(__file__).with_name("judge_cost_ragas.py"), address],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def wrong_scores(
    scores: dict[str, dict[str, list[float]]], samples: dict[str, list[Sample]]
) -> int:
    """Return how many of RAGAS' scores are not what its script implies."""
    wrong = 0
    for metric, rows in scores.items():
        for language, row in rows.items():
            for score, sample in zip(row, samples[language], strict=True):
                supported = sample.is_supported
                if metric.endswith("faithfulness"):
                    expected = sum(supported) / len(supported)
                else:
                    expected = 1.0
                wrong += not abs(score - expected) < 1e-6
    return wrong


# The tables

ROWS = {
    OURS: "**ragmonitor: everything**",
    STRICT: "ragmonitor: everything, `json_schema`",
    "faithfulness": "RAGAS: faithfulness",
    "answer_relevancy": "RAGAS: answer relevancy",
    "context_relevance": "RAGAS: context relevance",
    "legacy_faithfulness": "RAGAS legacy: faithfulness",
    "legacy_answer_relevancy": "RAGAS legacy: answer relevancy",
    "legacy_context_relevance": "RAGAS legacy: context relevance",
}


def show(costs: Costs, samples: dict[str, list[Sample]]) -> bool:
    """Print the tables; return whether the targets are met."""

    def mean(value: int, language: str) -> str:
        figure = value / len(samples[language])
        return f"{figure:,.1f}" if figure < 10 and figure % 1 else f"{figure:,.0f}"

    columns = ("calls", "embeddings", "prompt", "completion", "total", "schema")
    heads = ("calls", "embedding calls", "prompt tokens", "completion", "total", "schema beside")
    print(f"| en / zh | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for metric, title in ROWS.items():
        cells = [
            " / ".join(
                mean(getattr(costs[metric, language], column), language) for language in LANGUAGES
            )
            for column in columns
        ]
        print(f"| {title} | {' | '.join(cells)} |")

    print(
        "\n| our total by that of | en | zh | prompt tokens alone, en | zh |\n|---|---|---|---|---|"
    )
    for title, prefix, metrics in (
        ("RAGAS, faithfulness and answer relevancy", "", PAIR),
        ("the same and context relevance", "", TRIPLE),
        ("RAGAS legacy, faithfulness and answer relevancy", "legacy_", PAIR),
        ("the same and context relevance", "legacy_", TRIPLE),
    ):
        names = [prefix + metric for metric in metrics]
        shares = [
            getattr(costs[OURS, language], figure)
            / sum(getattr(costs[name, language], figure) for name in names)
            for figure in ("total", "prompt")
            for language in LANGUAGES
        ]
        print(f"| {title} | {' | '.join(f'{share:.1%}' for share in shares)} |")

    met = all(costs[OURS, language].calls == len(samples[language]) for language in LANGUAGES)
    for language, most in TARGETS.items():
        share = costs[OURS, language].total / sum(costs[m, language].total for m in PAIR)
        met &= share <= most
        print(f"\ntarget {language}: one call, at most {most:.0%}: {share:.1%}", end="")
    print(f"\n{'met' if met else 'MISSED'}")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--encoding", default="cl100k_base", choices=["cl100k_base", "o200k_base"])
    parser.add_argument("--ragas", type=Path, default=ROOT / ".ragas", help="its environment")
    arguments = parser.parse_args()
    samples = load()
    with OpenAiServer(default=lambda request: reply_to(request, samples)) as server:
        asyncio.run(judge_ours(server.api_base, samples))
        told = judge_ragas(server.api_base, samples, arguments.ragas)
        costs = count(server, samples, arguments.encoding)
    print(f"RAGAS {told['version']}, {arguments.encoding}, means per answer\n")
    met = show(costs, samples)
    wrong = wrong_scores(told["scores"], samples)
    if wrong:
        print(f"{wrong} scores of RAGAS are not what its script implies", file=sys.stderr)
    return 0 if met and not wrong else 1


if __name__ == "__main__":
    raise SystemExit(main())
