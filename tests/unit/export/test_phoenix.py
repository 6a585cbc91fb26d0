"""Reports as annotations in Phoenix, against its documented API."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragmonitor import Phoenix
from ragmonitor.records import Report
from ragmonitor.runtime.protocols import ExportContext
from tests.support.scoring_server import FakePhoenix
from tests.support.scripts import run_python
from tests.unit.export.examples import (
    LEXICAL,
    TARGET,
    late_report,
    report,
)


@pytest.fixture
def phoenix() -> Iterator[FakePhoenix]:
    with FakePhoenix() as running:
        yield running


def export(
    phoenix: FakePhoenix, *reports: Report, api_key: str | None = None, **context: object
) -> bool:
    """Export and flush; return whether all of it arrived."""
    exporter = Phoenix(phoenix.url, api_key=api_key)
    exporter.configure(ExportContext(**context))  # type: ignore[arg-type]
    for each in reports:
        exporter.export(each)
    arrived = exporter.flush(10)
    exporter.close()
    return arrived


def test_two_judges_are_two_annotations(phoenix: FakePhoenix) -> None:
    """Phoenix averages what has one name, and theirs are two scales."""
    export(phoenix, report(LEXICAL, target=TARGET), late_report())
    names = {name for _, name, _ in phoenix.annotations}
    assert names == {"faithfulness (builtin)", "faithfulness (openai/gpt-4o-mini)"}


@pytest.mark.parametrize("target", [None, replace(TARGET, sampled=False)])
def test_what_has_no_trace_is_not_annotated(phoenix: FakePhoenix, target: object) -> None:
    """Traces that were sampled away, or never emitted, are in no backend."""
    assert export(phoenix, late_report(target=target))
    assert phoenix.requests == []


def test_a_script_that_just_ends_has_its_scores_sent(phoenix: FakePhoenix, tmp_path: Path) -> None:
    """The last words are sent while the interpreter goes down."""
    run_python(
        f"""
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from ragmonitor import Monitor
        trace.set_tracer_provider(TracerProvider())
        monitor = Monitor(service="t", server=False, exporters="phoenix:{phoenix.url}")
        with monitor.interaction(query="When was it built?") as i:
            i.retrieved(["It was built in 1889."])
            i.answered("It was built in 1889.")
        """,
        tmp_path,
    )
    assert "faithfulness (builtin)" in {name for _, name, _ in phoenix.annotations}
