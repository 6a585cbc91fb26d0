"""What is recorded of code without a framework, and of frameworks inside a block of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import QueryBundle

import ragmonitor_langchain
import ragmonitor_llama_index
from ragmonitor import Chunk, Interaction, Monitor, current_interaction
from tests.contract import langchain_cells as langchain
from tests.contract import llama_index_cells as llama_index
from tests.contract.kit_capture import THINGS, about, cases, check, result_of, watching

CASES = {case["cell"]: case for case in cases("records/plain.jsonl")}
QUESTION = "How often is the pump serviced?"
TEXTS = ["Service of the pump: twice a year.", "The pump is blue."]
PIECES = ["The pump is serviced ", "every six months."]
ANSWER = "".join(PIECES)
CELLS: dict[str, Callable[[Monitor], Any]] = {}


def cell(name: str) -> Callable[[Callable[[Monitor], Any]], Callable[[Monitor], Any]]:
    """Name an application; `data/records/plain.jsonl` says what is recorded of it."""

    def named(app: Callable[[Monitor], Any]) -> Callable[[Monitor], Any]:
        CELLS[name] = app
        return app

    return named


# --- blocks --------------------------------------------------------------------------------------


@cell("block")
def block(monitor: Monitor) -> None:
    with monitor.interaction(query=QUESTION, session_id="s-1", user_id="u-1", tags=["beta"]) as i:
        i.retrieved([Chunk(text=TEXTS[0], id="pump-1", score=0.9), TEXTS[1]])
        i.answered(ANSWER)


@cell("asynchronous block")
async def async_block(monitor: Monitor) -> None:
    async with monitor.interaction(query=QUESTION) as i:
        i.retrieved(TEXTS)
        i.answered(ANSWER)


@cell("block that fails")
def failing_block(monitor: Monitor) -> None:
    def ask() -> None:
        with monitor.interaction(query=QUESTION) as i:
            i.retrieved(TEXTS)
            raise RuntimeError("the model is gone")

    with pytest.raises(RuntimeError, match="the model is gone"):
        ask()


@cell("block with a stream")
def streaming_block(monitor: Monitor) -> None:
    with monitor.interaction(query=QUESTION) as i:
        i.retrieved(TEXTS)
        pieces = i.streamed(iter(PIECES))
    assert [*pieces] == PIECES  # read after the block, as a web framework does


@cell("block with an asynchronous stream")
async def async_streaming_block(monitor: Monitor) -> None:
    with monitor.interaction(query=QUESTION) as i:
        i.retrieved(TEXTS)
        pieces = i.astreamed(_apieces())
    assert [piece async for piece in pieces] == PIECES


@cell("block with a stream that is closed early")
def closed_block(monitor: Monitor) -> None:
    with monitor.interaction(query=QUESTION) as i:
        i.retrieved(TEXTS)
        pieces: Any = i.streamed(piece for piece in PIECES)
        assert next(pieces) == PIECES[0]
        pieces.close()


@cell("block without a retrieval")
def empty_block(monitor: Monitor) -> None:
    with monitor.interaction(query=QUESTION) as i:
        i.retrieved([])
        i.answered(ANSWER)


@cell("what cannot be read")
def unreadable(monitor: Monitor) -> None:
    with monitor.interaction(query=QUESTION) as i:
        i.retrieved([TEXTS[0], object()])  # type: ignore[list-item]
        i.answered(ANSWER)


@cell("record of one's own")
def observed(monitor: Monitor) -> None:
    now = time.time_ns()
    chunks = tuple(Chunk(text=text) for text in TEXTS)
    record = {"query": QUESTION, "chunks": chunks, "answer": ANSWER, "framework": "python"}
    monitor.observe(Interaction(id="own", started_ns=now, ended_ns=now, **record))


async def _apieces() -> AsyncIterator[str]:
    for piece in PIECES:
        await asyncio.sleep(0)
        yield piece


# --- decorators ----------------------------------------------------------------------------------


@cell("function")
def function(monitor: Monitor) -> None:
    @monitor.retrieves
    def search(query: str) -> list[str]:
        return TEXTS

    @monitor.answers
    def ask(question: str) -> str:
        assert search(question) == TEXTS
        return ANSWER

    assert ask(QUESTION) == ANSWER


@cell("coroutine function")
async def coroutine(monitor: Monitor) -> None:
    @monitor.retrieves
    async def search(query: str) -> list[str]:
        return TEXTS

    @monitor.answers
    async def ask(question: str) -> str:
        await search(question)
        return ANSWER

    assert await ask(QUESTION) == ANSWER


@cell("generator")
def generator(monitor: Monitor) -> None:
    @monitor.answers
    def ask(question: str) -> Iterator[str]:
        monitor.retrieves(lambda: TEXTS)()
        yield from PIECES

    assert [*ask(QUESTION)] == PIECES


@cell("asynchronous generator")
async def async_generator(monitor: Monitor) -> None:
    @monitor.answers
    async def ask(question: str) -> AsyncIterator[str]:
        monitor.retrieves(lambda: TEXTS)()
        async for piece in _apieces():
            yield piece

    assert [piece async for piece in ask(QUESTION)] == PIECES


@cell("generator that is closed early")
def closed_generator(monitor: Monitor) -> None:
    @monitor.answers
    def ask(question: str) -> Iterator[str]:
        monitor.retrieves(lambda: TEXTS)()
        yield from PIECES

    pieces: Any = ask(QUESTION)
    assert next(pieces) == PIECES[0]
    pieces.close()


@cell("function that fails")
def failing_function(monitor: Monitor) -> None:
    @monitor.answers
    def ask(question: str) -> str:
        monitor.retrieves(lambda: TEXTS)()
        raise RuntimeError("the model is gone")

    with pytest.raises(RuntimeError, match="the model is gone"):
        ask(QUESTION)


@cell("method with names of its own")
def method(monitor: Monitor) -> None:
    class Bot:
        @monitor.retrieves(chunks=lambda rows: [row["body"] for row in rows])
        def search(self, query: str) -> list[dict[str, str]]:
            return [{"body": text} for text in TEXTS]

        @monitor.answers(query="wish", answer=lambda reply: reply["said"], tags=("beta",))
        def ask(self, user: str, wish: str) -> dict[str, str]:
            self.search(wish)
            return {"said": ANSWER}

    assert Bot().ask("somebody", wish=QUESTION) == {"said": ANSWER}


@cell("function around another that answers")
def nested(monitor: Monitor) -> None:
    @monitor.answers
    def inner(question: str) -> str:
        monitor.retrieves(lambda: TEXTS)()
        return ANSWER

    @monitor.answers
    def outer(question: str) -> str:
        return inner(question)

    outer(QUESTION)


@cell("current interaction")
def current(monitor: Monitor) -> None:
    def deep() -> str:
        i = current_interaction()
        assert i is not None
        i.retrieved(TEXTS)
        return ANSWER

    @monitor.answers
    def ask(question: str) -> str:
        return deep()

    ask(QUESTION)
    assert current_interaction() is None


# --- frameworks within a block -------------------------------------------------------------------


@cell("LangChain's retriever and model in a block")
def langchain_by_hand(monitor: Monitor) -> None:
    with monitor.interaction(query=QUESTION):
        found = langchain.Notes().invoke(QUESTION)
        langchain.Model().invoke(f"{langchain.joined(found)}\n{QUESTION}")


@cell("LangChain's stream in a block")
def langchain_stream_by_hand(monitor: Monitor) -> None:
    with monitor.interaction(query=QUESTION):
        found = langchain.Notes().invoke(QUESTION)
        stream = langchain.Model().stream(f"{langchain.joined(found)}\n{QUESTION}")
        assert langchain.whole([*stream]) == ANSWER


@cell("LlamaIndex's retriever and model in a block")
def llama_index_by_hand(monitor: Monitor) -> None:
    with monitor.interaction(query=QUESTION):
        nodes = llama_index.Notes().retrieve(QUESTION)[:2]
        prompt = "\n".join([*(node.text for node in nodes), QUESTION])
        llama_index.Model().complete(prompt)


@cell("LlamaIndex's reranker and synthesizer in a block")
async def llama_index_synthesized(monitor: Monitor) -> None:
    bundle = QueryBundle(QUESTION)
    model = llama_index.AsyncModel()
    async with monitor.interaction(query=QUESTION):
        nodes = await llama_index.Notes().aretrieve(bundle)
        nodes = await LLMRerank(llm=model, top_n=2).apostprocess_nodes(nodes, bundle)
        await CompactAndRefine(llm=model).asynthesize(QUESTION, nodes)


def test_every_cell_has_its_record() -> None:
    """The data and the applications name the same cells."""
    assert CASES.keys() == CELLS.keys()


@pytest.mark.parametrize("name", CELLS)
def test_plain_code_is_recorded(name: str) -> None:
    """Blocks, decorators, and unrelated calls of a framework within a block."""
    with watching() as watched:
        ragmonitor_langchain.instrument(watched.monitor)
        ragmonitor_llama_index.instrument(watched.monitor)
        try:
            result_of(CELLS[name](watched.monitor))
            check(watched.told(), CASES[name], framework="python")
        finally:
            ragmonitor_langchain.uninstrument()
            ragmonitor_llama_index.uninstrument()


def test_blocks_at_the_same_time_are_kept_apart() -> None:
    """In tasks of one event loop, each keeps what is its own."""
    case = CASES["asynchronous block"]

    async def one(monitor: Monitor, thing: str) -> None:
        of = about(case, thing)
        async with monitor.interaction(query=of["question"]) as i:
            await asyncio.sleep(0)
            i.retrieved([text for text, *_ in of["chunks"]])
            await asyncio.sleep(0)
            i.answered(of["answer"])

    async def all_of(monitor: Monitor) -> None:
        await asyncio.gather(*(one(monitor, thing) for thing in THINGS))

    with watching() as watched:
        asyncio.run(all_of(watched.monitor))
        check(watched.told(), *(about(case, thing) for thing in THINGS))
