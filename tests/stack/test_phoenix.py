"""A LangChain application, its traces and its scores, as a real Phoenix shows them."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ragmonitor.export import OtelExporter, Phoenix
from ragmonitor.export.posting import DeliveryError
from ragmonitor.export.providers import SpanIds
from ragmonitor.records import SpanReference
from tests.support.openai_server import OpenAiServer
from tests.support.phoenix_server import PhoenixServer, phoenix_server
from tests.support.scripts import run_python
from tests.support.waiting import until
from tests.unit.export.examples import (
    ANSWER,
    CHUNKS,
    MODEL,
    QUERY,
    evaluations,
    interaction,
    late_report,
)

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


def test_the_retriever_shows_its_documents(spans: dict[str, dict[str, Any]]) -> None:
    """With texts and ids, in order."""
    attributes = spans["retrieval Search"]["attributes"]
    documents = [each["document"] for each in attributes["retrieval"]["documents"]]
    assert [document["id"] for document in documents] == ["tower-1", "tower-2"]
    assert documents[0]["content"] == "The Eiffel Tower was built from 1887 to 1889."


def test_the_model_call_shows_what_was_asked(spans: dict[str, dict[str, Any]]) -> None:
    """Messages in, message out, model and tokens."""
    span = spans["chat gpt-4o-mini"]
    llm = span["attributes"]["llm"]
    messages = [each["message"] for each in llm["input_messages"]]
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[1]["content"] == "When was the Eiffel Tower built?"
    assert span["input"]["value"] == "When was the Eiffel Tower built?"
    assert llm["output_messages"][0]["message"]["role"] == "assistant"
    assert llm["model_name"] == "gpt-4o-mini"
    assert span["tokenCountTotal"] > 0


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


def emit(phoenix: PhoenixServer, project: str, monkeypatch: pytest.MonkeyPatch) -> SpanReference:
    """Send one trace; return its root span."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", phoenix.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", phoenix.otlp_headers)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"openinference.project.name={project}")
    exporter = OtelExporter("shop")
    target = exporter.emit(interaction(), [])
    assert exporter.flush(20)
    exporter.close()
    assert target is not None
    return target


def test_a_key_is_checked_before_anything_is_sent(phoenix: PhoenixServer) -> None:
    """`ragmonitor doctor` tells the right one from a wrong one."""
    Phoenix(phoenix.url, api_key=phoenix.api_key).check(10)
    with pytest.raises(DeliveryError, match="answers 401; check PHOENIX_API_KEY"):
        Phoenix(phoenix.url, api_key="wrong").check(10)


def test_the_same_score_twice_is_one_annotation(
    phoenix: PhoenixServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retries and repeated reports change a score, and add none."""
    target = emit(phoenix, "twice", monkeypatch)
    exporter = Phoenix(phoenix.url, api_key=phoenix.api_key)
    score = "faithfulness (openai/gpt-4o-mini)", "faithfulness@1 openai/gpt-4o-mini@p7"
    for value in (0.1, 0.9):
        exporter.export(late_report(target=target, evaluations=evaluations(MODEL, value)))
        assert exporter.flush(20)

        def shown(expected: float = value) -> bool:
            annotations = phoenix.spans("twice")["invoke_workflow support"]["annotations"]
            assert len(annotations) == 1
            return bool(annotations[score]["score"] == expected)

        until(f"the score is {value}", shown, within_s=PATIENCE_S)
    exporter.close()


def test_a_score_may_come_before_its_span(
    phoenix: PhoenixServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches leave when they like: the annotation waits in Phoenix for the span it names."""
    known = emit(phoenix, "known", monkeypatch)
    chosen = secrets.randbits(63) | 1
    target = SpanReference(trace_id="f" * 32, span_id=f"{chosen:016x}")
    exporter = Phoenix(phoenix.url, api_key=phoenix.api_key)
    exporter.export(late_report(target=target))
    exporter.export(late_report(target=known))
    assert exporter.flush(20)
    exporter.close()

    def annotated(project: str) -> bool:
        return bool(phoenix.spans(project)["invoke_workflow support"]["annotations"])

    # Phoenix has worked off its queue, and put aside what names no span that it knows.
    until("the second is shown", lambda: annotated("known"), within_s=PATIENCE_S)
    ids = iter(range(chosen, chosen + 100))
    monkeypatch.setattr(SpanIds, "generate_span_id", lambda _: next(ids))
    assert emit(phoenix, "early", monkeypatch).span_id == target.span_id
    until("the first has found its span", lambda: annotated("early"), within_s=PATIENCE_S)


def test_chinese_is_shown_as_it_is(phoenix: PhoenixServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Question, answer, chunks and explanation."""
    target = emit(phoenix, "中文", monkeypatch)
    exporter = Phoenix(phoenix.url, api_key=phoenix.api_key)
    exporter.export(late_report(target=target))
    assert exporter.flush(20)
    exporter.close()

    def annotated() -> dict[str, dict[str, Any]] | None:
        found = phoenix.spans("中文")
        return found if found["invoke_workflow support"]["annotations"] else None

    found = until("the annotation is shown", annotated, within_s=PATIENCE_S)
    root = found["invoke_workflow support"]
    assert (root["input"]["value"], root["output"]["value"]) == (QUERY, ANSWER)
    documents = found["retrieval Milvus"]["attributes"]["retrieval"]["documents"]
    assert documents[0]["document"]["content"] == CHUNKS[0].text
    (shown,) = root["annotations"].values()
    assert shown["explanation"] == "无依据: 99元"
