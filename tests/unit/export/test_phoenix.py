"""Reports as annotations in Phoenix, against its documented API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragmonitor import Monitor, Phoenix
from ragmonitor.export.posting import Limits
from ragmonitor.protocols import ExportContext
from ragmonitor.records import Cause, Report, Unscored
from tests.support.scoring_server import FakePhoenix
from tests.support.scripts import run_python
from tests.support.stories import interaction
from tests.unit.export.examples import (
    ANSWER,
    LEXICAL,
    MODEL,
    QUERY,
    TARGET,
    evaluations,
    late_report,
    report,
)

QUICK = Limits(linger_s=0.01, first_backoff_s=0.01)


@pytest.fixture
def phoenix() -> Iterator[FakePhoenix]:
    with FakePhoenix() as running:
        yield running


def export(
    phoenix: FakePhoenix, *reports: Report, api_key: str | None = None, **context: object
) -> bool:
    """Export and flush; return whether all of it arrived."""
    exporter = Phoenix(phoenix.url, api_key=api_key, limits=QUICK)
    exporter.configure(ExportContext(**context))  # type: ignore[arg-type]
    for each in reports:
        exporter.export(each)
    arrived = exporter.flush(10)
    exporter.close()
    return arrived


def test_a_score_stands_on_the_root_span(phoenix: FakePhoenix) -> None:
    """With who judged, how likely that was, and why."""
    assert export(phoenix, late_report())
    assert list(phoenix.annotations.values()) == [
        {
            "span_id": TARGET.span_id,
            "name": "faithfulness (openai/gpt-4o-mini)",
            "annotator_kind": "LLM",
            "result": {"score": 0.5, "explanation": "无依据: 99元"},
            "metadata": {
                "evaluator": "faithfulness@1",
                "judge": "openai/gpt-4o-mini@p7",
                "chance": 0.1,
                "interaction_id": "i-1",
            },
            "identifier": "faithfulness@1 openai/gpt-4o-mini@p7",
        }
    ]


def test_two_judges_are_two_annotations(phoenix: FakePhoenix) -> None:
    """Phoenix averages what has one name, and theirs are two scales."""
    export(phoenix, report(LEXICAL, target=TARGET), late_report())
    names = {name for _, name, _ in phoenix.annotations}
    assert names == {"faithfulness (builtin)", "faithfulness (openai/gpt-4o-mini)"}


def test_the_same_again_is_an_update(phoenix: FakePhoenix) -> None:
    """A report that is exported twice, or retried, leaves one annotation with the last score."""
    export(phoenix, late_report(), late_report(evaluations=evaluations(MODEL, 0.8)))
    (kept,) = phoenix.annotations.values()
    assert kept["result"]["score"] == 0.8


def test_another_version_is_another_annotation(phoenix: FakePhoenix) -> None:
    """A changed judge does not overwrite what the old one measured."""
    changed = replace(MODEL, version="p8")
    export(phoenix, late_report(), late_report(evaluations=evaluations(changed, 0.9)))
    assert sorted(a["result"]["score"] for a in phoenix.annotations.values()) == [0.5, 0.9]


def unscored(cause: Cause) -> Report:
    return report(
        target=TARGET,
        evaluations=(Unscored(evaluator="faithfulness@1", judge=LEXICAL, cause=cause),),
    )


@pytest.mark.parametrize("cause", list(Cause))
def test_no_score_is_never_a_number(phoenix: FakePhoenix, cause: Cause) -> None:
    """A refusal is a label to filter by; what is wrong with the monitoring is no annotation."""
    assert export(phoenix, unscored(cause))
    results = [kept["result"] for kept in phoenix.annotations.values()]
    about_the_answer = cause in {Cause.REFUSAL, Cause.NO_CLAIMS, Cause.NO_CONTEXT}
    assert results == ([{"label": cause.value}] if about_the_answer else [])


def test_without_content_no_text_leaves(phoenix: FakePhoenix) -> None:
    """Explanations quote the answer."""
    export(phoenix, late_report(), report(target=TARGET), content="none")
    sent = json.loads(phoenix.requests[0].body)
    told = json.dumps(sent, ensure_ascii=False)
    assert len(sent["data"]) == 2
    assert [text for text in (QUERY, ANSWER, "99元", "无依据", "坏的回复") if text in told] == []


@pytest.mark.parametrize("target", [None, replace(TARGET, sampled=False)])
def test_what_has_no_trace_is_not_annotated(phoenix: FakePhoenix, target: object) -> None:
    """Traces that were sampled away, or never emitted, are in no backend."""
    assert export(phoenix, late_report(target=target))
    assert phoenix.requests == []


def test_the_key_is_shown() -> None:
    """As a bearer token; the wrong one is a loss that is told."""
    with FakePhoenix(api_key="right") as phoenix:
        assert export(phoenix, late_report(), api_key="right")
        lost: list[tuple[str, int]] = []
        told = lambda reason, n: lost.append((reason, n))  # noqa: E731
        assert not export(phoenix, late_report(), api_key="wrong", lost=told)
        assert lost == [("phoenix_refused", 1)]


def test_half_a_character_spoils_nothing(phoenix: FakePhoenix) -> None:
    """A lone surrogate in an explanation arrives as a question mark."""
    (scored, _) = evaluations(MODEL)
    export(phoenix, late_report(evaluations=(replace(scored, explanation="a\ud800"),)))  # type: ignore[call-arg]
    (kept,) = phoenix.annotations.values()
    assert kept["result"]["explanation"] == "a?"


def test_a_monitor_annotates_what_its_settings_name(
    phoenix: FakePhoenix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From `phoenix_url` to the annotation, and what is lost is in the counters."""
    from prometheus_client import generate_latest

    # Nobody listens there; the spans need not arrive.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with Monitor(service="t", server=False, exporters=[Phoenix(f"{phoenix.url}/")]) as monitor:
        monitor.observe(interaction())
        monitor.flush(5)
        names = {name for _, name, _ in phoenix.annotations}
        assert "faithfulness (builtin)" in names
    told = generate_latest(monitor.registry).decode()
    assert 'reason="phoenix_' not in told


def test_what_is_not_taken_is_in_the_monitors_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ragmonitor_dropped_total` says how many evaluations Phoenix refused."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    from prometheus_client import generate_latest

    with (
        FakePhoenix(api_key="right") as phoenix,
        Monitor(service="t", server=False, exporters=[Phoenix(phoenix.url)]) as monitor,
    ):
        monitor.observe(interaction())
        assert not monitor.flush(5)
        told = generate_latest(monitor.registry).decode()
    assert 'ragmonitor_dropped_total{reason="phoenix_refused",service="t"} 5.0' in told


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
