"""Failures of our own never reach the application."""

from __future__ import annotations

import inspect
import itertools
import uuid
from typing import Any

import pytest
from langchain_core.documents import Document

from integrations.langchain.tests.matrix import ListeningMonitor
from ragmonitor_langchain import RagMonitorHandler, instrument


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


def test_objects_that_cannot_be_kept_leave_nothing_open(
    monitor: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Something that is no document: the run ends all the same."""
    handler = RagMonitorHandler(monitor)
    run: Any = "run"
    handler.on_retriever_start(None, "a", run_id=run)
    handler.on_retriever_end([object()], run_id=run)  # type: ignore[list-item]
    assert monitor.open_runs == 0
    assert caplog.records == []


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


class Raising:
    """Raises whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    __bool__ = __hash__ = __str__ = None  # type: ignore[assignment]


CALLBACKS = sorted(name for name in vars(RagMonitorHandler) if name.startswith("on_"))
ODD: tuple[Any, ...] = (None, 5, "text", [], [5], [[5]], {}, object(), Document("text"), Raising())


@pytest.mark.parametrize("name", CALLBACKS)
def test_no_callback_raises_whatever_it_is_given(name: str) -> None:
    """Other code calls handlers, too, with values of any type."""
    callback = getattr(RagMonitorHandler(ListeningMonitor()), name)  # type: ignore[arg-type]
    signature = inspect.signature(callback).parameters.values()
    given = sum(1 for each in signature if each.kind is each.POSITIONAL_OR_KEYWORD)
    for values in itertools.product(ODD, repeat=given):
        for run_id in (None, 5, uuid.uuid4(), Raising()):
            callback(*values, run_id=run_id)
