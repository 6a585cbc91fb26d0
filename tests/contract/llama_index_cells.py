"""Applications of LlamaIndex as its documentation writes them, and how to ask one.

The retriever and the models are scripted, so that `data/records/llama_index.jsonl` can say what is
to be captured of each.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
)
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    RetrieverQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.response_synthesizers import CompactAndRefine, TreeSummarize
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.selectors import LLMMultiSelector, LLMSingleSelector
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from tests.contract.kit_capture import THINGS

RAW = {"usage": {"prompt_tokens": 40, "completion_tokens": 12}}
"""Of every call of a model: a record's tokens are a multiple, each call counted once."""
NOTES = (
    "Service of the {}: twice a year.",
    "The {} is blue.",
    "See page 12 for the {}.",
    "The {} stands in hall 3.",
)


def question(thing: str) -> str:
    """Return what the user asks."""
    return f"How often is the {thing} serviced?"


def answer(thing: str) -> str:
    """Return what the model says: it begins, breaks and ends with white space, as models do."""
    return f" The {thing} is serviced\nevery six months. "


def thing_in(text: str) -> str:
    """Return what a text speaks of last."""
    return re.findall("|".join(THINGS), text)[-1]


class Notes(BaseRetriever):
    """Finds notes on a thing; or fails."""

    def __init__(self, *which: int, fails: bool = False) -> None:
        super().__init__()
        self._which = which or (0, 1, 2)
        self._fails = fails

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._fails:
            raise RuntimeError("the index is gone")
        thing = thing_in(query_bundle.query_str)
        nodes = [TextNode(id_=f"{thing}-{n}", text=NOTES[n].format(thing)) for n in self._which]
        return [
            NodeWithScore(node=node, score=0.9 - n / 10)
            for n, node in zip(self._which, nodes, strict=True)
        ]


_TASKS = {
    "Some choices are given below": lambda thing: json.dumps([{"choice": 1, "reason": "knows"}]),
    "output a list of relevant sub-questions": lambda thing: json.dumps(
        {
            "items": [
                {"sub_question": f"What do {name} notes say of the {thing}?", "tool_name": name}
                for name in ("first", "second")
            ]
        }
    ),
    "you should consult to answer the question": lambda thing: (
        "Doc: 3, Relevance: 9\nDoc: 1, Relevance: 4\n"
    ),
    "generates multiple search queries": lambda thing: f"service of the {thing}",
    "standalone question": lambda thing: f"How many services has the {thing}?",
}
"""From words that only LlamaIndex's own prompt for a task has, to the reply to it."""


def reply(prompt: str) -> str:
    """Return what a model says to a prompt."""
    flat = " ".join(prompt.split())
    if "(no more than" in flat:
        return json.dumps([{"choice": n, "reason": "knows"} for n in (1, 2)])
    for words, say in _TASKS.items():
        if words in flat:
            return say(thing_in(prompt))
    return answer(thing_in(prompt))


def pieces(text: str) -> list[tuple[str, str]]:
    """Return the text so far and what is new in it, word by word."""
    words = re.findall(r"\s*\S+\s*$|\s*\S+", text)
    return [("".join(words[: n + 1]), word) for n, word in enumerate(words)]


class Model(CustomLLM):
    """A model that completes prompts; may fail, or wait for ever."""

    fails: bool = False
    waits: Any = None
    """Set when an asynchronous call begins, which then never ends."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted-1", context_window=100_000)

    def _said(self, prompt: str) -> str:
        if self.fails:
            raise RuntimeError("the model is gone")
        return reply(prompt)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=self._said(prompt), raw=RAW)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        def stream() -> Any:
            for text, delta in pieces(self._said(prompt)):
                yield CompletionResponse(text=text, delta=delta, raw=RAW)

        return stream()


class AsyncModel(Model):
    """Has asynchronous calls of its own, as providers' models do."""

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        if self.waits is not None:
            self.waits.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return CompletionResponse(text=self._said(prompt), raw=RAW)

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        async def stream() -> Any:
            for text, delta in pieces(self._said(prompt)):
                await asyncio.sleep(0)
                yield CompletionResponse(text=text, delta=delta, raw=RAW)

        return stream()


