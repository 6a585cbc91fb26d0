"""What the tests of capture share: a monitor that keeps its reports, and records as plain data."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry import trace

from ragmonitor import Chunk, ExportSettings, Interaction, Monitor
from ragmonitor.testing import ListExporter

DATA = Path(__file__).parent / "data"
WATCHING: dict[str, Any] = {
    "service": "contract",
    "server": False,
    # On a thread: a process of its own takes a second to start, for which every test would wait.
    "worker": "thread",
}
"""The options of every monitor here."""
THINGS = ("pump", "valve", "motor")
"""The subjects of questions that are asked at the same time; the data speak of the first."""
USUAL: dict[str, Any] = {
    "not_shown": [],
    "status": "ok",
    "error": "",
    "incomplete": False,
    "session": "",
    "user": "",
    "tags": [],
}
"""What the data leave out of a record."""


class Watched:
    """A monitor, and the interactions that it reported to its exporter."""

    def __init__(self, **options: Any) -> None:
        self.reports = ListExporter()
        without_traces = {"export": ExportSettings(traces=False)}
        self.monitor = Monitor(exporters=[self.reports], **WATCHING | without_traces | options)

    def told(self) -> list[dict[str, Any]]:
        """Return all records so far as the data tell them, by question."""
        assert self.monitor.flush(20)
        records = map(told, self.reports.interactions())
        return sorted(records, key=lambda record: record["question"])

    def is_below(self, span: trace.Span) -> bool:
        """Return whether every record names this span as its caller, and it is recorded."""
        wanted = trace.format_span_id(span.get_span_context().span_id)
        callers = [
            record.caller and record.caller.span_id for record in self.reports.interactions()
        ]
        return span.is_recording() and bool(callers) and set(callers) == {wanted}


@contextmanager
def watching(**options: Any) -> Iterator[Watched]:
    """Give a monitor, and close it; no run may be left open."""
    watched = Watched(**options)
    try:
        yield watched
        until("no run is open", lambda: not watched.monitor.open_runs)
    finally:
        watched.monitor.close()


def told(record: Interaction) -> dict[str, Any]:
    """Return what the data say of a record."""
    return {
        "framework": record.framework,
        "question": record.query,
        "chunks": [*map(_chunk, record.chunks)],
        "not_shown": [chunk.text for chunk in record.not_shown],
        "answer": record.answer,
        "status": record.status,
        "error": record.error,
        "tokens": [record.usage.input_tokens, record.usage.output_tokens],
        "incomplete": record.capture_incomplete,
        "session": record.session_id,
        "user": record.user_id,
        "tags": [*record.tags],
    }


def _chunk(chunk: Chunk) -> list[Any]:
    return [chunk.text, chunk.id, chunk.score if chunk.score is None else round(chunk.score, 4)]


def check(found: list[dict[str, Any]], *cases: Mapping[str, Any], framework: str = "") -> None:
    """Compare records with cases: what a case names, and of the rest what is usual.

    An id of a chunk that is null in the data is one that the framework makes up.
    """
    expected = [
        USUAL | ({"framework": framework} if framework else {}) | {**case} for case in cases
    ]
    expected.sort(key=lambda each: each["question"])
    assert len(found) == len(expected), found
    for record, case in zip(found, expected, strict=True):
        for chunk, known in zip(record["chunks"], case.get("chunks", ()), strict=False):
            chunk[1] = known[1] if known[1] is None else chunk[1]
        differing = [key for key, value in record.items() if case.get(key, value) != value]
        assert not differing, {key: (record[key], "expected:", case[key]) for key in differing}


def cases(name: str) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines() if line]


def about(case: Mapping[str, Any], thing: str) -> dict[str, Any]:
    """Return the same case of another thing."""
    return json.loads(json.dumps(case).replace(THINGS[0], thing))


def until(what: str, look: Callable[[], Any], *, within_s: float = 20.0) -> Any:
    """Return the first true answer; what nobody holds any more is collected meanwhile."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        gc.collect()
        time.sleep(0.01)
    return found


def result_of(call: Any) -> Any:
    """Return what was called gave; a coroutine is run on an event loop of its own."""
    return asyncio.run(call) if asyncio.iscoroutine(call) else call
