"""Each fault of a part, by each way that an application runs.

What the application gets is what it gets without a monitor; every interaction is scored or
unscored; and the monitor closes in its time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ragmonitor_langchain
import ragmonitor_llama_index
from integrations.langchain.tests.conftest import lcel
from integrations.llama_index.tests.scripted import query_engine
from ragmonitor import Budget, EstimationSettings, ExportSettings, JsonLines, Monitor
from ragmonitor.evaluators import table
from ragmonitor.evaluators.table import evaluator
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import outcomes, total
from tests.support.settings import merged
from tests.support.stories import assessment

QUESTION = "How often is the pump serviced?"
PIECES = ("The pump ", "is serviced ", "every six months.")


class PanicException(BaseException):
    """What an extension module in Rust raises: no `Exception`."""


# --- how an application runs


def _plain(monitor: Monitor | None) -> dict[str, Callable[[], Any]]:
    answers: Any = monitor.answers if monitor is not None else lambda function: function
    retrieves: Any = monitor.retrieves if monitor is not None else lambda function: function

    @retrieves
    def search(_question):
        return ["Serviced every six months.", "The pump is blue."]

    @answers
    def sync(question):
        search(question)
        return "".join(PIECES)

    @answers
    async def asynchronous(question):
        search(question)
        return "".join(PIECES)

    @answers
    def stream(question):
        search(question)
        yield from PIECES

    @answers
    async def astream(question):
        search(question)
        for piece in PIECES:
            yield piece

    @answers
    def failing(question):
        search(question)
        raise KeyError(question)

    async def gathered():
        return [piece async for piece in astream(QUESTION)]

    return {
        "plain": lambda: sync(QUESTION),
        "plain, async": lambda: asyncio.run(asynchronous(QUESTION)),
        "plain, stream": lambda: list(stream(QUESTION)),
        "plain, async stream": lambda: asyncio.run(gathered()),
        "plain, failing": lambda: failing(QUESTION),
    }


def _langchain() -> dict[str, Callable[[], Any]]:
    chain = lcel().chain

    async def gathered():
        return [piece async for piece in chain.astream(QUESTION)]

    return {
        "langchain": lambda: chain.invoke(QUESTION),
        "langchain, async": lambda: asyncio.run(chain.ainvoke(QUESTION)),
        "langchain, stream": lambda: list(chain.stream(QUESTION)),
        "langchain, async stream": lambda: asyncio.run(gathered()),
    }


def _llama_index() -> dict[str, Callable[[], Any]]:
    async def asynchronous():
        return str(await query_engine().aquery(QUESTION))

    async def gathered():
        found = await query_engine(streaming=True).aquery(QUESTION)
        return [piece async for piece in found.async_response_gen()]

    return {
        "llama_index": lambda: str(query_engine().query(QUESTION)),
        "llama_index, async": lambda: asyncio.run(asynchronous()),
        "llama_index, stream": lambda: list(
            query_engine(streaming=True).query(QUESTION).response_gen
        ),
        "llama_index, async stream": lambda: asyncio.run(gathered()),
    }


def results(monitor: Monitor | None) -> dict[str, Any]:
    """Return what every way gives the application, or raises into it."""
    found: dict[str, Any] = {}
    for way, run in {**_plain(monitor), **_langchain(), **_llama_index()}.items():
        try:
            found[way] = run()
        except BaseException as error:  # noqa: BLE001 - what the application would see
            found[way] = repr(error)
    return found


@pytest.fixture(scope="module")
def unmonitored() -> dict[str, Any]:
    return results(None)


# --- what fails


def _raise(error: BaseException) -> Any:
    raise error


class Hanging(ScriptedJudge):
    async def assess(self, interaction):
        await asyncio.sleep(600)
        return await super().assess(interaction)


class Exporting(ListExporter):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        for method in ("export", "flush", "close", "snapshot", "alarm"):
            setattr(self, method, lambda *_: _raise(error))


def judged(said: Any) -> dict[str, Any]:
    return {"judge": ScriptedJudge(said if callable(said) else lambda _: said)}


SOUND = assessment("supported")
HUGE = "x" * 2_000_000
FAULTS: dict[str, Callable[[], dict[str, Any]]] = {
    "none": lambda: judged(SOUND),
    "judge raises": lambda: judged(lambda _: _raise(ValueError("no"))),
    "judge panics": lambda: judged(lambda _: _raise(PanicException("no"))),
    "judge exits": lambda: judged(lambda _: _raise(SystemExit(3))),
    "judge hangs": lambda: {"judge": Hanging(lambda _: SOUND)},
    "judge gives nothing": lambda: judged(None),
    "judge gives a text": lambda: judged("faithful"),
    "judge gives no sentences": lambda: judged(replace(SOUND, sentences=3)),
    "judge gives an odd language": lambda: judged(replace(SOUND, language="fr")),
    "judge gives odd numbers": lambda: judged(
        replace(SOUND, answer_relevancy="1", chunk_relevance=(None, "a"), risk=float("nan"))
    ),
    "judge gives no judge": lambda: judged(replace(SOUND, judge=None)),
    "judge gives a huge reply": lambda: judged(
        replace(SOUND, sentences=tuple(replace(s, text=HUGE) for s in SOUND.sentences * 20))
    ),
    "exporter raises": lambda: {"exporters": [Exporting(ValueError("no"))]} | judged(SOUND),
    "exporter exits": lambda: {"exporters": [Exporting(SystemExit(3))]} | judged(SOUND),
    "exporter panics": lambda: {"exporters": [Exporting(PanicException())]} | judged(SOUND),
    "evaluator panics": lambda: {"evaluators": ("faithfulness", "panics")} | judged(SOUND),
    "evaluator gives a text": lambda: {"evaluators": ("faithfulness", "texts")} | judged(SOUND),
    "evaluator gives no number": lambda: {"evaluators": ("faithfulness", "nan")} | judged(SOUND),
    "redaction raises": lambda: (
        {"content": {"redaction": ("secrets", lambda _: _raise(ValueError("no")))}} | judged(SOUND)
    ),
    "redaction panics": lambda: (
        {"content": {"redaction": ("secrets", lambda _: _raise(PanicException()))}} | judged(SOUND)
    ),
    "redaction gives no text": lambda: (
        {"content": {"redaction": ("secrets", lambda _: None)}} | judged(SOUND)
    ),
}


@pytest.fixture(autouse=True)
def _evaluators() -> Iterator[None]:
    known = dict(table._entries)
    evaluator("panics", needs_context=False)(lambda _i, _a: _raise(PanicException("no")))
    evaluator("texts", needs_context=False)(lambda _i, _a: "0.5")
    evaluator("nan", needs_context=False)(lambda _i, _a: float("nan"))
    yield
    table._entries.clear()
    table._entries.update(known)


@contextlib.contextmanager
def instrumented(monitor: Monitor) -> Iterator[None]:
    ragmonitor_langchain.instrument(monitor)
    ragmonitor_llama_index.instrument(monitor)
    try:
        yield
    finally:
        ragmonitor_langchain.uninstrument()
        ragmonitor_llama_index.uninstrument()


def reconciles(monitor: Monitor, captured: int) -> None:
    """Check that every judge has one outcome for every evaluator and interaction."""
    assert total(monitor.registry, "ragmonitor_interactions_total") == captured
    worker = monitor._back.worker
    for judge in worker._judges():
        for entry in worker.ledger._entries:
            found = outcomes(monitor.registry, judge=judge.identity.name, evaluator=entry.name)
            assert sum(found.values()) == captured, (judge.identity.name, entry.name, found)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_application_does_not_notice(fault, unmonitored, monkeypatch):
    """The same results and errors as without; the law of counts holds; the end is prompt."""
    monkeypatch.setattr("ragmonitor.supervised.FIRST_PAUSE_S", 0.01)
    options = merged({"sample": 1.0}, FAULTS[fault]())
    monitor = Monitor("t", server=False, export=ExportSettings(traces=False), **options)
    with instrumented(monitor):
        assert results(monitor) == unmonitored
    if fault != "judge hangs":
        assert monitor.flush(10) or "exporter" in fault or "panics" in fault
    began = time.monotonic()
    monitor.close(3.0)
    assert time.monotonic() - began < 4.0
    reconciles(monitor, len(unmonitored))


def _removed(folder: Path, _patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder)


def _a_file(folder: Path, _patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(folder)
    folder.write_text("no folder", encoding="utf-8")


def _full(_folder: Path, patch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_options: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("write", "replace", "fsync"):
        patch.setattr(os, name, refuse)
    patch.setattr(Path, "replace", refuse)
    patch.setattr(Path, "write_text", refuse)
    patch.setattr(Path, "write_bytes", refuse)


def _earlier(_folder: Path, patch: pytest.MonkeyPatch) -> None:
    now, now_ns = time.time, time.time_ns
    patch.setattr(time, "time", lambda: now() - 86_400)
    patch.setattr(time, "time_ns", lambda: now_ns() - 86_400 * 10**9)


DISKS = {"removed": _removed, "replaced": _a_file, "full": _full, "clock goes back": _earlier}


@pytest.mark.parametrize("event", DISKS)
def test_a_folder_that_fails_while_running_costs_the_application_nothing(
    event, unmonitored, tmp_path, monkeypatch
):
    """State and lines: what cannot be kept is said and counted, and all else goes on."""
    folder = tmp_path / "ours"
    monitor = Monitor(
        service="t",
        server=False,
        export=ExportSettings(traces=False),
        sample=1.0,
        budget=Budget(calls_per_day=10**6),
        estimation=EstimationSettings(drift_reference_size=100),
        state=folder / "state",
        exporters=[JsonLines(folder / "r.jsonl")],
        **judged(SOUND),
    )
    with instrumented(monitor):
        assert results(monitor) == unmonitored
        assert monitor.flush(10)
        with monkeypatch.context() as patch:
            DISKS[event](folder, patch)
            assert results(monitor) == unmonitored
            monitor.flush(10)
            began = time.monotonic()
            monitor.close(3.0)
            assert time.monotonic() - began < 4.0
    reconciles(monitor, 2 * len(unmonitored))
    found = outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
    assert found["scored"] == 2 * (len(unmonitored) - 1)