class ChatModel(FunctionCallingLLM):
    """A chat model; calls the tool it is given before it answers."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="scripted-chat", is_chat_model=True, is_function_calling_model=True
        )

    def _responses(self, messages: Sequence[ChatMessage], tools: Any) -> list[ChatResponse]:
        prompt = "\n".join(message.content or "" for message in messages)
        calls = bool(tools) and not any(message.role == "tool" for message in messages)
        more = {"calls": thing_in(prompt)} if calls else {}
        return [
            ChatResponse(
                message=ChatMessage(role="assistant", content=text, additional_kwargs=more),
                delta=delta,
                raw=RAW,
            )
            for text, delta in ([("", "")] if calls else pieces(reply(prompt)))
        ]

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], tools: Any = None, **_: Any) -> ChatResponse:
        return self._responses(messages, tools)[-1]

    @llm_chat_callback()
    async def achat(
        self, messages: Sequence[ChatMessage], tools: Any = None, **_: Any
    ) -> ChatResponse:
        return self._responses(messages, tools)[-1]

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], tools: Any = None, **_: Any) -> Any:
        def stream() -> Any:
            yield from self._responses(messages, tools)

        return stream()

    @llm_chat_callback()
    async def astream_chat(
        self, messages: Sequence[ChatMessage], tools: Any = None, **_: Any
    ) -> Any:
        async def stream() -> Any:
            for response in self._responses(messages, tools):
                await asyncio.sleep(0)
                yield response

        return stream()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=reply(prompt), raw=RAW)

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=reply(prompt), raw=RAW)

    def _prepare_chat_with_tools(self, tools: Any, chat_history: Any = None, **_: Any) -> Any:
        return {"messages": chat_history or [], "tools": tools}

    def get_tool_calls_from_response(self, response: Any, **_: Any) -> list[ToolSelection]:
        thing = response.message.additional_kwargs.get("calls")
        given = {"input": f"Find the {thing}."}
        call = ToolSelection(tool_id="1", tool_name="search_notes", tool_kwargs=given)
        return [call] if thing else []

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    stream_complete = astream_complete = _refused


class WorstOfTwoFirst(BaseNodePostprocessor):
    """Keeps two nodes, the worse one first."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes[:2][::-1]


def memory(*history: ChatMessage) -> ChatMemoryBuffer:
    """Return a memory; LlamaIndex's default opens a database that it never closes."""
    return ChatMemoryBuffer.from_defaults(
        chat_history=[*history], token_limit=100_000, tokenizer_fn=str.split
    )


# --- applications --------------------------------------------------------------------------------


@dataclass(frozen=True)
class App:
    """How an application is asked; each gives what its user saw. None: it cannot be asked so."""

    ask: Callable[[str], str] | None
    aask: Callable[[str], Any]


async def read(response: Any) -> str:
    """Return the text of any answer."""
    if hasattr(response, "async_response_gen"):
        return "".join([piece async for piece in response.async_response_gen()])
    return "".join(response.response_gen) if hasattr(response, "response_gen") else str(response)


def asked(engine: Any) -> App:
    """Return a query engine as an application."""

    def ask(query: str) -> str:
        response = engine.query(query)
        return "".join(getattr(response, "response_gen", None) or [str(response)])

    async def aask(query: str) -> str:
        return await read(await engine.aquery(query))

    return App(ask, aask)


def chatting(make: Callable[[], Any], streaming: bool) -> App:
    """Return a chat engine as an application: a new one for each conversation."""

    def ask(query: str) -> str:
        if streaming:
            return "".join(make().stream_chat(query).response_gen)
        return str(make().chat(query))

    async def aask(query: str) -> str:
        if streaming:
            return await read(await make().astream_chat(query))
        return str(await make().achat(query))

    return App(ask, aask)


def working(make: Callable[[], Any], streaming: bool) -> App:
    """Return an agent as an application."""

    async def aask(query: str) -> str:
        run = make().run(user_msg=query, memory=memory())
        if not streaming:
            return str((await run).response.content)
        said = [e.delta async for e in run.stream_events() if isinstance(e, AgentStream)]
        await run
        return "".join(said)

    return App(None, aask)


