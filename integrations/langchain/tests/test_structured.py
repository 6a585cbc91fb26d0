"""Answers that are no model's last words: objects, tools' texts, texts under any name."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import tool
from pydantic import BaseModel

from integrations.langchain.tests.matrix import (
    Notes,
    ScriptedModel,
    ask_notes,
    lcel,
    messages,
    question,
    reply,
)
from ragmonitor_langchain import instrument

QUERY = question(7)
INTERVAL = '{"months": 6}'


class Interval(BaseModel):
    """How often something is done."""

    months: int


class Caller(FakeMessagesListChatModel):
    """Replies with the next of its messages, whatever tools it is given."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def _calling(text: str, name: str, **args: Any) -> AIMessage:
    return AIMessage(text, tool_calls=[ToolCall(name=name, args=args, id=name)])


def test_an_agent_s_structured_response_is_its_answer(monitor: Any) -> None:
    """Not what it said before it searched."""
    instrument(monitor)
    replies = [
        _calling("I look that up.", "ask_notes", query="pump 07"),
        _calling("", "Interval", months=6),
    ]
    agent = create_agent(
        Caller(responses=replies), [ask_notes()], response_format=ToolStrategy(Interval)
    )
    assert agent.invoke(messages(QUERY))["structured_response"] == Interval(months=6)
    assert monitor.only.answer == INTERVAL


def test_the_text_of_a_tool_that_answers_by_itself_is_the_answer(monitor: Any) -> None:
    """The user saw it, and not what the model said before."""

    @tool(return_direct=True)
    def search_manual(query: str) -> str:
        """Search the manual."""
        return f"In the manual: {query} is serviced twice a year."

    instrument(monitor)
    replies = [_calling("I look that up.", "search_manual", query="pump 07")]
    found = create_agent(Caller(responses=replies), [search_manual]).invoke(messages(QUERY))
    assert monitor.only.answer == found["messages"][-1].text
    assert monitor.only.answer.startswith("In the manual")


def test_what_an_agent_said_before_it_searched_is_not_its_answer(monitor: Any) -> None:
    """Not even if it searched twice, and said nothing in the end."""
    instrument(monitor)
    replies = [
        _calling("I look that up.", "ask_notes", query="pump 07"),
        _calling("Let me also check pump 08.", "ask_notes", query="pump 08"),
        AIMessage(""),
    ]
    create_agent(Caller(responses=replies), [ask_notes()]).invoke(messages(QUERY))
    assert (monitor.only.answer, monitor.only.status) == ("", "ok")


def test_the_object_that_a_model_calls_a_function_with_is_the_answer(monitor: Any) -> None:
    """As JSON: of a class, and of a schema."""
    instrument(monitor)
    schema = {"title": "Interval", "description": "How often.", **Interval.model_json_schema()}
    for kind in (Interval, schema):
        model = Caller(responses=[_calling("", "Interval", months=6)]).with_structured_output(kind)
        lcel(model=model, parser=RunnablePassthrough()).invoke(QUERY)
    assert [each.answer for each in monitor.interactions] == [INTERVAL] * 2


@pytest.mark.parametrize("include_raw", [False, True])
@pytest.mark.parametrize("of_schema", [False, True])
@pytest.mark.parametrize("key", ["", "answer"])
def test_the_object_stands_under_a_name_or_beside_the_model_s_message(
    monitor: Any, include_raw: bool, of_schema: bool, key: str
) -> None:
    """In a state's `answer`, and in what `include_raw=True` gives."""
    instrument(monitor)
    schema = {"title": "Interval", "description": "How often.", **Interval.model_json_schema()}
    model = Caller(responses=[_calling("", "Interval", months=6)]).with_structured_output(
        schema if of_schema else Interval, include_raw=include_raw
    )
    answering = lcel(model=model, parser=RunnablePassthrough())
    (RunnableParallel({key: answering}) if key else answering).invoke(QUERY)
    assert monitor.only.answer == INTERVAL


class Replied(BaseModel):
    """What an application gives: its reply, and what it rests on."""

    reply: str
    found: dict[str, list[Document]]


def test_an_object_that_holds_documents_is_not_the_answer(monitor: Any) -> None:
    """Its JSON would have the retrieved texts in it: the model's last words are the answer."""
    instrument(monitor)

    def replied(text: str) -> Replied:
        return Replied(reply="Twice a year.", found={"notes": Notes().invoke(text)})

    (lcel() | RunnableLambda(replied)).invoke(QUERY)
    assert monitor.only.answer == reply("07")


def test_an_answer_under_any_name_is_the_text_in_the_output(monitor: Any) -> None:
    """Not what the model said that was asked last: the title stands there, too."""
    instrument(monitor)
    entitling = ScriptedModel(respond=lambda _: "Service of pump 07")
    titled = RunnablePassthrough.assign(title=lambda _: entitling.invoke(QUERY).text)
    (RunnableParallel(reply=lcel()) | titled).invoke(QUERY)
    assert monitor.only.answer == reply("07")


def test_an_answer_with_sources_under_any_name_is_the_model_s_text(monitor: Any) -> None:
    """Not the question that a model rewrote before, which stands in the output as it was."""
    instrument(monitor)
    rewritten = "How often in a whole year is it that pump 07 is serviced, says the manual?"
    rewriting = ScriptedModel(respond=lambda _: rewritten)
    chain = RunnableLambda(lambda query: {"asked": str(rewriting.invoke(query).text)})
    with_sources = RunnableLambda(lambda text: f"{text} [manual]")
    (
        chain
        | RunnablePassthrough.assign(reply=(lambda given: given["asked"]) | lcel() | with_sources)
    ).invoke(QUERY)
    assert monitor.only.answer == reply("07")
