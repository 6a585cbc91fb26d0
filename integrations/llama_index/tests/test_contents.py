"""What is captured of contents that are odd: nodes, answers, prompts, tools, labels."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
)
from llama_index.core.postprocessor import LLMRerank, MetadataReplacementPostProcessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import (
    Document,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeWithScore,
    QueryBundle,
    TextNode,
)
from llama_index.core.tools import FunctionTool, RetrieverTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from openinference.instrumentation import (
    using_metadata,
    using_session,
    using_tags,
    using_user,
)
from pydantic import BaseModel

from integrations.llama_index.tests.matrix import (
    SHAPES,
    Notes,
    Parts,
    answer,
    clerk,
    found,
    memory,
    question,
    text_tool,
)
from integrations.llama_index.tests.scripted import (
    FakeMonitor,
    ListRetriever,
    ScriptedLLM,
    query_engine,
)
from ragmonitor.integration import Message
from ragmonitor.runtime import guard
from ragmonitor_llama_index import instrument

# LlamaIndex's agents read deprecated attributes of their own.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
)

LOAD = "7"
QUESTION = question(LOAD)
ALL = [told.id for told in found(LOAD)]


def texts(chunks: Any) -> list[str]:
    return [chunk.text for chunk in chunks]


# --- nodes ---------------------------------------------------------------------------------------


class NoneOfThem(BaseNodePostprocessor):
    """Keeps nothing."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return []


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("shape", ["RetrieverQueryEngine", "ContextChatEngine"])
async def test_nothing_left_after_postprocessing_is_no_chunk(
    monitor: FakeMonitor, shape: str, mode: str, streaming: bool
) -> None:
    """LlamaIndex's own words, without the model, are an answer over no chunks."""
    parts = Parts(
        monitor=monitor, streaming=streaming, more={"node_postprocessors": [NoneOfThem()]}
    )
    application = SHAPES[shape](parts)
    if mode == "async":
        seen = await application.asynchronous(QUESTION)
    else:
        seen = await asyncio.to_thread(application.sync, QUESTION)
    interaction = monitor.only()
    assert interaction.answer == seen == "Empty Response"
    assert (interaction.chunks, interaction.generations) == ((), ())
    assert [chunk.id for chunk in interaction.not_shown] == ALL


class Shouting(TextNode):
    """Says itself what its text is."""

    def get_content(self, metadata_mode: MetadataMode = MetadataMode.NONE) -> str:
        return self.text.upper()


class Stubborn(TextNode):
    """Has a store that is sometimes closed."""

    def get_content(self, metadata_mode: MetadataMode = MetadataMode.ALL) -> str:
        if metadata_mode is MetadataMode.NONE:
            raise OSError("store closed")
        return self.text


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Shouting(text="loud"), "LOUD"),
        (IndexNode(text="a summary", index_id="i"), "a summary"),
        (Document(text="a document"), "a document"),
        (ImageNode(text="a caption", image_url="https://example.org/a.png"), "a caption"),
        (Node(text_resource=MediaResource(text="in a resource")), "in a resource"),
        (TextNode(text=""), ""),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_nodes_text_is_what_its_class_says(monitor: FakeMonitor, node: Any, text: str) -> None:
    """Without metadata; nothing is missing."""
    query_engine(retriever=ListRetriever([NodeWithScore(node=node, score=0.5)])).query("Why?")
    interaction = monitor.only()
    assert [(c.text, c.score) for c in interaction.chunks] == [(text, 0.5)]
    assert not interaction.capture_incomplete


@pytest.mark.parametrize(
    "node",
    [
        ImageNode(image_url="https://example.org/a.png"),
        Node(image_resource=MediaResource(url="https://example.org/a.png")),
        Node(audio_resource=MediaResource(url="https://example.org/a.wav")),
    ],
    ids=["ImageNode", "image", "audio"],
)
def test_a_picture_is_no_text_and_must_not_cost_a_score(monitor: FakeMonitor, node: Any) -> None:
    """The answer may rest on what no judge of texts can see."""
    nodes = [NodeWithScore(node=each) for each in (TextNode(text="seen"), node)]
    query_engine(retriever=ListRetriever(nodes)).query("Why?")
    interaction = monitor.only()
    assert texts(interaction.chunks) == ["seen", ""]
    assert interaction.capture_incomplete


