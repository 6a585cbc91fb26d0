"""LangChain's many forms of a question, an answer, a count."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, Generation, LLMResult
from langchain_core.prompt_values import StringPromptValue

from ragmonitor.integration import Root, Run, Usage
from ragmonitor_langchain.translate import LangChainTranslator, LastPiece, keep, kept_in

TRANSLATOR = LangChainTranslator()


@dataclass
class State:
    """A graph's state as an object."""

    question: str = "q"
    answer: str = "a"


def _run(kind: Any = "chain", inputs: Any = None, outputs: Any = None, details: Any = None) -> Run:
    run = Run("r", None, kind, "", inputs)
    run.outputs, run.details = outputs, details
    return run


def _replied(message: Any, **llm_output: Any) -> LLMResult:
    return LLMResult(generations=[[ChatGeneration(message=message)]], llm_output=llm_output)


HISTORY = [HumanMessage("before"), AIMessage("so"), HumanMessage("q"), AIMessage("a")]


@pytest.mark.parametrize(
    "given",
    [
        "q",
        {"question": "q", "chat_history": ["x"]},
        {"query": "q"},
        {"input": "q"},
        {"user_input": "q"},
        {"topic": "q"},
        {"input": {"question": "q"}},
        {"messages": HISTORY},
        {"messages": [{"role": "user", "content": "q"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}]},
        {"messages": [("system", "be brief"), ("user", "q")]},
        {"input": HumanMessage("q")},
        HISTORY,
        HumanMessage("q"),
        HumanMessage([{"type": "text", "text": "q"}, {"type": "image_url", "image_url": "x"}]),
        StringPromptValue(text="q"),
        State(),
    ],
    ids=repr,
)
def test_a_question_in_any_form(given: Any) -> None:
    """The question is found."""
    assert TRANSLATOR.query(_run(inputs=keep(given))) == "q"


@pytest.mark.parametrize(
    "given", [None, {}, {"a": "x", "b": "y"}, [], 7, object(), [AIMessage("a")], {"x": ["y"]}]
)
def test_no_question(given: Any) -> None:
    """Nothing is guessed."""
    assert TRANSLATOR.query(_run(inputs=keep(given))) == ""


@pytest.mark.parametrize(
    "gave",
    [
        "a",
        AIMessage("a"),
        AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "a"}]),
        AIMessageChunk("a"),
        {"answer": "a", "input": "q"},
        {"result": "a", "query": "q"},
        {"output": "a"},
        {"response": AIMessage("a")},
        {"output_text": "a"},
        {"messages": HISTORY},
        {"messages": [HumanMessage("q"), AIMessage("a"), ToolMessage("t", tool_call_id="1")]},
        {"messages": [{"role": "assistant", "content": "a"}]},
        HISTORY,
        State(),
    ],
    ids=repr,
)
def test_an_answer_in_any_form(gave: Any) -> None:
    """The answer is found."""
    assert TRANSLATOR.answer(_run(outputs=keep(gave))) == "a"


@pytest.mark.parametrize(
    "gave", [None, {}, {"context": "x"}, [], 7, object(), [*HISTORY, HumanMessage("and?")]]
)
def test_no_answer(gave: Any) -> None:
    """Nothing is guessed, and an answer to an earlier question is none to this."""
    assert TRANSLATOR.answer(_run(outputs=keep(gave))) == ""


@pytest.mark.parametrize(
    "gave",
    [
        _replied(AIMessage("a")),
        _replied(AIMessage([{"type": "text", "text": "a"}])),
        LLMResult(generations=[[Generation(text="a")]]),
        LLMResult(generations=[[], [ChatGeneration(message=AIMessage("a"))]]),
    ],
)
def test_a_reply_in_any_form(gave: LLMResult) -> None:
    """A model run's text is found."""
    assert TRANSLATOR.answer(_run("model", outputs=gave)) == "a"


