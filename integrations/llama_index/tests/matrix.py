"""LlamaIndex's shapes of an application, and the ways to ask one: rows and columns of the coverage.

Every shape is a real application around a scripted model and retriever, written as LlamaIndex's own
documentation writes it. `test_matrix.py` runs each in every mode, `test_endings.py` breaks it off.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine import (
    ContextChatEngine,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    RetrieverQueryEngine,
)
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from ragmonitor.integration import InteractionRecorder

# --- what is asked, found and said: every text names its load, so that nothing can be mixed up ----


def question(load: str) -> str:
    return f"How heavy is load {load}?"


def answer(load: str) -> str:
    return "".join(pieces(load))


def pieces(load: str) -> tuple[str, ...]:
    """Return an answer that begins, breaks and ends with white space, as models' do."""
    return f" Load {load}", " weighs\n", "40 kg. "


class Told(NamedTuple):
    """What is expected of a chunk."""

    text: str
    score: float | None
    id: str | None
    """None: the framework makes a new one."""


def found(load: str, *which: int) -> list[Told]:
    """Return what the retriever gives: three notes, or some of them."""
    return [
        Told(f"Load {load}, note {n}: it weighs {40 + n} kg.", 0.9 - n % 10 / 10, f"{load}-{n}")
        for n in (which or (0, 1, 2))
    ]


# --- the parts -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What a model was asked, and what it said: what the generations must say too."""

    task: str
    prompt: tuple[tuple[str, str], ...]
    """Role and text of each message."""
    output: str

    @property
    def tokens(self) -> dict[str, int]:
        words = sum(len(text.split()) for _, text in self.prompt)
        return {"prompt_tokens": words, "completion_tokens": len(self.output.split())}

    @property
    def load(self) -> str:
        return _load_in(self.prompt[-1][1] + "".join(text for _, text in self.prompt))


def _load_in(text: str) -> str:
    return re.findall(r"[Ll]oad (\w+)", text)[-1]


_TASKS = {
    "select": "Some choices are given below",
    "divide": "output a list of relevant sub-questions",
    "rerank": "you should consult to answer the question",
    "rewrite": "generates multiple search queries",
    "condense": "standalone question",
}
"""From a task to words that only LlamaIndex's own prompt for it has."""

"""Tasks within a retriever: no part of what led to the answer."""


def _task(prompt: str) -> str:
    lowered = " ".join(prompt.split())
    for task, words in _TASKS.items():
        if words.lower() in lowered.lower():
            return task
    return "answer"


def _said(task: str, load: str, prompt: str) -> tuple[str, ...]:
    if task == "select":
        several = "(no more than" in prompt
        choices = [{"choice": n, "reason": "It knows."} for n in ((1, 2) if several else (1,))]
        return (json.dumps(choices),)
    if task == "divide":
        items = [
            {"sub_question": f"What do the {name} notes say of load {load}?", "tool_name": name}
            for name in ("first", "second")
        ]
        return (json.dumps({"items": items}),)
    if task == "rerank":
        return ("Doc: 3, Relevance: 9\n", "Doc: 1, Relevance: 4\n")
    if task == "rewrite":
        return (f"What is the weight of load {load}?",)
    if task == "condense":
        return (f"How heavy is load {load}, in kg?",)
    return pieces(load)