@pytest.mark.parametrize("block", [False, True])
def test_a_node_that_cannot_be_read_costs_no_other(quiet_monitor: FakeMonitor, block: bool) -> None:
    """Its text is known to be missing, so that there will be no score; our error is counted."""
    before = guard.errors["capture"]
    instrument(quiet_monitor)  # type: ignore[arg-type]
    nodes = [NodeWithScore(node=each) for each in (Stubborn(text="x"), TextNode(text="seen"))]
    if block:
        with quiet_monitor.interaction(query="Why?"):
            ListRetriever(nodes).retrieve("Why?")
            ScriptedLLM().complete("Why? Because.")
    else:
        query_engine(retriever=ListRetriever(nodes)).query("Why?")
    interaction = quiet_monitor.only()
    assert texts(interaction.chunks) == ["", "seen"]
    assert interaction.capture_incomplete
    assert guard.errors["capture"] > before


def test_later_changes_of_nodes_do_not_show(monitor: FakeMonitor) -> None:
    """Chunks are as they were, whatever the application does to its nodes afterwards."""
    node = NodeWithScore(node=TextNode(text="seen", metadata={"page": 1}), score=0.9)
    kept: list[Any] = []
    monitor.recorder(None)._hand_over = kept.append  # type: ignore[arg-type]
    response = query_engine(retriever=ListRetriever([node])).query("Why?")
    node.node.metadata["page"] = 99
    response.source_nodes[0].score = -1.0
    response.source_nodes.clear()
    (chunk,) = kept[0].interaction().chunks
    assert (chunk.metadata["page"], chunk.score) == (1, 0.9)


def test_a_widened_chunk_is_what_the_model_saw(monitor: FakeMonitor) -> None:
    """A sentence that was found and then shown with what stands around it was not left out."""
    window = "Before. It weighs 40 kg. After."
    node = TextNode(text="It weighs 40 kg.", metadata={"window": window})
    engine = query_engine(
        retriever=ListRetriever([NodeWithScore(node=node, score=0.9)]),
        node_postprocessors=[MetadataReplacementPostProcessor("window")],
    )
    engine.query("Why?")
    interaction = monitor.only()
    assert texts(interaction.chunks) == [window]
    assert texts(interaction.retrievals[0].chunks) == ["It weighs 40 kg."]
    assert interaction.not_shown == ()


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_what_a_reranker_is_shown_the_answer_is_not(monitor: FakeMonitor, mode: str) -> None:
    """In an agent only prompts tell; the reranker's shows all nodes, and does not count."""
    parts = Parts(monitor=monitor)
    engine = parts.engine(node_postprocessors=[LLMRerank(llm=parts.model, top_n=2)])

    async def search(input: str) -> str:  # noqa: A002 - what the model calls it
        return str(engine.query(input) if mode == "sync" else await engine.aquery(input))

    tool = FunctionTool.from_defaults(async_fn=search, name="search_notes", description="Finds.")
    await clerk(parts, tool).run(user_msg=QUESTION, memory=memory())
    interaction = monitor.only()
    assert [chunk.id for chunk in interaction.chunks] == [f"{LOAD}-2", f"{LOAD}-0"]
    assert [chunk.id for chunk in interaction.not_shown] == [f"{LOAD}-1"]


# --- questions and answers -----------------------------------------------------------------------


async def test_a_chat_message_is_a_question(monitor: FakeMonitor) -> None:
    """An agent may be asked with one, or with a history that ends in one."""
    asked = ChatMessage(role="user", content=QUESTION)
    for given in ({"user_msg": asked}, {"chat_history": [asked]}):
        parts = Parts(monitor=monitor)
        await clerk(parts, parts.tool()).run(**given, memory=memory())
        assert monitor.only().query == QUESTION
        monitor.interactions.clear()


class Weight(BaseModel):
    """A structured answer."""

    kg: int


