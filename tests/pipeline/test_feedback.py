"""People's say, from the application's hands to series, traces, files and other tools."""

from __future__ import annotations

import asyncio
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

from ragmonitor import InteractionIdMiddleware, Monitor, ServerSettings
from ragmonitor.runtime.errors import FeedbackError
from ragmonitor.testing import ListExporter
from ragmonitor_langchain import RagMonitorHandler


class Listening(ListExporter):
    """An exporter of an application that is told of feedback too."""

    def __init__(self) -> None:
        super().__init__()
        self.told = []

    def feedback(self, joined) -> None:
        self.told.append(joined)


class Found(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("A parcel may weigh 40 kg.")]


def chain():
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    model = FakeListChatModel(responses=["A parcel may weigh 40 kg."])
    return {"context": Found(), "question": RunnablePassthrough()} | prompt | model


def answered(monitor, answer="A parcel may weigh 40 kg."):
    with monitor.interaction(query="How heavy may a parcel be?") as i:
        i.retrieved(["A parcel may weigh 40 kg."])
        i.answered(answer)
    return i.id


def test_feedback_of_days_later_finds_the_answer_of_an_earlier_process(tmp_path):
    with Monitor(service="test", server=False, state=tmp_path) as monitor:
        identity = answered(monitor)
    listening = Listening()
    with Monitor(service="test", server=False, state=tmp_path, exporters=[listening]) as monitor:
        monitor.feedback(identity, "up")
        assert monitor.flush(60)
    assert len(listening.told) == 1


def test_langchain_s_run_id_is_the_id(tmp_path):
    """The one that the caller gave in the config, in LangSmith's spelling."""
    listening, run = Listening(), uuid.uuid4()
    with Monitor(service="test", server=False, exporters=[listening]) as monitor:
        handler = RagMonitorHandler(monitor)
        chain().invoke("How heavy?", {"callbacks": [handler], "run_id": run})
        assert monitor.current_id() == run.hex
        FakeListChatModel(responses=["a title"]).invoke("Name it", {"callbacks": [handler]})
        assert monitor.current_id() == run.hex  # what was no interaction is none
        monitor.feedback(str(run), True)
        assert monitor.flush(60)
    (joined,) = listening.told
    assert joined.feedback.interaction_id == run.hex


def test_an_argument_that_is_none_is_the_caller_s_error_and_nothing_else_is_raised():
    monitor = Monitor(service="test", server=False)
    with pytest.raises(FeedbackError):
        monitor.feedback("a", 17)
    monitor.feedback("nobody", True)
    monitor.close()
    monitor.feedback("too late", True)


@pytest.mark.parametrize("kind", ["async", "thread", "nested task"])
def test_the_response_names_the_interaction(kind):
    """However the endpoint runs: FastAPI runs plain functions on another thread."""
    app = FastAPI()
    app.add_middleware(InteractionIdMiddleware)
    ids = []
    with Monitor(service="test", server=False) as monitor:

        @app.get("/async")
        async def on_loop():
            ids.append(answered(monitor))

        @app.get("/thread")
        def on_thread():
            ids.append(answered(monitor))

        @app.get("/nested task")
        async def in_task():
            async def work():
                ids.append(answered(monitor))

            await asyncio.create_task(work())

        @app.get("/none")
        async def none():
            return {}

        with TestClient(app) as client, ThreadPoolExecutor(4) as pool:
            replies = [*pool.map(lambda _: client.get(f"/{kind}"), range(8))]
            assert "x-ragmonitor-interaction" not in client.get("/none").headers
    named = [reply.headers["x-ragmonitor-interaction"] for reply in replies]
    assert sorted(named) == sorted(ids)


def test_no_feedback_is_taken_by_http_unless_it_is_asked_for():
    with Monitor(service="test", server=ServerSettings(port=0)) as monitor:
        answered(monitor)
        assert monitor.flush(60)
        url = monitor.metrics_url.replace("/metrics", "/ragmonitor/feedback")
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(url, b"{}", timeout=10)
