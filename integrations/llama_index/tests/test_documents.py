"""Engines that find nodes without a retriever's run, and nodes whose metadata the prompt shows."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core import SummaryIndex, get_response_synthesizer
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode

from ragmonitor import ExportSettings, Interaction, Monitor
from ragmonitor.testing import ListExporter
from ragmonitor_llama_index import instrument, uninstrument

QUESTION, ANSWER = "How long is the warranty?", "The warranty lasts two years."
NODES = [NodeWithScore(node=TextNode(text=text), score=0.9) for text in (ANSWER, "It is blue.")]


class Says(CustomLLM):
    """Says the same always."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="says", context_window=100_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=ANSWER)

    @llm_completion_callback()
    def stream_complete(self, *_: Any, **_options: Any) -> Any:
        raise NotImplementedError


class Named(CustomQueryEngine):
    """Searches by itself, and names what it found."""

    def custom_query(self, query_str: str) -> Response:
        text = Says().complete(f"{NODES[0].text}\n{query_str}").text
        return Response(text, source_nodes=NODES[:1])


class Synthesized(CustomQueryEngine):
    """Searches by itself, and has a synthesizer answer."""

    def custom_query(self, query_str: str) -> Any:
        return get_response_synthesizer(llm=Says()).synthesize(query_str, nodes=NODES)


class Alone(CustomQueryEngine):
    """Asks its model alone."""

    def custom_query(self, query_str: str) -> str:
        return Says().complete(query_str).text


def asked(engine: Any) -> list[Interaction]:
    told = ListExporter()
    with Monitor(
        service="t", exporters=[told], server=False, export=ExportSettings(traces=False)
    ) as monitor:
        instrument(monitor)
        engine.query(QUESTION)
        monitor.flush(10)
        uninstrument()
    return list(told.interactions())


@pytest.mark.parametrize(("engine", "found"), [(Named(), 1), (Synthesized(), 2)])
def test_what_an_engine_found_by_itself_was_retrieved(engine: Any, found: int) -> None:
    """Its response names it, or its synthesizer was given it."""
    (interaction,) = asked(engine)
    assert [c.text for c in interaction.chunks] == [node.text for node in NODES[:found]]


def test_an_engine_that_found_nothing_is_no_interaction() -> None:
    """Its model was asked alone."""
    assert asked(Alone()) == []


@pytest.mark.parametrize(
    ("hidden", "text"), [([], f"author: Jane Smith\n\n{ANSWER}"), (["author"], ANSWER)]
)
def test_metadata_that_the_prompt_shows_is_part_of_the_chunk(hidden: list[str], text: str) -> None:
    """LlamaIndex's template shows them by default; what was kept from the model is no evidence."""
    node = TextNode(
        text=ANSWER, metadata={"author": "Jane Smith"}, excluded_llm_metadata_keys=hidden
    )
    (interaction,) = asked(SummaryIndex([node]).as_query_engine(llm=Says()))
    assert [c.text for c in interaction.chunks] == [text]
