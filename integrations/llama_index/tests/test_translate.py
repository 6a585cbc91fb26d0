"""LlamaIndex's many words for tokens, models and questions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse

from integrations.llama_index.tests.scripted import ScriptedLLM
from ragmonitor.integration import Run, Usage
from ragmonitor_llama_index import LlamaIndexTranslator
from ragmonitor_llama_index.roles import Role
from ragmonitor_llama_index.translate import Note, note_reply

translator = LlamaIndexTranslator()


def model_run(response: Any, llm: Any = None) -> Run:
    run = Run("m", None, "model", "LLM", None)
    run.outputs = note_reply(response)
    run.details = Note(Role.MODEL, llm)
    return run


@pytest.mark.parametrize(
    ("raw", "extra"),
    [
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, {}),
        (SimpleNamespace(usage=SimpleNamespace(prompt_tokens=3, completion_tokens=4)), {}),
        ({"usage": {"input_tokens": 3, "output_tokens": 4}}, {}),
        ({"usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 4}}, {}),
        ({"prompt_eval_count": 3, "eval_count": 4}, {}),
        (None, {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}),
        ({"usage": None}, {"prompt_tokens": 3, "completion_tokens": 4}),
    ],
)
def test_tokens_are_found_wherever_a_provider_writes_them(raw: Any, extra: Any) -> None:
    """In the raw response or in `additional_kwargs`, under each provider's names."""
    completion = CompletionResponse(text="x", raw=raw, additional_kwargs=extra)
    chat = ChatResponse(message=ChatMessage(content="x"), raw=raw, additional_kwargs=extra)
    for response in (completion, chat):
        usage = translator.usage(model_run(response))
        assert usage == Usage(input_tokens=3, output_tokens=4)


@pytest.mark.parametrize(
    ("raw", "extra"),
    [
        ({"choices": [{"finish_reason": "length"}]}, {}),
        (SimpleNamespace(choices=[SimpleNamespace(finish_reason="length")]), {}),
        ({"stop_reason": "length"}, {}),
        (None, {"done_reason": "length"}),
    ],
)
def test_why_the_model_stopped_is_found_wherever_a_provider_writes_it(raw: Any, extra: Any) -> None:
    """In the raw response or in `additional_kwargs`, under each provider's name."""
    chat = ChatResponse(message=ChatMessage(content="x"), raw=raw, additional_kwargs=extra)
    assert translator.finish_reason(model_run(chat)) == "length"


@pytest.mark.parametrize("raw", [None, {}, {"usage": {}}, "text", 5, object()])
def test_no_tokens_are_no_zero(raw: Any) -> None:
    """A provider that does not say has not used none."""
    assert translator.usage(model_run(CompletionResponse(text="x", raw=raw))) == Usage()


def test_the_provider_is_the_models_package() -> None:
    """`llama_index.llms.openai` is openai; a model of the application's own has none."""

    class OpenAI(ScriptedLLM):
        pass

    OpenAI.__module__ = "llama_index.llms.openai.base"
    assert translator.model(model_run(None, OpenAI())) == ("openai", "scripted-1")
    assert translator.model(model_run(None, ScriptedLLM())) == ("", "scripted-1")


def test_a_model_that_cannot_name_itself_has_no_name() -> None:
    """Its metadata may raise; that is no error of the interaction."""
    assert translator.model(model_run(None, SimpleNamespace())) == ("", "")


def test_an_open_run_translates_to_nothing() -> None:
    """Whatever was left open or failed gives empty records."""
    for kind in ("chain", "retriever", "model", "tool"):
        run = Run("r", None, kind, "x", None)  # type: ignore[arg-type]
        assert translator.query(run) == translator.answer(run) == ""
        assert (*translator.chunks(run),) == ()
        assert translator.shown(run) is None
        assert translator.model(run) == ("", "")
        assert translator.usage(run) == Usage()
        assert translator.labels(run) == {}