class Structured(ScriptedLLM):
    """Says a structured answer."""

    pieces: tuple[str, ...] = ('{"kg": ', "40}")


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_structured_answer_is_its_json(monitor: FakeMonitor, mode: str) -> None:
    """What the application reads by its fields, a judge reads as text."""
    llm = Structured()
    engine = query_engine(llm, response_synthesizer=CompactAndRefine(llm=llm, output_cls=Weight))
    response: Any = engine.query("Why?") if mode == "sync" else await engine.aquery("Why?")
    assert response.response == Weight(kg=40)
    assert monitor.only().answer == '{"kg":40}'


class Reply(BaseModel):
    """A structured answer with words in it."""

    answer: str
    kg: int


class Weighing(Workflow):
    """Asks its model by steps of its own, and gives what it made of the reply."""

    def __init__(self, parts: Parts, result: Any) -> None:
        super().__init__(timeout=10)
        self._parts, self._result = parts, result

    @step
    async def weigh(self, ev: StartEvent) -> StopEvent:
        await self._parts.retriever.aretrieve(ev.query)
        await self._parts.async_model.acomplete(ev.query)
        return StopEvent(result=self._result)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (Weight(kg=40), '{"kg":40}'),
        (Reply(answer="It weighs 40 kg.", kg=40), "It weighs 40 kg."),
        ({"answer": Weight(kg=40)}, '{"kg":40}'),
    ],
)
async def test_a_workflow_s_object_is_its_answer(
    monitor: FakeMonitor, result: Any, expected: str
) -> None:
    """The words in it, or its JSON; not what a model said on the way."""
    await Weighing(Parts(monitor=monitor), result).run(query=QUESTION)
    assert monitor.only().answer == expected


class Cited(BaseModel):
    """A structured answer, with what it rests on."""

    reply: str
    sources: list[Any]


class Stopped(StopEvent):
    """A stop event with fields of the application's own."""

    reply: str
    nodes: list[Any]


NODES = [NodeWithScore(node=TextNode(text="It is blue."))]
_COMPLETED = CompletionResponse(text="It weighs 40 kg.", raw={"client": object()})
_CHATTED = ChatResponse(
    message=ChatMessage("It weighs 40 kg.", role="assistant"), raw={"client": object()}
)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (_COMPLETED, "It weighs 40 kg."),
        (_CHATTED, "It weighs 40 kg."),
        ({"response": _CHATTED}, "It weighs 40 kg."),
        (Cited(reply="40 kg", sources=NODES), answer(LOAD)),
        ({"answer": Cited(reply="40 kg", sources=[{"found": NODES}])}, answer(LOAD)),
    ],
)
async def test_a_workflow_that_gives_its_model_s_response_gives_its_text(
    monitor: FakeMonitor, result: Any, expected: str
) -> None:
    """Not its JSON, with the provider's own; of an object that holds nodes, the model's words."""
    await Weighing(Parts(monitor=monitor), result).run(query=QUESTION)
    assert (monitor.only().answer, monitor.only().capture_incomplete) == (expected, False)


async def test_a_stop_event_of_unknown_fields_is_no_answer(monitor: FakeMonitor) -> None:
    """It holds nodes among them: the model's last words are the answer."""

    class Stopping(Weighing):
        @step
        async def weigh(self, ev: StartEvent) -> Stopped:
            await self._parts.retriever.aretrieve(ev.query)
            await self._parts.async_model.acomplete(ev.query)
            return Stopped(reply="40 kg", nodes=NODES)

    await Stopping(Parts(monitor=monitor), None).run(query=QUESTION)
    assert monitor.only().answer == answer(LOAD)


# --- prompts -------------------------------------------------------------------------------------

ONE = (Message(role="user", text="Of load 7?"),)


def test_later_changes_of_messages_do_not_show(monitor: FakeMonitor) -> None:
    """Applications append the reply to the list that they asked with."""
    asked = [ChatMessage(role="user", content="Of load 7?")]
    with monitor.interaction(query="Why?"):
        asked.append(Parts(monitor=monitor).chat_model.chat(asked).message)
        asked.clear()
    (generation,) = monitor.only().generations
    assert generation.input == ONE


# --- tools ---------------------------------------------------------------------------------------


