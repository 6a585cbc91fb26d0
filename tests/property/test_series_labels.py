"""Whatever text an application puts where a label comes from, everything can be scraped."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from ragmonitor.export import PrometheusExporter
from ragmonitor.export.instruments import MAX_LABEL_LENGTH
from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    GaugeValue,
    JudgeIdentity,
    Scored,
    SeriesKey,
    Snapshot,
    SpanReference,
)
from ragmonitor.runtime import guard
from ragmonitor.runtime.printable import encodable
from ragmonitor.settings import Settings
from tests.support.prometheus_server import require_binary
from tests.unit.export.examples import MODEL, TARGET, interaction, report, windowed

TEXT = st.text(st.characters(exclude_categories=()), max_size=20) | st.sampled_from(
    ["", "\ud800", 'a"b', "a\nb", "a\r\nb", "a\\", "\x00", "\u2028", "} 1", "other", "x" * 5000]
)
NASTY = ("\ud800", 'a"b}\n# EOF', "\x00\x01", "中文\\", "\r", "x" * 5000)


def filled(text: Any) -> PrometheusExporter:
    """Return an exporter whose every label carries text of the application's."""
    judge = JudgeIdentity(name=text(), version=text(), kind=text())
    built = PrometheusExporter(Settings.load(service=encodable(text()) or "x", server=False))
    built.interaction(text(), text())
    built.dropped(text())
    scored = Scored(evaluator=text(), judge=judge, score=0.5)
    read = replace(
        report(judge),
        evaluations=(scored,),
        target=SpanReference(trace_id=text(), span_id=text()),
    )
    built.export(read)
    built.answered(replace(interaction(), framework=text()), TARGET)
    alarm = {"signal": text(), "judge": text(), "kind": text()}
    built.alarm(
        AlarmEvent(
            **alarm,
            raised=True,
            at_s=1.0,
            since_s=0.0,
            objective=0.1,
        )
    )
    key = SeriesKey(signal=text(), judge=text(), dimension=text(), group=text())
    whole = replace(key, dimension="", group="")
    built.refresh(
        snapshot=Snapshot(
            means=windowed((key, "1h", (1.0,)), (whole, "24h", (0.0,))),
            alarms=(AlarmState(**alarm, evidence_s=1.0, active=True, objective=0.1),),
            gauges=(
                GaugeValue.of("ragmonitor_anchor_flip_rate", 3.0, judge=text()),
                GaugeValue.of("ragmonitor_feedback", 1, kind=text(), direction=text()),
                GaugeValue.of("ragmonitor_answers", 1, signal=text(), judge=text()),
            ),
        ),
        queue_depth=1,
    )
    return built


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(data=st.data())
def test_any_text_in_any_label_can_be_scraped(data: st.DataObject) -> None:
    """Both formats are read by their parsers, and no error of ours is counted."""
    before = guard.errors.copy()
    built = filled(lambda: data.draw(TEXT))
    plain = list(parse_plain(generate_latest(built.registry).decode()))
    families = list(parse_openmetrics(openmetrics(built.registry).decode()))
    assert guard.errors == before
    assert len(plain) >= len(families) > 30
    values = {v for f in families for s in f.samples for v in s.labels.values()}
    assert max(map(len, values)) <= MAX_LABEL_LENGTH
    assert not any(c in value for value in values for c in "\0\r\n\u2028")


def test_promtool_reads_what_the_application_put_into_labels() -> None:
    """The parser of Prometheus itself finds no fault but of style."""
    for text in NASTY:
        found = subprocess.run(
            [require_binary("promtool"), "check", "metrics"],
            input=generate_latest(filled(lambda text=text: text).registry),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert found.returncode in (0, 3), found.stderr.decode()


def test_labels_that_are_no_text_are_shown_as_text() -> None:
    """An application that gives a number where a name belongs keeps its series."""
    built = PrometheusExporter(Settings.load(service="shop", server=False))
    built.interaction(7, None)  # type: ignore[arg-type]
    text = generate_latest(built.registry).decode()
    assert 'ragmonitor_interactions_total{framework="7",service="shop",status="None"} 1.0' in text


@pytest.mark.parametrize(
    "bad",
    [
        {"gauges": (GaugeValue(name="ragmonitor_nobody_knows", value=1.0),)},
        {
            "gauges": (
                GaugeValue(
                    name="ragmonitor_anchor_flip_rate", value="many", labels=(("judge", "j"),)
                ),
            )
        },
        {"gauges": (GaugeValue(name="ragmonitor_anchor_flip_rate", value=1.0),)},
        {"means": (None,)},
        {"alarms": (None,)},
    ],
    ids=["unknown gauge", "no number", "a label missing", "no mean", "no alarm"],
)
def test_one_bad_series_never_takes_the_others_down(bad: dict[str, Any]) -> None:
    """It is counted as an error of ours, and what stands after it is shown."""
    built = PrometheusExporter(Settings.load(service="shop", server=False))
    good = GaugeValue(
        name="ragmonitor_anchor_flip_rate", value=3.0, labels=(("judge", MODEL.name),)
    )
    bad["gauges"] = (*bad.get("gauges", ()), good)
    before = guard.errors["metrics"]
    built.refresh(snapshot=Snapshot(**bad), queue_depth=4)
    assert guard.errors["metrics"] == before + 1
    labels = {"service": "shop", "judge": MODEL.name}
    assert built.registry.get_sample_value("ragmonitor_anchor_flip_rate", labels) == 3
