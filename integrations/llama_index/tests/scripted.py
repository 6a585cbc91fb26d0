"""A model, a retriever and a monitor that do as they are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    CompletionResponse,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
)
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from ragmonitor import Interaction
from ragmonitor.integration import InteractionRecorder, Recorder, Translator

PIECES = (" The limit", " is 40", " kg. ")
ANSWER = "".join(PIECES)
USAGE = {"prompt_tokens": 30, "completion_tokens": 7}


class FakeMonitor:
    """Keeps what is handed over."""

    def __init__(self, **options: Any) -> None:
        """Keep `options` for the recorder."""
        self.interactions: list[Interaction] = []
        self._options: dict[str, Any] = {"retrieval_tools": ("*search*",)} | options
        self._recorder: Recorder | None = None

    def recorder(self, translator: Translator) -> Recorder:
        if self._recorder is None:
            self._recorder = Recorder(translator, self._take, **self._options)
        return self._recorder

    def interaction(self, *, query: str, name: str = "") -> InteractionRecorder:
        return InteractionRecorder(self._take, query=query, name=name)

    def _take(self, finished: Any) -> None:
        interaction = finished.interaction()
        assert interaction is not None
        self.interactions.append(interaction)

    @property
    def open_runs(self) -> int:
        return 0 if self._recorder is None else len(self._recorder)

    def only(self) -> Interaction:
        """Return the one interaction; nothing may be left open."""
        assert self.open_runs == 0
        (interaction,) = self.interactions
        return interaction


class ScriptedLLM(CustomLLM):
    """Says its pieces; fails after `fails_after` of them if told to."""

    pieces: tuple[str, ...] = PIECES
    raw: Any = {"usage": USAGE}  # noqa: RUF012 - pydantic copies it
    fails_after: int | None = None
    failure: Any = None

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted-1", context_window=100_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        if self.fails_after is not None:
            raise self.failure
        return CompletionResponse(text="".join(self.pieces), raw=self.raw)

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        def said() -> CompletionResponseGen:
            text = ""
            for n, piece in enumerate(self.pieces):
                if n == self.fails_after:
                    raise self.failure
                text += piece
                yield CompletionResponse(text=text, delta=piece, raw=self.raw)

        return said()


class ListRetriever(BaseRetriever):
    """Finds what it is given."""

    def __init__(self, nodes: Sequence[NodeWithScore], failure: Exception | None = None) -> None:
        super().__init__()
        self.nodes = list(nodes)
        self.failure = failure

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self.failure is not None:
            raise self.failure
        return list(self.nodes)


def some_nodes(n: int = 3) -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(id_=f"n{i}", text=f"Text {i}.", metadata={"page": i}), score=0.9 - i / 10
        )
        for i in range(n)
    ]


def query_engine(
    llm: ScriptedLLM | None = None,
    retriever: BaseRetriever | None = None,
    *,
    streaming: bool = False,
    **kwargs: Any,
) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(
        retriever or ListRetriever(some_nodes()),
        llm=llm or ScriptedLLM(),
        streaming=streaming,
        **kwargs,
    )


def chat_engine(kind: str, llm: ScriptedLLM | None = None, **kwargs: Any) -> Any:
    llm = llm or ScriptedLLM()
    # LlamaIndex's default memory opens a database that it never closes.
    memory = ChatMemoryBuffer.from_defaults(token_limit=100_000, tokenizer_fn=str.split)
    if kind == "condense_question":
        return CondenseQuestionChatEngine.from_defaults(
            query_engine(llm, **kwargs), llm=llm, memory=memory
        )
    engine = {
        "context": ContextChatEngine,
        "condense_plus_context": CondensePlusContextChatEngine,
    }[kind]
    retriever = kwargs.pop("retriever", None) or ListRetriever(some_nodes())
    return engine.from_defaults(retriever=retriever, llm=llm, memory=memory, **kwargs)