def _tool(output: Any) -> FunctionTool:
    def search_notes(input: str) -> Any:  # noqa: A002 - what the model calls it
        return output

    return FunctionTool.from_defaults(search_notes, description="Finds.")


NODE = TextNode(id_="a", text="It weighs 40 kg.")


@pytest.mark.parametrize(
    "output",
    [NODE, [NODE], NodeWithScore(node=NODE), [NodeWithScore(node=NODE, score=0.5)]],
    ids=["node", "nodes", "with score", "with scores"],
)
async def test_a_tool_that_retrieves_by_itself_gives_its_nodes(
    monitor: FakeMonitor, output: Any
) -> None:
    """Without a retriever of LlamaIndex's in between."""
    await clerk(Parts(monitor=monitor), _tool(output)).run(user_msg=QUESTION, memory=memory())
    interaction = monitor.only()
    assert [(c.id, c.text) for c in interaction.chunks] == [("a", "It weighs 40 kg.")]
    assert interaction.retrievals[0].name == "search_notes"
    assert interaction.retrievals[0].query == f"Find load {LOAD}."


async def test_a_retriever_tool_counts_once(monitor: FakeMonitor) -> None:
    """The retriever in it has the nodes; its text repeats them."""
    tool = RetrieverTool.from_defaults(Notes(), name="search_notes", description="Finds.")
    await clerk(Parts(monitor=monitor), tool).run(user_msg=QUESTION, memory=memory())
    interaction = monitor.only()
    assert [chunk.id for chunk in interaction.chunks] == ALL
    assert len(interaction.retrievals) == 1


async def test_a_text_around_a_retriever_counts_once(monitor: FakeMonitor) -> None:
    """A tool of the application's own that retrieves and joins the texts."""

    def search_notes(input: str) -> str:  # noqa: A002 - what the model calls it
        return "\n".join(node.text for node in Notes().retrieve(input))

    tool = FunctionTool.from_defaults(search_notes, description="Finds.")
    await clerk(Parts(monitor=monitor), tool).run(user_msg=QUESTION, memory=memory())
    interaction = monitor.only()
    assert [chunk.id for chunk in interaction.chunks] == ALL
    assert len(interaction.retrievals) == 1


@pytest.mark.parametrize("call", ["call", "acall"])
def test_a_tool_by_hand_belongs_to_its_block(monitor: FakeMonitor, call: str) -> None:
    """A text that was searched for, and a model that is shown it."""
    parts = Parts(monitor=monitor)
    with monitor.interaction(query=QUESTION):
        if call == "call":
            text = text_tool().call(input=QUESTION).content
        else:
            text = asyncio.run(text_tool().acall(input=QUESTION)).content
        parts.model.complete(f"{text}\n{QUESTION}")
    interaction = monitor.only()
    assert texts(interaction.chunks) == ["\n".join(told.text for told in found(LOAD))]
    assert interaction.answer == answer(LOAD)


# --- blocks --------------------------------------------------------------------------------------


def test_outside_a_block_nothing_by_itself_is_an_interaction(monitor: FakeMonitor) -> None:
    """Nor is it kept: a retriever, a model, a tool, a synthesizer, whole and streamed."""
    parts = Parts(monitor=monitor)
    nodes = Notes().retrieve(QUESTION)
    parts.model.complete(QUESTION)
    [*parts.model.stream_complete(QUESTION)]
    text_tool().call(input=QUESTION)
    CompactAndRefine(llm=parts.model).synthesize(QUESTION, nodes)
    assert (monitor.interactions, monitor.open_runs) == ([], 0)


# --- labels --------------------------------------------------------------------------------------


async def test_openinferences_context_managers_say_who_asks(monitor: FakeMonitor) -> None:
    """Session, user, tags and metadata, of an engine that is asked within them."""
    with (
        using_session("s-1"),
        using_user("u-1"),
        using_tags(["beta"]),
        using_metadata({"route": "/ask", "n": 1}),
    ):
        await query_engine().aquery("How heavy?")
    interaction = monitor.only()
    assert (interaction.session_id, interaction.user_id) == ("s-1", "u-1")
    assert interaction.tags == ("beta",)
    assert interaction.attributes == {"route": "/ask", "n": "1"}
