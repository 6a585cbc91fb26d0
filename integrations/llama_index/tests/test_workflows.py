"""Agents and workflows: the outermost run is the interaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, step
from integrations.llama_index.tests.scripted import ANSWER, FakeMonitor, ListRetriever, ScriptedLLM, query_engine, some_nodes
from workflows.errors import WorkflowCancelledByUser

from ragmonitor import Usage

# LlamaIndex's agents read deprecated attributes of their own.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
)


class ToolUser(FunctionCallingLLM):
    """Calls its tool in every first turn and answers in every second."""

    turn: int = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="tool-user", is_chat_model=True, is_function_calling_model=True
        )

    @llm_chat_callback()
    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        self.turn += 1
        calls = self.turn % 2

        async def said() -> Any:
            text = "" if calls else ANSWER
            yield ChatResponse(
                message=ChatMessage(
                    role="assistant", content=text, additional_kwargs={"calls": calls}
                ),
                delta=text,
                raw={"usage": {"prompt_tokens": 2, "completion_tokens": 1}},
            )

        return said()

    def _prepare_chat_with_tools(self, tools: Any, chat_history: Any = None, **kwargs: Any) -> Any:
        return {"messages": chat_history or []}

    def get_tool_calls_from_response(self, response: Any, **kwargs: Any) -> list[ToolSelection]:
        if not response.message.additional_kwargs.get("calls"):
            return []
        return [ToolSelection(tool_id="1", tool_name="docs", tool_kwargs={"input": "rewritten"})]

    def _refused(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    chat = complete = stream_chat = stream_complete = _refused
    acomplete = astream_complete = achat = _refused


def agent(tool: Any) -> FunctionAgent:
    return FunctionAgent(tools=[tool], llm=ToolUser(), name="clerk", description="Answers.")


def memory() -> ChatMemoryBuffer:
    return ChatMemoryBuffer.from_defaults(token_limit=100_000, tokenizer_fn=str.split)


@pytest.mark.parametrize("several", [False, True])
async def test_an_agent_with_a_query_engine_is_one_interaction(
    monitor: FakeMonitor, several: bool
) -> None:
    """The user's question, the agent's answer, the nested engine's chunks, every call's tokens."""
    tool = QueryEngineTool.from_defaults(query_engine(), name="docs", description="Docs.")
    clerk = agent(tool)
    runner: Any = AgentWorkflow(agents=[clerk], root_agent="clerk") if several else clerk
    await runner.run(user_msg="How heavy?", memory=memory())
    interaction = monitor.only()
    assert (interaction.query, interaction.answer) == ("How heavy?", ANSWER)
    assert interaction.status == "ok"
    assert [c.id for c in interaction.chunks] == ["n0", "n1", "n2"]
    assert interaction.retrievals[0].query == "rewritten"
    assert interaction.usage == Usage(input_tokens=34, output_tokens=9)


async def test_an_agent_with_a_retriever_tool_is_one_interaction(monitor: FakeMonitor) -> None:
    """Its tool's chunks are the interaction's."""
    retriever = ListRetriever(some_nodes())
    tool = RetrieverTool.from_defaults(retriever, name="docs", description="Docs.")
    await agent(tool).run(user_msg="How heavy?", memory=memory())
    interaction = monitor.only()
    assert (interaction.query, interaction.answer) == ("How heavy?", ANSWER)
    assert [c.id for c in interaction.chunks] == ["n0", "n1", "n2"]


async def test_a_tool_that_retrieves_by_itself_gives_its_nodes(monitor: FakeMonitor) -> None:
    """Without a retriever of LlamaIndex's in between."""

    def search(input: str) -> Any:  # noqa: A002 - what the model calls it
        return some_nodes(2)

    tool = FunctionTool.from_defaults(search, name="docs", description="Docs.")
    await agent(tool).run(user_msg="How heavy?", memory=memory())
    interaction = monitor.only()
    assert [c.id for c in interaction.chunks] == ["n0", "n1"]
    assert interaction.retrievals[0].query == "rewritten"


async def test_a_cancelled_agent_is_cancelled(monitor: FakeMonitor) -> None:
    """Neither an error nor an answer."""

    class Waits(Workflow):
        @step
        async def answer(self, ev: StartEvent) -> StopEvent:
            nodes = await ListRetriever(some_nodes()).aretrieve(ev.query)
            ScriptedLLM().complete(str(len(nodes)))
            retrieved.set()
            await asyncio.Event().wait()
            return StopEvent(result="never")

    retrieved = asyncio.Event()
    run: Any = Waits(timeout=None).run(query="How heavy?")
    await retrieved.wait()
    await run.cancel_run()
    with pytest.raises(WorkflowCancelledByUser):
        await run
    assert monitor.only().status == "cancelled"


class OwnFlow(Workflow):
    """Retrieval and synthesis as an application's own workflow."""

    def __init__(self, *, streaming: bool, failure: Exception | None = None) -> None:
        super().__init__()
        self._streaming = streaming
        self._failure = failure

    @step
    async def answer(self, ctx: Context, ev: StartEvent) -> StopEvent:
        nodes = await ListRetriever(some_nodes()).aretrieve(ev.query)
        if self._failure is not None:
            raise self._failure
        synthesizer = CompactAndRefine(llm=ScriptedLLM(), streaming=self._streaming)
        return StopEvent(result=await synthesizer.asynthesize(ev.query, nodes[:2]))


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_workflow_of_the_applications_own_is_one_interaction(
    monitor: FakeMonitor, streaming: bool
) -> None:
    """Also where its result is a stream that is read after the run."""
    response: Any = await OwnFlow(streaming=streaming).run(query="How heavy?")
    if streaming:
        pieces = [piece async for piece in response.async_response_gen()]
        assert "".join(pieces) == ANSWER
    interaction = monitor.only()
    assert (interaction.name, interaction.query) == ("OwnFlow", "How heavy?")
    assert (interaction.answer, interaction.status) == (ANSWER, "ok")
    assert [c.id for c in interaction.chunks] == ["n0", "n1"]
    assert interaction.usage == Usage(input_tokens=30, output_tokens=7)


async def test_a_workflow_without_retrieval_is_no_interaction(monitor: FakeMonitor) -> None:
    """A workflow may do anything."""

    class Adder(Workflow):
        @step
        async def add(self, ev: StartEvent) -> StopEvent:
            return StopEvent(result=str(ScriptedLLM().complete("1 + 1")))

    await Adder().run(query="1 + 1")
    assert monitor.interactions == []
    assert monitor.open_runs == 0
