"""A LangGraph agent that searches with a tool: `python langgraph_agent.py`."""

from __future__ import annotations

import os

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ragmonitor import Monitor
from ragmonitor_langchain import instrument

MANUAL = {
    "pump": "The pump is serviced every six months. Only a technician may open it.",
    "filter": "The filter is replaced every year.",
}


@tool
def search_manual(query: str) -> str:
    """Search the manual."""
    return "\n".join(text for word, text in MANUAL.items() if word in query.lower())


class Scripted(GenericFakeChatModel):
    """Calls the tool, then says something that the manual does not."""

    def bind_tools(self, tools, **_kwargs):
        """Return itself."""
        return self


def chat_model() -> BaseChatModel:
    """Return the model that MODEL names (`openai:gpt-4o-mini`), else a scripted one."""
    if name := os.environ.get("MODEL"):
        return init_chat_model(name)
    call = {"name": "search_manual", "args": {"query": "pump service"}, "id": "call-1"}
    answer = "The pump is serviced every six months. A licence is needed in Norway."
    return Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage(answer)]))


# A tool that returns text counts as retrieval if its name is that of a search:
# `capture.retrieval_tools`, by default `*search*`, `*retriev*`, `*lookup*`, `*knowledge*`.
monitor = Monitor(service="manual-agent")
instrument(monitor)
agent = create_agent(chat_model(), [search_manual], checkpointer=InMemorySaver())
state = agent.invoke(
    {"messages": [("user", "How often is the pump serviced?")]},
    {"configurable": {"thread_id": "t-1"}},  # becomes the session
)
print(state["messages"][-1].content)
print(monitor.last())
monitor.close()
