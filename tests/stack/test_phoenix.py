"""A LangChain application, its traces and its scores, as a real Phoenix shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ragmonitor.export import Phoenix
from ragmonitor.export.posting import DeliveryError
from tests.support.openai_server import OpenAiServer
from tests.support.phoenix_server import PhoenixServer, phoenix_server
from tests.support.scripts import run_python
from tests.support.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.slow]

PATIENCE_S = 60.0
"""Phoenix looks every ten seconds for the spans of annotations that came first."""

APPLICATION = """
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from ragmonitor import Monitor
from ragmonitor_langchain import instrument
from ragmonitor_langchain.driver import AnsweringModel


class Search(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [
            Document("The Eiffel Tower was built from 1887 to 1889.", id="tower-1"),
            Document("It is 330 metres tall.", id="tower-2", metadata={"source": "wiki"}),
        ]


ANSWER = "It was built from 1887 to 1889. It was designed by Napoleon Bonaparte."
monitor = Monitor(
    service="tower",
    judge="openai/judge",
    sample=1.0,
    budget="tokens_per_day=100_000_000",
    server=False,
)
instrument(monitor)
prompt = ChatPromptTemplate.from_messages(
    [("system", "Answer from this: {context}"), ("user", "{question}")]
)
model = AnsweringModel(respond=lambda _: ANSWER, model="gpt-4o-mini")
given = {"context": Search(), "question": RunnablePassthrough()}
chain = given | prompt | model | StrOutputParser()
print(chain.invoke("When was the Eiffel Tower built?", config={"run_name": "tower"}))
assert monitor.flush(60)
monitor.close()
"""


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhoenixServer]:
    with phoenix_server(tmp_path_factory.mktemp("phoenix")) as server:
        yield server


@pytest.fixture(scope="module")
def spans(
    phoenix: PhoenixServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """Return the spans of one run of the application, when its scores are there."""
    with OpenAiServer() as model:
        run_python(
            APPLICATION,
            tmp_path_factory.mktemp("application"),
            RAGMONITOR_EXPORTERS=f"phoenix:{phoenix.url}",
            PHOENIX_API_KEY=phoenix.api_key,
            RAGMONITOR_JUDGE__API_BASE=model.api_base,
            OPENAI_API_KEY="none",
            OTEL_EXPORTER_OTLP_ENDPOINT=phoenix.url,
            OTEL_EXPORTER_OTLP_HEADERS=phoenix.otlp_headers,
            OTEL_LOGS_EXPORTER="none",
            OTEL_RESOURCE_ATTRIBUTES="openinference.project.name=tower",
        )

    def scored() -> dict[str, dict[str, Any]] | None:
        found = phoenix.spans("tower")
        annotations = found["invoke_workflow tower"]["annotations"]
        by_judge = Counter(name.partition(" (")[2] for name, _ in annotations)
        return found if len(by_judge) == 2 and len(set(by_judge.values())) == 1 else None

    return until("both judges' scores are shown", scored, within_s=PATIENCE_S)


def test_the_chain_shows_question_and_answer(spans: dict[str, dict[str, Any]]) -> None:
    """One tree: the chain with the retriever, the model and the late judge below."""
    root = spans["invoke_workflow tower"]
    assert root["spanKind"] == "chain"
    assert root["parentId"] is None
    assert root["input"]["value"] == "When was the Eiffel Tower built?"
    assert root["output"]["value"].startswith("It was built from 1887 to 1889.")
    kinds = {span["spanKind"] for span in spans.values() if span["parentId"] == root["spanId"]}
    assert kinds == {"retriever", "llm", "evaluator"}


@pytest.mark.parametrize(("judge", "kind"), [("builtin", "CODE"), ("openai/judge", "LLM")])
def test_the_scores_of_each_judge_are_annotations(
    spans: dict[str, dict[str, Any]], judge: str, kind: str
) -> None:
    """The built-in one's, known when the trace left, and the model's, that came later."""
    annotations = spans["invoke_workflow tower"]["annotations"]
    ((_, identifier),) = (key for key in annotations if key[0] == f"faithfulness ({judge})")
    shown = annotations[f"faithfulness ({judge})", identifier]
    assert identifier.startswith(f"faithfulness@1 {judge}@")
    assert (shown["score"], shown["label"], shown["annotatorKind"]) == (0.5, None, kind)
    assert "Napoleon" in shown["explanation"]
    assert shown["metadata"]["chance"] == 1.0


def test_a_key_is_checked_before_anything_is_sent(phoenix: PhoenixServer) -> None:
    """`ragmonitor doctor` tells the right one from a wrong one."""
    Phoenix(phoenix.url, api_key=phoenix.api_key).check(10)
    with pytest.raises(DeliveryError, match="answers 401; check PHOENIX_API_KEY"):
        Phoenix(phoenix.url, api_key="wrong").check(10)