class CompletionModel(CustomLLM):
    """Says what its task demands; its own asynchronous calls are LlamaIndex's, over these."""

    log: Any
    fails_after: int | None = None
    """Raise `failure` after so many pieces of an answer."""
    failure: Any = None
    hangs: Any = None
    """An event that an asynchronous call waits for, after the first piece."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted-1", context_window=100_000)

    def _reply(self, prompt: str) -> tuple[Asked, tuple[str, ...]]:
        task, load = _task(prompt), _load_in(prompt)
        said = _said(task, load, prompt)
        asked = Asked(task, (("user", prompt),), "".join(said))
        self.log.append(asked)
        return asked, said

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        asked = self._reply(prompt)[0]
        if asked.task == "answer" and self.fails_after is not None:
            raise self.failure
        return CompletionResponse(text=asked.output, raw={"usage": asked.tokens})

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponseGen:
        asked, said = self._reply(prompt)

        def stream() -> CompletionResponseGen:
            text = ""
            for n, piece in enumerate(said):
                if n == self.fails_after and asked.task == "answer":
                    raise self.failure
                text += piece
                yield CompletionResponse(text=text, delta=piece, raw={"usage": asked.tokens})

        return stream()


class AsyncCompletionModel(CompletionModel):
    """Has asynchronous calls of its own, as providers' models do."""

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        await asyncio.sleep(0)
        asked = self._reply(prompt)[0]
        if asked.task == "answer" and self.fails_after is not None:
            raise self.failure
        if self.hangs is not None and asked.task == "answer":
            await self.hangs.wait()
        return CompletionResponse(text=asked.output, raw={"usage": asked.tokens})

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **_: Any
    ) -> CompletionResponseAsyncGen:
        asked, said = self._reply(prompt)

        async def stream() -> CompletionResponseAsyncGen:
            text = ""
            for n, piece in enumerate(said):
                if n == self.fails_after and asked.task == "answer":
                    raise self.failure
                if n == 1 and self.hangs is not None:
                    await self.hangs.wait()
                text += piece
                await asyncio.sleep(0)
                yield CompletionResponse(text=text, delta=piece, raw={"usage": asked.tokens})

        return stream()


class ChatModel(FunctionCallingLLM):
    """A chat model; calls the tool it is given before it answers."""

    log: Any
    fails_after: int | None = None
    failure: Any = None

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="scripted-chat", is_chat_model=True, is_function_calling_model=True
        )

    def _reply(self, messages: Sequence[ChatMessage], tools: Any) -> tuple[Asked, tuple[str, ...]]:
        prompt = tuple((str(m.role.value), m.content or "") for m in messages)
        text = "\n".join(text for _, text in prompt)
        task = _task(text)
        if tools and not any(m.role == "tool" for m in messages):
            task = "call"
        said = ("",) if task == "call" else _said(task, _load_in(text), text)
        asked = Asked(task, prompt, "".join(said))
        self.log.append(asked)
        if self.fails_after == 0 and task == "answer":
            raise self.failure
        return asked, said

    def _response(self, asked: Asked, text: str, delta: str | None = None) -> ChatResponse:
        called = {"calls": asked.load} if asked.task == "call" else {}
        return ChatResponse(
            message=ChatMessage(role="assistant", content=text, additional_kwargs=called),
            delta=delta,
            raw={"usage": asked.tokens},
        )

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], tools: Any = None, **_: Any) -> ChatResponse:
        asked = self._reply(messages, tools)[0]
        return self._response(asked, asked.output)

    @llm_chat_callback()
    async def achat(
        self, messages: Sequence[ChatMessage], tools: Any = None, **_: Any
    ) -> ChatResponse:
        asked = self._reply(messages, tools)[0]
        return self._response(asked, asked.output)

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], tools: Any = None, **_: Any) -> Any:
        asked, said = self._reply(messages, tools)

        def stream() -> Any:
            text = ""
            for n, piece in enumerate(said):
                if n == self.fails_after and asked.task == "answer":
                    raise self.failure
                text += piece
                yield self._response(asked, text, piece)

        return stream()

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], tools: Any = None, **_: Any
    ) -> Any:
        asked, said = self._reply(messages, tools)

        async def stream() -> Any:
            text = ""
            for n, piece in enumerate(said):
                if n == self.fails_after and asked.task == "answer":
                    raise self.failure
                text += piece
                await asyncio.sleep(0)
                yield self._response(asked, text, piece)

        return stream()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        asked = self._reply([ChatMessage(role="user", content=prompt)], None)[0]
        return CompletionResponse(text=asked.output, raw={"usage": asked.tokens})

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        asked = self._reply([ChatMessage(role="user", content=prompt)], None)[0]
        return CompletionResponse(text=asked.output, raw={"usage": asked.tokens})

    def _prepare_chat_with_tools(self, tools: Any, chat_history: Any = None, **_: Any) -> Any:
        return {"messages": chat_history or [], "tools": tools}

    def get_tool_calls_from_response(self, response: Any, **_: Any) -> list[ToolSelection]:
        load = response.message.additional_kwargs.get("calls")
        if not load:
            return []
        given = {"input": f"Find load {load}."}
        return [ToolSelection(tool_id="1", tool_name="search_notes", tool_kwargs=given)]

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    stream_complete = astream_complete = _refused