@pytest.mark.parametrize(
    "gave",
    [
        _replied(
            AIMessage(
                "a", usage_metadata={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
            ),
            token_usage={"prompt_tokens": 5, "completion_tokens": 2},
        ),
        _replied(AIMessage("a"), token_usage={"prompt_tokens": 5, "completion_tokens": 2}),
        _replied(
            AIMessage("a", response_metadata={"usage": {"input_tokens": 5, "output_tokens": 2}})
        ),
    ],
)
def test_tokens_in_any_form(gave: LLMResult) -> None:
    """Counted once, wherever the provider's package put them."""
    assert TRANSLATOR.usage(_run("model", outputs=gave)) == Usage(input_tokens=5, output_tokens=2)


@pytest.mark.parametrize(
    "gave",
    [
        LLMResult(
            generations=[[Generation(text="a", generation_info={"finish_reason": "length"})]]
        ),
        _replied(AIMessage("a", response_metadata={"finish_reason": "length"})),
        _replied(AIMessage("a", response_metadata={"stop_reason": "length"})),
    ],
)
def test_why_the_model_stopped(gave: LLMResult) -> None:
    """Wherever the provider's package put it; nothing where it did not say."""
    assert TRANSLATOR.finish_reason(_run("model", outputs=gave)) == "length"
    assert TRANSLATOR.finish_reason(_run("model", outputs=_replied(AIMessage("a")))) == ""


def test_no_count_is_none() -> None:
    """Not zero: the provider did not say."""
    assert TRANSLATOR.usage(_run("model", outputs=_replied(AIMessage("a")))) == Usage()


@pytest.mark.parametrize(
    ("details", "gave", "named"),
    [
        (([], {"ls_provider": "openai", "ls_model_name": "m"}, {"model": "x"}), None, "m"),
        (([], {"ls_provider": "openai"}, {"model": "m"}), None, "m"),
        (([], {"ls_provider": "openai"}, {"model_name": "m"}), None, "m"),
        (
            ([], {"ls_provider": "openai"}, None),
            _replied(AIMessage("a", response_metadata={"model_name": "m"})),
            "m",
        ),
    ],
)
def test_a_model_s_name(details: Any, gave: Any, named: str) -> None:
    """What LangChain says first, else what was asked for, else what replied."""
    assert TRANSLATOR.model(_run("model", outputs=gave, details=details)) == ("openai", named)


@pytest.mark.parametrize("score", [True, "0.9", None, float("nan"), float("inf")])
def test_a_score_is_a_number(score: Any) -> None:
    """Anything else is no score."""
    kept = kept_in([Document("x", metadata={"score": score})])
    assert [c.score for c in TRANSLATOR.chunks(_run("retriever", outputs=kept))] == [None]


def test_a_run_that_failed_is_empty() -> None:
    """Where nothing was given back, every method returns something empty."""
    run = _run()
    assert TRANSLATOR.query(run) == TRANSLATOR.answer(run) == ""
    assert TRANSLATOR.chunks(run) == ()
    assert TRANSLATOR.shown(run) is None
    assert TRANSLATOR.model(run) == ("", "")
    assert TRANSLATOR.usage(run) == Usage()
    assert TRANSLATOR.labels(run) == {
        "session_id": "",
        "user_id": "",
        "tags": (),
        "attributes": {},
    }


@pytest.mark.parametrize("key", ["context", "source_documents", "documents"])
def test_documents_beside_the_answer_are_what_the_model_saw(key: str) -> None:
    """Under the names that chains and graphs give them."""
    gave = keep({"answer": "a", key: [Document("x", id="1")]})
    shown = TRANSLATOR.shown(_run(outputs=gave))
    assert shown is not None
    assert [(c.text, c.id) for c in shown] == [("x", "1")]


def test_no_documents_beside_the_answer_means_the_model_saw_none() -> None:
    """An empty list says that nothing was shown; a missing or a textual one says nothing."""
    assert TRANSLATOR.shown(_run(outputs=keep({"answer": "a", "context": []}))) == ()
    assert TRANSLATOR.shown(_run(outputs=keep({"answer": "a", "context": "text"}))) is None


def test_the_framework_s_own_labels_are_left_out() -> None:
    """Tags and metadata that LangChain and LangGraph add are not the application's."""
    details = (
        ["seq:step:1", "beta", "graph:step:2"],
        {
            "conversation_id": "c-1",
            "user_id": 7,
            "tenant": "acme",
            "ls_provider": "x",
            "lc_agent_name": "x",
            "langgraph_node": "x",
            "checkpoint_ns": "x",
            "depth": 3,
        },
        None,
    )
    assert TRANSLATOR.labels(_run(details=details)) == {
        "session_id": "c-1",
        "user_id": "7",
        "tags": ("beta",),
        "attributes": {"tenant": "acme"},
    }


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CALL = ToolCall(name="search", args={"query": "Höhe", "k": 3}, id="1")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (SystemMessage("Be brief."), ("system", "Be brief.")),
        (HumanMessage("q"), ("user", "q")),
        (HumanMessage([{"type": "text", "text": "What is "}, IMAGE]), ("user", "What is ")),
        (
            AIMessage(
                [{"type": "text", "text": "I look."}, {"type": "tool_use", "name": "search"}],
                tool_calls=[CALL],
            ),
            ("assistant", "I look."),
        ),
        (ToolMessage("330 m", tool_call_id="1"), ("tool", "330 m")),
        ("a plain prompt", ("user", "a plain prompt")),
    ],
)
def test_a_prompt_in_any_form(message: Any, shown: tuple[str, str]) -> None:
    """Role and text; what is no text is left out."""
    prompt = TRANSLATOR.prompt(_run("model", inputs=[message]))
    assert [(m.role, m.text) for m in prompt] == [shown]


