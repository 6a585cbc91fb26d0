"""The applications that the benchmarks watch: everything real but the model, which says one text.

A retriever gives five chunks of about 800 characters (220 in Chinese), a prompt is filled in, a
model answers with 100 words (as one text, or in 100 pieces), and a parser reads it. Nothing waits,
so all the time there is goes to the framework and to what is measured.

What is said is what the environment's `BENCH_TEXT` names, one of `TEXTS`. Texts are invented, in
`texts/`: of six sentences of the answer four stand in the chunks, one contradicts them, one is in
none. But with `recurring` no two requests retrieve the same texts: each chunk begins with a number
of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

AT_ONCE = 50
FRAMEWORKS = ("langchain", "llama_index")
TEXTS = {
    "english": "five chunks",
    "chinese": "five chunks",
    "recurring": "the same five in each request, as where few documents answer most",
    "records": "five chunks, one of them a JSON object",
    "many": "fifty chunks",
    "long": "an answer of 6,000 characters",
}


def _texts(name: str) -> list[str]:
    """Return a question, five chunks and an answer."""
    file = Path(__file__).with_name("texts").joinpath(f"{name}.txt")
    return [" ".join(paragraph.split()) for paragraph in file.read_text("utf-8").split("\n\n")]


def _pieces(text: str, size: int = 100) -> list[str]:
    """Return a text in so many pieces of about one length, as a model streams it."""
    return [text[n * len(text) // size : (n + 1) * len(text) // size] for n in range(size)]


def _lengthened(answer: str, chunks: list[str]) -> str:
    """Return an answer with the chunks' sentences behind it, no two alike."""
    said = [each for chunk in chunks for each in chunk.split(". ")]
    longer = answer + " " + ". ".join([*said, *(f"Moreover, {each}" for each in said)])
    return longer[:6_000]


TEXT = os.environ.get("BENCH_TEXT", "english")
QUERY, *CHUNKS, ANSWER = _texts("chinese" if TEXT == "chinese" else "english")
if TEXT == "long":
    ANSWER = _lengthened(ANSWER, CHUNKS)
PIECES = _pieces(ANSWER)
_RECORD = (
    '{"id": %d, "name": "Halden Tower", "city": "Orsa", "height_m": 148, "opened": "1998-05-12", '
    '"tickets": {"adult": 18, "child": 9, "family": 42}, "lifts": 2, "restaurant": true, '
    '"hours": {"Mon-Fri": "10:00-18:00", "Sat-Sun": "9:00-20:00"}, "closed": "24 December"}'
)
_serial = count()


def retrieved() -> list[str]:
    """Return the chunks of one request."""
    if TEXT == "recurring":
        return CHUNKS
    chunks = [f"{next(_serial)}. {chunk}" for chunk in CHUNKS * (10 if TEXT == "many" else 1)]
    if TEXT == "records":
        chunks[-1] = _RECORD % next(_serial)
    return chunks


Run = Callable[[int], None]
"""Makes so many requests."""


def is_many(mode: str) -> bool:
    """Return whether a mode makes its requests `AT_ONCE`."""
    return "at once" in mode


def modes(framework: str) -> dict[str, Run]:
    """Return the ways of asking one framework; imports that one only."""
    return langchain_modes() if framework == "langchain" else llama_modes()


def each(call: Callable[[str], Any]) -> Run:
    """Return what calls with the query, one after the other."""

    def run(n: int) -> None:
        for _ in range(n):
            call(QUERY)

    return run


def together(call: Callable[[str], Any], runner: asyncio.Runner) -> Run:
    """Return what awaits so many calls at once."""

    async def gathered(n: int) -> None:
        await asyncio.gather(*(call(QUERY) for _ in range(n)))

    return lambda n: runner.run(gathered(n))


def langchain_chain(*, answer: str = ANSWER, model_s: float = 0.0) -> Any:
    """Return an LCEL chain; its model answers after `model_s` seconds where it is awaited."""
    from langchain_core.documents import Document
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.outputs import ChatGenerationChunk
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class FixedRetriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(id=str(n), page_content=c) for n, c in enumerate(retrieved())]

        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return self._get_relevant_documents(query, run_manager=None)

    class Endless:
        def __iter__(self) -> Endless:
            return self

        def __next__(self) -> AIMessage:
            return AIMessage(answer)

    class FixedModel(GenericFakeChatModel):
        async def _agenerate(self, messages: Any, *given: Any, **named: Any) -> Any:
            if model_s:
                await asyncio.sleep(model_s)
            return self._generate(messages)

        def _stream(
            self, messages: Any, stop: Any = None, run_manager: Any = None, **named: Any
        ) -> Iterator[ChatGenerationChunk]:
            for piece in pieces:  # the class inherited from cuts at spaces; Chinese has none
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
                if run_manager is not None:
                    run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk

    pieces = _pieces(answer)
    model = FixedModel(messages=iter(Endless()))
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    retrieve = FixedRetriever() | (lambda docs: "\n".join(d.page_content for d in docs))
    return (
        {"context": retrieve, "question": RunnablePassthrough()}
        | prompt
        | model
        | StrOutputParser()
    )


def langchain_modes() -> dict[str, Run]:
    chain = langchain_chain()
    runner = asyncio.Runner()

    def stream(query: str) -> None:
        for _ in chain.stream(query):
            pass

    return {
        "invoke": each(chain.invoke),
        f"ainvoke ({AT_ONCE} at once)": together(chain.ainvoke, runner),
        "stream of 100 pieces": each(stream),
    }


def llama_engine(*, streaming: bool) -> Any:
    """Return a query engine."""
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.response_synthesizers import get_response_synthesizer
    from llama_index.core.schema import NodeWithScore, TextNode

    class FixedNodes(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return [
                NodeWithScore(node=TextNode(text=c, id_=str(n)), score=0.5)
                for n, c in enumerate(retrieved())
            ]

        async def _aretrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return self._retrieve(query_bundle)

    class FixedModel(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(context_window=100_000, model_name="fixed")

        def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
            return CompletionResponse(text=ANSWER)

        def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
            text = ""
            for piece in PIECES:
                text += piece
                yield CompletionResponse(text=text, delta=piece)

    model = FixedModel(callback_manager=CallbackManager([]))
    # One for all, as `Settings` has it: one that no engine has keeps the ids of all calls for ever.
    manager = model.callback_manager
    synthesizer = get_response_synthesizer(llm=model, streaming=streaming, callback_manager=manager)
    return RetrieverQueryEngine(
        FixedNodes(callback_manager=manager), synthesizer, callback_manager=manager
    )


def llama_modes() -> dict[str, Run]:
    engine, streaming = llama_engine(streaming=False), llama_engine(streaming=True)
    runner = asyncio.Runner()

    def stream(query: str) -> None:
        for _ in streaming.query(query).response_gen:
            pass

    return {
        "query": each(engine.query),
        f"aquery ({AT_ONCE} at once)": together(engine.aquery, runner),
        "streaming query of 100 pieces": each(stream),
    }