class Notes(BaseRetriever):
    """Finds the load's notes."""

    def __init__(self, *which: int, failure: BaseException | None = None) -> None:
        super().__init__()
        self._which = which
        self.failure = failure

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self.failure is not None:
            raise self.failure
        return [
            NodeWithScore(
                node=TextNode(id_=told.id, text=told.text, metadata={"page": n}), score=told.score
            )
            for n, told in enumerate(found(_load_in(query_bundle.query_str), *self._which))
        ]


def memory(history: Sequence[ChatMessage] = ()) -> ChatMemoryBuffer:
    # LlamaIndex's default opens a database that it never closes.
    return ChatMemoryBuffer.from_defaults(
        chat_history=[*history], token_limit=100_000, tokenizer_fn=str.split
    )


_EARLIER = (
    ChatMessage(role="user", content="Hello."),
    ChatMessage(role="assistant", content="Good day."),
)

# --- the shapes ----------------------------------------------------------------------------------


class Interacting(Protocol):
    """A monitor, as far as applications use it themselves."""

    def interaction(self, *, query: str, name: str = "") -> InteractionRecorder: ...


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What an application is built of."""

    monitor: Interacting
    streaming: bool = False
    log: list[Asked] = field(default_factory=list)
    failing: Mapping[str, Any] = field(default_factory=dict)
    """For the models: `fails_after` and `failure`, or `hangs`."""
    retriever: BaseRetriever = field(default_factory=Notes)
    more: Mapping[str, Any] = field(default_factory=dict)
    """For the engine: postprocessors."""

    @property
    def model(self) -> CompletionModel:
        return CompletionModel(log=self.log, **self.failing)

    @property
    def async_model(self) -> AsyncCompletionModel:
        return AsyncCompletionModel(log=self.log, **self.failing)

    @property
    def chat_model(self) -> ChatModel:
        return ChatModel(log=self.log, **self.failing)

    def engine(
        self, retriever: BaseRetriever | None = None, *, streaming: bool | None = None, **more: Any
    ) -> RetrieverQueryEngine:
        return RetrieverQueryEngine.from_args(
            retriever or self.retriever,
            llm=self.async_model,
            streaming=self.streaming if streaming is None else streaming,
            **self.more,
            **more,
        )

    def tool(self, name: str = "search_notes", *which: int) -> QueryEngineTool:
        engine = self.engine(Notes(*which) if which else None, streaming=False)
        return QueryEngineTool.from_defaults(engine, name=name, description="Knows the loads.")


class Application(NamedTuple):
    """How it is asked: each gives what its user saw, streamed or not."""

    sync: Callable[[str], str]
    asynchronous: Callable[[str], Awaitable[str]]


def _of_query_engine(engine: Any) -> Application:
    def ask(query: str) -> str:
        response = engine.query(query)
        if isinstance(response, StreamingResponse):
            return "".join(response.response_gen)
        return str(response)

    async def aask(query: str) -> str:
        response = await engine.aquery(query)
        return await read(response)

    return Application(ask, aask)


async def read(response: Any) -> str:
    """Return the text of any answer of a query engine."""
    if isinstance(response, AsyncStreamingResponse):
        return "".join([piece async for piece in response.async_response_gen()])
    if isinstance(response, StreamingResponse):
        return "".join(response.response_gen)
    return str(response)


def _of_chat_engine(build: Callable[[], Any], parts: Parts) -> Application:
    # One engine for each conversation.
    def ask(query: str) -> str:
        if parts.streaming:
            return "".join(build().stream_chat(query).response_gen)
        return str(build().chat(query))

    async def aask(query: str) -> str:
        if parts.streaming:
            response = await build().astream_chat(query)
            return "".join([piece async for piece in response.async_response_gen()])
        return str(await build().achat(query))

    return Application(ask, aask)


def _of_workflow(build: Callable[[], Any], parts: Parts) -> Application:
    def ask(query: str) -> str:
        return str(build().run(user_msg=query, memory=memory()))

    async def aask(query: str) -> str:
        run = build().run(user_msg=query, memory=memory())
        if not parts.streaming:
            return str((await run).response.content)
        said = [e.delta async for e in run.stream_events() if isinstance(e, AgentStream)]
        await run
        return "".join(said)

    return Application(ask, aask)


def _retriever_query_engine(parts: Parts) -> Application:
    return _of_query_engine(parts.engine())


def _citations(parts: Parts) -> Application:
    synthesizer = CompactAndRefine(llm=parts.async_model, streaming=parts.streaming)
    return _of_query_engine(
        CitationQueryEngine(
            parts.retriever, llm=parts.async_model, response_synthesizer=synthesizer, **parts.more
        )
    )


def _context_chat(parts: Parts) -> Application:
    return _of_chat_engine(
        lambda: ContextChatEngine.from_defaults(
            retriever=parts.retriever, llm=parts.chat_model, memory=memory(_EARLIER), **parts.more
        ),
        parts,
    )


def clerk(parts: Parts, tool: Any) -> FunctionAgent:
    """Return an agent with this tool."""
    return FunctionAgent(
        tools=[tool], llm=parts.chat_model, name="clerk", description="Answers.", streaming=True
    )


def _agent(parts: Parts) -> Application:
    return _of_workflow(lambda: clerk(parts, parts.tool()), parts)


def _agent_workflow(parts: Parts) -> Application:
    return _of_workflow(
        lambda: AgentWorkflow(agents=[clerk(parts, parts.tool())], root_agent="clerk"), parts
    )


def text_tool(failure: BaseException | None = None) -> FunctionTool:
    """Return a tool that finds and gives text, without any of LlamaIndex's retrievers."""

    def search_notes(input: str) -> str:  # noqa: A002 - what the model calls it
        if failure is not None:
            raise failure
        return "\n".join(told.text for told in found(_load_in(input)))

    return FunctionTool.from_defaults(search_notes, description="Searches.")


