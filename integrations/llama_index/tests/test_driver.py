"""The command line's driver: an application of LlamaIndex's parts, offline."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import llama_index.core
import pytest
from llama_index.core import Settings

from integrations.llama_index.tests.scripted import FakeMonitor
from ragmonitor import Chunk
from ragmonitor_llama_index.driver import LlamaIndexDriver

CHUNKS = [
    Chunk(text="The load limit is 40 kg. Never exceed it.", id="manual#0", score=0.9),
    Chunk(text="Liability is limited. See page 3.", id="legal#0", score=0.2),
]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("NLTK_DATA", str(tmp_path))
    monkeypatch.setenv("LLAMA_INDEX_CACHE_DIR", str(tmp_path))
    before = (dict(vars(Settings)), llama_index.core.global_tokenizer)
    yield
    assert (dict(vars(Settings)), llama_index.core.global_tokenizer) == before


def test_the_application_answers_from_its_documents(monitor: FakeMonitor) -> None:
    """In pieces; its prompt holds the found text and the question."""
    prompts: list[str] = []

    def respond(prompt: str) -> str:
        prompts.append(prompt)
        return "The limit is\n 40 kg."

    application = LlamaIndexDriver().application(
        lambda question: CHUNKS, 'Answer {question} from {context} as {"json": 1}.', respond
    )
    answer = "".join(application("What limit?", {"route": "help"}))
    assert prompts[0].startswith("Answer What limit? from ")
    assert '{"json": 1}' in prompts[0]
    (interaction,) = monitor.interactions
    assert [*interaction.chunks] == CHUNKS
    assert interaction.answer == answer == "The limit is\n 40 kg."
    assert interaction.attributes["route"] == "help"
    assert monitor.open_runs == 0