def engine(*which: int, streaming: bool = False, **more: Any) -> RetrieverQueryEngine:
    """Return the engine of LlamaIndex's first page."""
    retriever = more.pop("retriever", None) or Notes(*which)
    model = more.pop("llm", None) or AsyncModel()
    return RetrieverQueryEngine.from_args(retriever, llm=model, streaming=streaming, **more)


def engine_tool(name: str = "search_notes", *which: int) -> QueryEngineTool:
    """Return an engine as a tool."""
    return QueryEngineTool.from_defaults(engine(*which), name=name, description="Knows things.")


def _router(streaming: bool) -> App:
    tools = [
        QueryEngineTool.from_defaults(
            engine(*which, streaming=streaming), name=name, description="Some."
        )
        for name, which in (("first", (0, 1, 2)), ("second", (3,)))
    ]
    selector = LLMSingleSelector.from_defaults(llm=AsyncModel())
    return asked(RouterQueryEngine(selector, tools, llm=AsyncModel()))


def _router_of_several(streaming: bool) -> App:
    selector = LLMMultiSelector.from_defaults(llm=AsyncModel())
    summarizer = TreeSummarize(llm=AsyncModel(), streaming=streaming)
    tools = [engine_tool("first"), engine_tool("second", 3)]
    return asked(RouterQueryEngine(selector, tools, llm=AsyncModel(), summarizer=summarizer))


def _sub_questions(streaming: bool) -> App:
    return asked(
        SubQuestionQueryEngine.from_defaults(
            [engine_tool("first"), engine_tool("second", 3)],
            llm=AsyncModel(),
            question_gen=LLMQuestionGenerator.from_defaults(llm=AsyncModel()),
            response_synthesizer=CompactAndRefine(llm=AsyncModel(), streaming=streaming),
            verbose=False,
            use_async=False,
        )
    )


def _fusion(streaming: bool) -> App:
    fused = QueryFusionRetriever(
        [Notes()],
        llm=AsyncModel(),
        num_queries=2,
        similarity_top_k=2,
        mode=FUSION_MODES.RECIPROCAL_RANK,
        use_async=False,
    )
    return asked(engine(retriever=fused, streaming=streaming))


def _citations(streaming: bool) -> App:
    synthesizer = CompactAndRefine(llm=AsyncModel(), streaming=streaming)
    return asked(CitationQueryEngine(Notes(), llm=AsyncModel(), response_synthesizer=synthesizer))


def _chat(kind: Any, streaming: bool) -> App:
    def make() -> Any:
        earlier = [ChatMessage(role="user", content="Hello."), ChatMessage(role="assistant")]
        parts: dict[str, Any] = {"memory": memory(*earlier)}
        if kind is CondenseQuestionChatEngine:
            parts |= {"query_engine": engine(streaming=streaming), "llm": AsyncModel()}
        else:
            parts |= {"retriever": Notes(), "llm": ChatModel()}
        return kind.from_defaults(**parts)

    return chatting(make, streaming)


def clerk(tool: Any) -> FunctionAgent:
    """Return an agent with this tool."""
    return FunctionAgent(
        tools=[tool], llm=ChatModel(), name="clerk", description="Answers.", streaming=True
    )


def _text_tool() -> FunctionTool:
    def search_notes(input: str) -> str:  # noqa: A002 - what the model calls it
        return NOTES[0].format(thing_in(input))

    return FunctionTool.from_defaults(search_notes, description="Searches.")


class Retrieved(Event):
    """What the first step found."""

    nodes: Any


class Answering(Workflow):
    """Retrieval, a cut, and synthesis as an application's own steps."""

    def __init__(self, streaming: bool) -> None:
        super().__init__(timeout=10)
        self._streaming = streaming

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> Retrieved:
        await ctx.store.set("query", ev.query)
        return Retrieved(nodes=await Notes().aretrieve(ev.query))

    @step
    async def synthesize(self, ctx: Context, ev: Retrieved) -> StopEvent:
        synthesizer = CompactAndRefine(llm=AsyncModel(), streaming=self._streaming)
        response = await synthesizer.asynthesize(await ctx.store.get("query"), ev.nodes[:2])
        return StopEvent(result=response if self._streaming else str(response))