def _streamed(gave: Any, *pieces: str) -> Root:
    root = Root("r", None, "chain", "", "q")
    model = Run("m", root, "model", "", None)
    model.pieces = [*pieces]
    root.members.append(model)
    root.outputs = LastPiece(keep(gave))
    return root


def test_the_last_piece_of_a_stream_is_no_answer() -> None:
    """Where it is the model's last piece; the model's text is the answer then."""
    root = _streamed({"answer": "tall."}, "It is ", "tall.", "")
    assert TRANSLATOR.answer(root) == ""


def test_the_only_piece_of_a_stream_is_the_answer() -> None:
    """A step that puts the whole text into a dict streams one piece."""
    root = _streamed({"answer": "IT IS TALL."}, "It is ", "tall.")
    assert TRANSLATOR.answer(root) == "IT IS TALL."


def test_documents_in_the_last_piece_of_a_stream_are_what_the_model_saw() -> None:
    """As in any output."""
    shown = TRANSLATOR.shown(_streamed({"context": [Document("x", id="1")]}))
    assert shown is not None
    assert [c.text for c in shown] == ["x"]


@pytest.mark.parametrize("gave", [{"question": "q", "answer": "a"}, {"messages": HISTORY}, State()])
def test_a_question_in_a_graph_s_state(gave: Any) -> None:
    """A graph that goes on after a pause is given none; its state has kept it."""
    assert TRANSLATOR.query(_run(outputs=keep(gave))) == "q"


def test_an_output_is_no_question() -> None:
    """Nothing is guessed of an output without a question's name."""
    assert TRANSLATOR.query(_run(outputs=keep({"answer": "a"}))) == ""
    assert TRANSLATOR.query(_run(outputs="a")) == ""


def _shared(keys: tuple[str, ...], depth: int) -> dict[str, Any]:
    """Return a structure that is shared at every level, so that as a tree it has no end."""
    shared: dict[str, Any] = {"leaf": 1}
    for _ in range(depth):
        shared = dict.fromkeys(keys, shared)
    return shared


@pytest.mark.parametrize("depth", [20, 80, 5_000])
def test_a_structure_that_is_shared_is_looked_into_once(depth: int) -> None:
    """In an input and in an output; and one that is deeper than anything sane ends somewhere."""
    given = _shared(("question", "query", "input"), depth)
    gave = _shared(("answer", "result", "output"), depth)
    count = 0

    def note(*_given: Any) -> None:
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        found = (TRANSLATOR.query(_run(inputs=given)), TRANSLATOR.answer(_run(outputs=gave)))
    finally:
        sys.setprofile(None)
    assert found == ("", "")
    assert count < 300_000


def test_a_structure_inside_itself_costs_only_itself() -> None:
    """The question beside it is found, and so is the answer."""
    given: dict[str, Any] = {}
    given |= {"question": given, "input": "Why?"}
    gave: dict[str, Any] = {}
    gave |= {"answer": [gave], "result": gave, "output": "Blue."}
    assert TRANSLATOR.query(_run(inputs=given)) == "Why?"
    assert TRANSLATOR.answer(_run(outputs=gave)) == "Blue."


def test_labels_of_any_type_hurt_nobody() -> None:
    """What is no text, and cannot be made one, is left out."""
    details = ([5, "beta"], {"user_id": object(), 7: "seven", "tenant": "acme"}, None)
    found = TRANSLATOR.labels(_run(details=details))
    assert (found["user_id"], found["tags"]) == ("", ("beta",))
    assert found["attributes"] == {"tenant": "acme"}