class Retrieved(Event):
    nodes: Any


class Answering(Workflow):
    """Retrieval, a cut, and synthesis as an application's own steps."""

    def __init__(
        self, parts: Parts, timeout: float | None = 10, failure: Exception | None = None
    ) -> None:
        super().__init__(timeout=timeout)
        self._parts = parts
        self._failure = failure

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> Retrieved:
        await ctx.store.set("query", ev.query)
        return Retrieved(nodes=await self._parts.retriever.aretrieve(ev.query))

    @step
    async def synthesize(self, ctx: Context, ev: Retrieved) -> StopEvent:
        if self._failure is not None:
            raise self._failure
        synthesizer = CompactAndRefine(llm=self._parts.async_model, streaming=self._parts.streaming)
        response = await synthesizer.asynthesize(await ctx.store.get("query"), ev.nodes[:2])
        return StopEvent(result=response if self._parts.streaming else str(response))


class OwnEngine(CustomQueryEngine):
    """Asks its retriever and its model itself; names no sources."""

    parts: Any

    def custom_query(self, query_str: str) -> Any:
        prompt = _prompt(self.parts.retriever.retrieve(query_str), query_str)
        if not self.parts.streaming:
            return str(self.parts.async_model.complete(prompt))
        stream = self.parts.async_model.stream_complete(prompt)
        return StreamingResponse(response_gen=(r.delta for r in stream))

    async def acustom_query(self, query_str: str) -> Any:
        prompt = _prompt(await self.parts.retriever.aretrieve(query_str), query_str)
        if not self.parts.streaming:
            return str(await self.parts.async_model.acomplete(prompt))
        stream = await self.parts.async_model.astream_complete(prompt)
        return AsyncStreamingResponse(response_gen=(r.delta async for r in stream))


def _prompt(nodes: Sequence[NodeWithScore], query: str) -> str:
    return "\n".join([*(node.text for node in nodes[:2]), query])


def _custom_engine(parts: Parts) -> Application:
    return _of_query_engine(OwnEngine(parts=parts))


"""`gather of 50` and `thread pool` ask many at once, streamed and not in turn."""

"""From (shape, mode) to the framework's own reason."""


SHAPES: Mapping[str, Callable[[Parts], Application]] = {
    "RetrieverQueryEngine": _retriever_query_engine,
    "CitationQueryEngine": _citations,
    "ContextChatEngine": _context_chat,
    "FunctionAgent with QueryEngineTool": _agent,
    "AgentWorkflow with QueryEngineTool": _agent_workflow,
    "CustomQueryEngine": _custom_engine,
}
"""Applications in the framework's own words, by what they are called in it."""
