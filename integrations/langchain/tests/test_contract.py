"""The contract of every integration, told to LangChain."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

from ragmonitor import Monitor
from ragmonitor.testing import STORIES, Story, check_story
from ragmonitor_langchain import instrument, uninstrument


class Told(BaseRetriever):
    story: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.story.fails == "retriever":
            raise RuntimeError(self.story.failure)
        return [
            Document(chunk.text, id=chunk.id, metadata={"score": chunk.score})
            for chunk in self.story.chunks
        ]


class Telling(BaseChatModel):
    story: Any

    @property
    def _llm_type(self) -> str:
        return "telling"

    @property
    def _usage(self) -> UsageMetadata:
        given, gave = self.story.usage.input_tokens, self.story.usage.output_tokens
        return UsageMetadata(input_tokens=given, output_tokens=gave, total_tokens=given + gave)

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        if self.story.fails == "model":
            raise RuntimeError(self.story.failure)
        message = AIMessage(self.story.answer, usage_metadata=self._usage)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for piece in self.story.pieces:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=self._usage))


def tell(story: Story, monitor: Monitor) -> None:
    chain = (
        {
            "context": Told(story=story) | (lambda ds: "\n\n".join(d.page_content for d in ds)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{context}\n\n{question}")
        | Telling(story=story)
        | StrOutputParser()
    )
    instrument(monitor)
    try:
        if not story.streamed:
            assert chain.invoke(story.query) == story.answer
        elif story.read is None:
            assert "".join(chain.stream(story.query)) == story.answer
        else:
            stream = chain.stream(story.query)
            assert "".join(next(stream) for _ in range(story.read)) == story.seen
            stream.close()
    finally:
        uninstrument()


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_the_story_is_captured_as_it_was_told(story: Story) -> None:
    """Query, chunks, answer, usage, status, caller, prompt; nothing is left open."""
    check_story(story, tell)
