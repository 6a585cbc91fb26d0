"""A Chinese interaction on its whole way: framework, both judges, trace, series, file."""

import json

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

from ragmonitor import Budget, JsonLines, JudgeSettings, Monitor, ServerSettings
from ragmonitor_langchain import RagMonitorHandler
from tests.support.openai_server import OpenAiServer
from tests.support.otlp_receiver import otlp_receiver, plain
from tests.support.scrape import outcomes, total

QUERY = "长城有多长？"
TEXTS = ["长城全长约21196公里。", "长城始建于春秋战国时期。"]
ANSWER = "长城全长约21196公里。它由拿破仑设计。"


class Search(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(text) for text in TEXTS]


@pytest.fixture
def told(tmp_path, monkeypatch):
    file = tmp_path / "reports.jsonl"
    with otlp_receiver() as receiver, OpenAiServer() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        with Monitor(
            service="长城",
            judge=JudgeSettings(model="openai/judge", api_base=server.api_base),
            sample=1.0,
            budget=Budget(tokens_per_day=100_000_000),
            server=ServerSettings(port=0),
            exporters=[JsonLines(file)],
        ) as monitor:
            prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
            chain = (
                {"context": Search(), "question": RunnablePassthrough()}
                | prompt
                | FakeListChatModel(responses=[ANSWER])
            )
            chain.invoke(QUERY, {"callbacks": [RagMonitorHandler(monitor)]})
            assert monitor.flush(60)
            lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            yield monitor, receiver, server, lines


def test_a_chinese_answer_goes_the_whole_way(told):
    """Both judges find the invented sentence; trace, event, series and file carry the text."""
    monitor, receiver, server, lines = told
    builtin, judged = lines
    assert builtin["answer"] == judged["answer"] == ANSWER
    assert [s["verdict"] for s in builtin["sentences"]] == ["supported", "absent"]
    assert "拿破仑" in "".join(builtin["sentences"][1]["words"])
    assert judged["judge"].startswith("openai/judge")
    assert judged["evaluations"]["faithfulness"] == {"score": 0.5}
    assert len(server.chats) == 1

    spans = {
        plain(span.attributes)["openinference.span.kind"]: (span, plain(span.attributes))
        for span in receiver.spans().values()
    }
    root, seen = spans["CHAIN"]
    assert (seen["input.value"], seen["output.value"]) == (QUERY, ANSWER)
    retrieval, seen = spans["RETRIEVER"]
    assert seen["retrieval.documents.1.document.content"] == TEXTS[1]
    assert retrieval.parent_span_id == root.span_id
    evaluator, _ = spans["EVALUATOR"]
    assert [link.span_id for link in evaluator.links] == [root.span_id]
    assert {log.event_name for log in receiver.log_records()} == {"gen_ai.evaluation.result"}

    for judge in ("builtin", "openai/judge"):
        found = outcomes(monitor.registry, judge=judge, evaluator="faithfulness", service="长城")
        assert found == {"scored": 1}
        assert total(monitor.registry, "ragmonitor_hallucination_rate", judge=judge, window="1h")
    assert total(monitor.registry, "ragmonitor_judge_calls_total") == 1
