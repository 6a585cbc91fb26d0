"""The application's own failures are recorded, and reach it unchanged."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document

from ragmonitor_langchain import RagMonitorHandler, instrument


class BrokenError(Exception):
    """The application's own."""


def _failing(apps: Any, where: str, failure: Exception) -> Any:
    def fail(*_: Any) -> Any:
        raise failure

    if where == "retriever":
        return apps.lcel(retriever=apps.Notes(failure=failure))
    if where == "model":
        return apps.lcel(llm=apps.AnsweringModel(respond=fail))
    return apps.lcel(parser=fail)


@pytest.mark.parametrize("where", ["retriever", "model", "parser"])
class TestFailures:
    """Wherever it fails, and however it was called."""

    async def test_the_application_sees_its_own_exception(
        self, monitor: Any, apps: Any, way: Any, where: str
    ) -> None:
        """The very same object, not a copy and not one of ours."""
        instrument(monitor)
        failure = BrokenError("no disk")
        with pytest.raises(BrokenError) as raised:
            await way(_failing(apps, where, failure), ["a"], {})
        assert raised.value is failure

    async def test_the_record_says_what_failed(
        self, monitor: Any, apps: Any, way: Any, where: str
    ) -> None:
        """Status `error`, with type and message."""
        instrument(monitor)
        with pytest.raises(BrokenError):
            await way(_failing(apps, where, BrokenError("no disk")), ["a"], {})
        assert (monitor.only.status, monitor.only.error) == ("error", "BrokenError: no disk")

    async def test_the_record_has_the_query(
        self, monitor: Any, apps: Any, way: Any, where: str
    ) -> None:
        """What was asked is known although there is no answer."""
        instrument(monitor)
        with pytest.raises(BrokenError):
            await way(_failing(apps, where, BrokenError("no disk")), ["a"], {})
        assert monitor.only.query == "a"


def test_a_failed_model_has_its_error(monitor: Any, apps: Any) -> None:
    """The generation that failed says so itself."""
    instrument(monitor)
    with pytest.raises(BrokenError):
        _failing(apps, "model", BrokenError("no disk")).chain.invoke("a")
    assert [g.error for g in monitor.only.generations] == ["BrokenError: no disk"]


def test_a_fallback_that_answers_is_ok(monitor: Any, apps: Any) -> None:
    """The user got an answer; the first model's failure is in its generation only."""
    instrument(monitor)

    def fail(_: str) -> str:
        raise BrokenError("busy")

    broken = apps.AnsweringModel(respond=fail)
    apps.lcel(llm=broken.with_fallbacks([apps.model()])).chain.invoke("a")
    assert (monitor.only.status, monitor.only.answer) == ("ok", apps.ANSWER)
    assert [g.error for g in monitor.only.generations] == ["BrokenError: busy", ""]


# --- our own failures ----------------------------------------------------------------------------


class BrokenRecorder:
    """Raises whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError(name)

        return fail


class BrokenMonitor:
    """Has nothing but a broken recorder."""

    def recorder(self, translator: Any) -> Any:
        return BrokenRecorder()


class BrokenTranslator:
    """Fails to read anything."""

    framework = "langchain"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.fixture
def langchain_warnings(caplog: pytest.LogCaptureFixture) -> Any:
    """Return what LangChain logged of handlers that raise."""
    return lambda: [r for r in caplog.records if r.name.startswith("langchain_core")]


async def test_a_bug_of_ours_never_reaches_the_application(
    build: Any, way: Any, apps: Any, langchain_warnings: Any
) -> None:
    """A recorder that always raises: the answers are right and LangChain hears nothing of it."""
    handler = RagMonitorHandler(BrokenMonitor())  # type: ignore[arg-type]
    answers = await way(build(), ["a"], {"callbacks": [handler]})
    assert answers == [apps.ANSWER]
    assert langchain_warnings() == []


async def test_a_bug_of_ours_never_hides_the_applications_error(
    build: Any, way: Any, apps: Any, langchain_warnings: Any
) -> None:
    """A recorder that always raises: the application still sees its own exception."""
    handler = RagMonitorHandler(BrokenMonitor())  # type: ignore[arg-type]
    failure = BrokenError("no disk")
    with pytest.raises(BrokenError) as raised:
        await way(build(apps.Notes(failure=failure)), ["a"], {"callbacks": [handler]})
    assert raised.value is failure
    assert langchain_warnings() == []


async def test_a_translator_that_raises_is_not_felt(
    monitor: Any, build: Any, way: Any, apps: Any
) -> None:
    """Objects are read behind the request, so that reading them cannot fail in it."""
    monitor.recorder(BrokenTranslator())
    instrument(monitor)
    assert await way(build(), ["a"], {}) == [apps.ANSWER]
    assert len(monitor.finished) == 1


def test_objects_that_cannot_be_kept_leave_nothing_open(
    monitor: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Something that is no document: the run ends all the same."""
    handler = RagMonitorHandler(monitor)
    run: Any = "run"
    handler.on_retriever_start(None, "a", run_id=run)
    handler.on_retriever_end([object()], run_id=run)  # type: ignore[list-item]
    assert monitor.open_runs == 0
    assert [record.name for record in caplog.records] == ["ragmonitor"]
    caplog.clear()


def test_documents_of_a_kind_of_their_own_are_read(monitor: Any, apps: Any) -> None:
    """Subclasses of Document, as some stores give them."""

    class Page(Document):
        number: int = 0

    class Pages(apps.Notes):  # type: ignore[misc]
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Page(page_content="a page", number=3)]

    instrument(monitor)
    apps.lcel(Pages()).chain.invoke("a")
    assert [c.text for c in monitor.only.chunks] == ["a page"]
