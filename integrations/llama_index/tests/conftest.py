"""One monitor per test, listening to the whole process; nothing may be left behind."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from llama_index_instrumentation import get_dispatcher

from integrations.llama_index.tests.scripted import FakeMonitor
from ragmonitor_llama_index import instrument, uninstrument
from ragmonitor_llama_index.handler import EventListener, SpanListener

_QUIET = ("ragmonitor", "opentelemetry", "llama_index", "workflows")


@pytest.fixture
def quiet_monitor() -> Iterator[FakeMonitor]:
    """Give a monitor to which nobody listens yet."""
    yield FakeMonitor()
    uninstrument()
    dispatcher = get_dispatcher()
    for handler in (*dispatcher.span_handlers, *dispatcher.event_handlers):
        assert not isinstance(handler, (SpanListener, EventListener))


@pytest.fixture
def monitor(quiet_monitor: FakeMonitor, caplog: pytest.LogCaptureFixture) -> Iterator[FakeMonitor]:
    """Give one that records the process; no error of ours, no word from OpenTelemetry."""
    instrument(quiet_monitor)
    yield quiet_monitor
    for record in caplog.get_records("call"):
        theirs = record.name.startswith(_QUIET)
        assert not (theirs and record.levelno >= logging.WARNING), record.getMessage()
