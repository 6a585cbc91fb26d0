"""What answers take of time, tokens and money, from capture to the series, in both back halves."""

import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ragmonitor import Chunk, Monitor
from ragmonitor.integration import Usage
from ragmonitor.testing import ListExporter

PRICES = ("mine=1/2",)


def ask(monitor, n=30):
    """Ask some questions whose answers are streams of 12 tokens."""
    for _ in range(n):
        with monitor.interaction(query="When was the tower built?") as interaction:
            interaction.retrieved([Chunk(id="t", text="The tower was built in 1887.")])
            pieces = ["", "The tower was ", "built in 1887."]
            "".join(interaction.streamed(iter(pieces)))
            interaction.answered(
                "The tower was built in 1887.",
                model="mine",
                usage=Usage(input_tokens=1_000, output_tokens=500),
            )


def samples(monitor):
    """Return the samples of the monitor by name and the labels that matter here."""
    kept = ("gen_ai_request_model", "gen_ai_token_type", "gen_ai_operation_name", "model", "window")
    kept += ("dimension", "group")
    return {
        (sample.name, *(sample.labels[name] for name in kept if sample.labels.get(name))): (
            sample.value
        )
        for family in text_string_to_metric_families(
            urllib.request.urlopen(monitor.metrics_url).read().decode()
        )
        for sample in family.samples
        if "le" not in sample.labels
    }


@pytest.fixture(scope="module")
def found():
    """Return the samples after 30 answers, and the interactions."""
    exporter = ListExporter()
    with Monitor(
        service="s",
        server={"port": 0},
        exporters=[exporter],
        worker="thread",
        estimation={"prices": PRICES},
        export={"traces": False},
    ) as monitor:
        began_ns = time.time_ns()
        ask(monitor)
        assert monitor.flush(60)
        yield samples(monitor), [*exporter.interactions()], began_ns


def test_time_tokens_and_cost_are_observed(found):
    """Under OpenTelemetry's names where there are any."""
    series, interactions, began_ns = found
    assert series["ragmonitor_time_to_first_token_seconds_count",] == 30
    assert series["ragmonitor_answer_cost_usd_sum", "mine"] == pytest.approx(30 * 2_000 / 1e6)
    calls = "gen_ai_client_operation_duration_seconds_count"
    assert series[calls, "mine", "chat"] == series[calls, "retrieval"] == 30
    tokens = "gen_ai_client_token_usage_sum"
    assert series[tokens, "mine", "input", "chat"] == 30_000
    assert series[tokens, "mine", "output", "chat"] == 15_000
    assert all(began_ns <= each.first_token_ns <= each.ended_ns for each in interactions)


def test_quality_is_joined_to_them(found):
    """By model."""
    series, *_ = found
    rate = "ragmonitor_group_hallucination_rate"
    assert series[rate, "1h", "model", "mine"] == 0