def _workflow(streaming: bool) -> App:
    async def aask(query: str) -> str:
        return await read(await Answering(streaming).run(query=query))

    return App(None, aask)


class OwnEngine(CustomQueryEngine):
    """Asks its retriever and its model itself; names no sources."""

    streaming: bool

    def custom_query(self, query_str: str) -> Any:
        asked_with = _prompt(Notes().retrieve(query_str), query_str)
        if not self.streaming:
            return str(AsyncModel().complete(asked_with))
        stream = AsyncModel().stream_complete(asked_with)
        return StreamingResponse(response_gen=(r.delta for r in stream))

    async def acustom_query(self, query_str: str) -> Any:
        asked_with = _prompt(await Notes().aretrieve(query_str), query_str)
        if not self.streaming:
            return str(await AsyncModel().acomplete(asked_with))
        stream = await AsyncModel().astream_complete(asked_with)
        return AsyncStreamingResponse(response_gen=(r.delta async for r in stream))


def _prompt(nodes: Sequence[NodeWithScore], query: str) -> str:
    return "\n".join([*(node.text for node in nodes[:2]), query])


APPS: dict[str, Callable[[bool], App]] = {
    "RetrieverQueryEngine": lambda streaming: asked(engine(streaming=streaming)),
    "RetrieverQueryEngine over a model without asynchronous calls": lambda streaming: asked(
        engine(llm=Model(), streaming=streaming)
    ),
    "RetrieverQueryEngine over a chat model": lambda streaming: asked(
        engine(llm=ChatModel(), streaming=streaming)
    ),
    "RouterQueryEngine": _router,
    "RouterQueryEngine, several selected": _router_of_several,
    "SubQuestionQueryEngine": _sub_questions,
    "QueryFusionRetriever": _fusion,
    "node postprocessor": lambda streaming: asked(
        engine(streaming=streaming, node_postprocessors=[WorstOfTwoFirst()])
    ),
    "LLMRerank": lambda streaming: asked(
        engine(streaming=streaming, node_postprocessors=[LLMRerank(llm=AsyncModel(), top_n=2)])
    ),
    "CitationQueryEngine": _citations,
    "CondenseQuestionChatEngine": lambda streaming: _chat(CondenseQuestionChatEngine, streaming),
    "ContextChatEngine": lambda streaming: _chat(ContextChatEngine, streaming),
    "CondensePlusContextChatEngine": lambda s: _chat(CondensePlusContextChatEngine, s),
    "FunctionAgent with QueryEngineTool": lambda s: working(lambda: clerk(engine_tool()), s),
    "FunctionAgent with a tool that returns text": lambda s: working(
        lambda: clerk(_text_tool()), s
    ),
    "AgentWorkflow with QueryEngineTool": lambda s: working(
        lambda: AgentWorkflow(agents=[clerk(engine_tool())], root_agent="clerk"), s
    ),
    "custom Workflow": _workflow,
    "CustomQueryEngine": lambda streaming: asked(OwnEngine(streaming=streaming)),
}


# --- modes ---------------------------------------------------------------------------------------


def ask_in(mode: str, make: Callable[[bool], App]) -> dict[str, str] | None:
    """Ask in a mode; return what the user saw of each thing. None: it cannot be asked so."""
    app = make(mode.startswith("streaming"))
    first = THINGS[0]
    if mode == "gather":

        async def gathered() -> list[str]:
            return [*await asyncio.gather(*(app.aask(question(thing)) for thing in THINGS))]

        return dict(zip(THINGS, asyncio.run(gathered()), strict=True))
    if mode == "threads":
        ask = app.ask or (lambda query: asyncio.run(app.aask(query)))
        with ThreadPoolExecutor(3) as pool:
            return dict(zip(THINGS, pool.map(ask, map(question, THINGS)), strict=True))
    if mode.endswith("async"):
        return {first: asyncio.run(app.aask(question(first)))}
    return None if app.ask is None else {first: app.ask(question(first))}


MODES = ("sync", "async", "streaming sync", "streaming async", "gather", "threads")
