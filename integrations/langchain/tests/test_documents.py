"""Documents wherever applications put them, and answers under names of the application's own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import BaseModel

from integrations.langchain.tests.matrix import ListeningMonitor
from ragmonitor import Chunk
from ragmonitor.capture.recorder import ROOTS_WITHOUT_RETRIEVAL
from ragmonitor_langchain import instrument, uninstrument
from ragmonitor_langchain.translate import LangChainTranslator, kept_in

DOCS = [Document("The warranty lasts two years.", id="w"), Document("Our office is here.", id="o")]
TEXTS = [each.page_content for each in DOCS]
QUESTION, ANSWER = "How long is the warranty?", "The warranty lasts two years."
PROMPT = ChatPromptTemplate.from_template("{context}\n\n{question}")


class Says(BaseChatModel):
    """Says the same always."""

    message: Any = ANSWER

    @property
    def _llm_type(self) -> str:
        return "says"

    def bind_tools(self, *_: Any, **_options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **_options: Any) -> ChatResult:
        said = self.message
        message = said if isinstance(said, AIMessage) else AIMessage(said)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Finds(BaseRetriever):
    """Finds the same always."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return DOCS


class Cited(BaseModel):
    """An answer with its sources."""

    answer: str
    citations: list[int]


ARGS = {"answer": ANSWER, "citations": [1]}
CALLS = AIMessage("", tool_calls=[{"name": "Cited", "args": ARGS, "id": "1"}])
CONTAINERS: dict[str, Any] = {
    "tuple": tuple(DOCS),
    "pairs with scores": [(each, 0.5) for each in DOCS],
    "dumped": [each.model_dump() for each in DOCS],
    "texts": TEXTS,
}


def joined(found: Any) -> str:
    return "\n\n".join(each.page_content for each in found)


@pytest.mark.parametrize("shape", CONTAINERS)
def test_documents_in_a_state_are_found_in_any_container(monitor: Any, shape: str) -> None:
    """Pairs with scores, tuples, dumped documents, plain texts."""
    from langgraph.graph import START, StateGraph

    class State(TypedDict, total=False):
        question: str
        context: object
        answer: str

    def answer(state: State) -> State:
        asked = {"context": joined(DOCS), "question": state["question"]}
        return {"answer": (PROMPT | Says()).invoke(asked).text}

    graph = StateGraph(State)
    graph.add_node("retrieve", lambda _: {"context": CONTAINERS[shape]})
    graph.add_node("generate", answer)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    instrument(monitor)
    graph.compile().invoke({"question": QUESTION})
    assert [c.text for c in monitor.only.chunks] == TEXTS


@pytest.mark.parametrize("key", ["answer", "quoted_answer", "final"])
@pytest.mark.parametrize("raw", [False, True])
def test_a_structured_answer_stands_under_any_name(monitor: Any, key: str, raw: bool) -> None:
    """It is what the model called its function with."""
    model = Says(message=CALLS).with_structured_output(Cited, include_raw=raw)
    given = RunnableLambda(lambda x: {"context": joined(x["context"]), "question": x["question"]})
    chain: Any = RunnablePassthrough.assign(context=lambda x: Finds().invoke(x["question"]))
    instrument(monitor)
    chain.assign(**{key: given | PROMPT | model}).invoke({"question": QUESTION})
    assert ANSWER in monitor.only.answer


@pytest.mark.parametrize("key", ["", "answer"])
def test_the_answer_may_be_an_argument_of_a_forced_call(monitor: Any, key: str) -> None:
    """As where a model has to cite its sources; also where its message stands under a name."""
    prompt = {"context": Finds() | joined, "question": RunnablePassthrough()} | PROMPT
    chain: Any = prompt | Says(message=CALLS)
    instrument(monitor)
    (RunnableParallel({key: chain, "docs": Finds()}) if key else chain).invoke(QUESTION)
    assert monitor.only.answer == ANSWER


def _store() -> InMemoryVectorStore:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents(DOCS)
    return store


@pytest.mark.parametrize(
    "search",
    [
        lambda store, q: store.similarity_search(q),
        lambda store, q: [each for each, _ in store.similarity_search_with_score(q)],
        lambda store, q: store.as_retriever().invoke(q),
    ],
)
def test_a_search_of_a_vector_store_counts_once(
    monitor: Any, search: Callable[[Any, str], list[Document]]
) -> None:
    """In a lambda, and within a retriever."""
    store = _store()
    found = RunnableLambda(lambda q: joined(search(store, q)))
    instrument(monitor)
    ({"context": found, "question": RunnablePassthrough()} | PROMPT | Says()).invoke(QUESTION)
    (retrieval,) = monitor.only.retrievals
    assert retrieval.query == QUESTION
    assert sorted(c.text for c in retrieval.chunks) == sorted(TEXTS)


def test_stores_get_their_methods_back(monitor: Any) -> None:
    """After `uninstrument`; a store that is defined meanwhile is seen, too."""
    before = InMemoryVectorStore.similarity_search
    instrument(monitor)

    class Own(InMemoryVectorStore):
        def similarity_search(self, query: str, k: int = 4, **_: Any) -> list[Document]:
            return DOCS

    own = Own(DeterministicFakeEmbedding(size=8))
    assert InMemoryVectorStore.similarity_search is not before
    found = RunnableLambda(lambda q: joined(own.similarity_search(q)))
    ({"context": found, "question": RunnablePassthrough()} | PROMPT | Says()).invoke(QUESTION)
    assert [c.text for c in monitor.only.chunks] == TEXTS
    uninstrument()
    assert InMemoryVectorStore.similarity_search is before


def test_metadata_that_the_prompt_shows_is_part_of_the_chunk(monitor: Any) -> None:
    """As the model saw it; what was kept from the model is not."""
    meta = {"author": "Jane Smith", "year": 2021}

    class Paper(Finds):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document("Attention layers replace recurrence.", metadata=meta)]

    def by_author(found: list[Document]) -> str:
        return f"By {found[0].metadata['author']}: {found[0].page_content}"

    instrument(monitor)
    chain = {"context": Paper() | by_author, "question": RunnablePassthrough()} | PROMPT | Says()
    chain.invoke(QUESTION)
    (chunk,) = monitor.only.chunks
    assert chunk == Chunk(
        text="author: Jane Smith\n\nAttention layers replace recurrence.", metadata=meta
    )


class ObjectId:
    """As MongoDB's: neither a text nor a number."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def test_the_id_of_a_point_of_qdrants_is_the_chunks() -> None:
    """Its store keeps it in the metadata, and gives its documents none; so does MongoDB's."""
    found = [
        Document(text, metadata={"_id": ObjectId(f"point-{n}")}) for n, text in enumerate(TEXTS)
    ]
    run = SimpleNamespace(outputs=kept_in(found))
    ids = [chunk.id for chunk in LangChainTranslator().chunks(run) or ()]  # type: ignore[arg-type]
    assert ids == ["point-0", "point-1"]


def test_models_without_a_retrieval_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """In the log with the remedy, and in the counter of what was dropped."""
    monitor = ListeningMonitor()
    instrument(monitor)
    chain = ChatPromptTemplate.from_template("{question}") | Says()
    for _ in range(ROOTS_WITHOUT_RETRIEVAL + 5):
        chain.invoke({"question": QUESTION})
    uninstrument()
    assert monitor.forgotten == ["no_retrieval"]
    assert [r.getMessage().count("@monitor.retrieves") for r in caplog.records] == [1]
