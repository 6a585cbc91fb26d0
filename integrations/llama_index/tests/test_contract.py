"""The contract of every integration, told to LlamaIndex."""

from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from ragmonitor import Monitor
from ragmonitor.testing import STORIES, Story, check_story
from ragmonitor_llama_index import instrument, uninstrument


class Told(BaseRetriever):
    def __init__(self, story: Story) -> None:
        super().__init__()
        self.story = story

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self.story.fails == "retriever":
            raise RuntimeError(self.story.failure)
        return [
            NodeWithScore(node=TextNode(id_=chunk.id, text=chunk.text), score=chunk.score)
            for chunk in self.story.chunks
        ]


class Telling(CustomLLM):
    story: Any

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="telling", context_window=100_000)

    @property
    def _raw(self) -> dict[str, Any]:
        usage = self.story.usage
        return {
            "usage": {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
        }

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        if self.story.fails == "model":
            raise RuntimeError(self.story.failure)
        return CompletionResponse(text=self.story.answer, raw=self._raw)

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponseGen:
        def pieces() -> CompletionResponseGen:
            text = ""
            for piece in self.story.pieces:
                text += piece
                yield CompletionResponse(text=text, delta=piece, raw=self._raw)

        return pieces()


def tell(story: Story, monitor: Monitor) -> None:
    engine = RetrieverQueryEngine(
        retriever=Told(story),
        response_synthesizer=CompactAndRefine(llm=Telling(story=story), streaming=story.streamed),
    )
    instrument(monitor)
    try:
        response = engine.query(story.query)
        if not story.streamed:
            assert str(response) == story.answer
            return
        assert isinstance(response, StreamingResponse)
        if story.read is None:
            assert "".join(response.response_gen) == story.answer
        else:
            assert "".join(next(response.response_gen) for _ in range(story.read)) == story.seen
            response.response_gen.close()
    finally:
        uninstrument()


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_the_story_is_captured_as_it_was_told(story: Story) -> None:
    """Query, chunks, answer, usage, status, caller, prompt; nothing is left open."""
    check_story(story, tell)
