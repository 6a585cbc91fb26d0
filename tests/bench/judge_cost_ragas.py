"""RAGAS' side of `judge_cost.py`, which runs it in an environment that has RAGAS.

    python judge_cost_ragas.py http://127.0.0.1:8000/v1 < samples.json > scores.json

Reads, by language, a list of samples (`question`, `contexts`, `answer`); asks for each metric of
each sample at `<address>/<metric>/<language>/<number>`, so that the server knows what every request
is for; writes the scores, by metric and language.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

os.environ["RAGAS_DO_NOT_TRACK"] = "true"
warnings.simplefilter("ignore")  # RAGAS warns of its own metrics

import openai  # noqa: E402 - what is set above must be set before
from langchain_openai import ChatOpenAI  # noqa: E402
from langchain_openai import OpenAIEmbeddings as LangchainEmbeddings  # noqa: E402
from ragas import SingleTurnSample, __version__  # noqa: E402
from ragas import metrics as legacy  # noqa: E402
from ragas.embeddings import LangchainEmbeddingsWrapper, OpenAIEmbeddings  # noqa: E402
from ragas.llms import LangchainLLMWrapper, llm_factory  # noqa: E402
from ragas.metrics import collections as current  # noqa: E402

MODEL = "gpt-4o-mini"
Sample = dict[str, Any]


def scorers(base_url: str) -> dict[str, Callable[[Sample], Awaitable[float]]]:
    """Return how to score one sample at one address, by metric, as RAGAS' documentation does it."""
    client = openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
    model = llm_factory(MODEL, client=client)
    embeddings = OpenAIEmbeddings(client=client)
    old_model = LangchainLLMWrapper(
        ChatOpenAI(model=MODEL, base_url=base_url, api_key="none", max_retries=0)
    )
    old_embeddings = LangchainEmbeddingsWrapper(
        LangchainEmbeddings(  # type: ignore[call-arg]
            base_url=base_url, api_key="none", max_retries=0, check_embedding_ctx_length=False
        )
    )

    def single(sample: Sample) -> SingleTurnSample:
        return SingleTurnSample(
            user_input=sample["question"],
            response=sample["answer"],
            retrieved_contexts=sample["contexts"],
        )

    async def faithfulness(sample: Sample) -> float:
        metric = current.Faithfulness(llm=model)
        found = await metric.ascore(sample["question"], sample["answer"], sample["contexts"])
        return found.value

    async def answer_relevancy(sample: Sample) -> float:
        metric = current.AnswerRelevancy(llm=model, embeddings=embeddings)
        return (await metric.ascore(sample["question"], sample["answer"])).value

    async def context_relevance(sample: Sample) -> float:
        metric = current.ContextRelevance(llm=model)
        return (await metric.ascore(sample["question"], sample["contexts"])).value

    async def old_faithfulness(sample: Sample) -> float:
        return await legacy.Faithfulness(llm=old_model).single_turn_ascore(single(sample))

    async def old_answer_relevancy(sample: Sample) -> float:
        metric = legacy.ResponseRelevancy(llm=old_model, embeddings=old_embeddings)
        return await metric.single_turn_ascore(single(sample))

    async def old_context_relevance(sample: Sample) -> float:
        return await legacy.ContextRelevance(llm=old_model).single_turn_ascore(single(sample))

    return {
        "faithfulness": faithfulness,
        "answer_relevancy": answer_relevancy,
        "context_relevance": context_relevance,
        "legacy_faithfulness": old_faithfulness,
        "legacy_answer_relevancy": old_answer_relevancy,
        "legacy_context_relevance": old_context_relevance,
    }


async def main(address: str) -> None:
    samples: dict[str, list[Sample]] = json.load(sys.stdin)
    scores: dict[str, dict[str, list[float]]] = {}
    for metric in scorers(address):
        for language, those in samples.items():
            row = scores.setdefault(metric, {}).setdefault(language, [])
            for number, sample in enumerate(those):
                score = scorers(f"{address}/{metric}/{language}/{number}")[metric]
                row.append(float(await score(sample)))
    json.dump({"version": __version__, "scores": scores}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
