"""The OpenTelemetry Collector's configuration: its structure, its names, its decisions."""

from __future__ import annotations

import copy
import re
import string
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmonitor import Monitor, conventions
from ragmonitor.evaluators import table
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.records import Diagnosis
from ragmonitor.settings import ExportSettings, JudgeSettings
from tests.unit.deploy.collector_lint import attributes, destinations, faults
from tests.unit.deploy.manifests import (
    COLLECTOR,
    COMPOSE,
    DEPLOY,
    KUBERNETES,
    PHOENIX,
    base_resources,
    container,
    document,
    images,
    merge,
    named,
    services,
)

CONTRIB = "otel/opentelemetry-collector-contrib"
EVERY_TRACE = KUBERNETES / "overlays" / "dev" / "otelcol-every-trace.yaml"
SECOND = DEPLOY / "otelcol" / "phoenix.yaml"
BATCH_DELAY_S = 5.0
"""OTEL_BSP_SCHEDULE_DELAY: as long as the SDK holds a span back."""
UNUSED_THERE = ["processor tail_sampling is used by no pipeline"]
SETS: dict[str, tuple[Path, ...]] = {
    "alone": (COLLECTOR,),
    "with Phoenix": (COLLECTOR, SECOND),
    "every trace": (COLLECTOR, EVERY_TRACE),
}


def config(*paths: Path) -> dict[str, Any]:
    """Return the files as the collector merges them."""
    merged: dict[str, Any] = {}
    for path in paths or (COLLECTOR,):
        merged = merge(merged, document(path))
    return merged


def policies() -> dict[str, dict[str, Any]]:
    """Return the sampling policies by their names."""
    found = config()["processors"]["tail_sampling"]["policies"]
    return {policy["name"]: policy for policy in found}


def blocked() -> list[re.Pattern[str]]:
    """Return what is masked, wherever it stands."""
    return [
        re.compile(text) for text in config()["processors"]["redaction/secrets"]["blocked_values"]
    ]


def seconds(text: str) -> float:
    """Return a duration of the collector's, which are in seconds here."""
    assert text.endswith("s")
    return float(text[:-1])


@pytest.mark.parametrize("files", SETS.values(), ids=SETS.keys())
def test_the_structure_holds(files: tuple[Path, ...]):
    """However the files are merged."""
    allowed = UNUSED_THERE if EVERY_TRACE in files else []
    assert faults(config(*files), image=CONTRIB) == allowed


def _drop(config: dict[str, Any]) -> None:
    del config["exporters"]["otlp_grpc/tempo"]


def _forget(config: dict[str, Any]) -> None:
    config["processors"]["transform/unused"] = {}


def _late(config: dict[str, Any]) -> None:
    config["service"]["pipelines"]["traces"]["processors"].reverse()


def _misspell(config: dict[str, Any]) -> None:
    config["procesors"] = config["processors"]


def _bloat(config: dict[str, Any]) -> None:
    config["exporters"]["otlp_grpc/tempo"]["sending_queue"]["batch"]["max_size"] = 5_000_000


def _count(config: dict[str, Any]) -> None:
    config["exporters"]["otlp_grpc/tempo"]["sending_queue"]["batch"]["sizer"] = "items"


def _unwatched(config: dict[str, Any]) -> None:
    config["service"]["extensions"] = []


def _age(config: dict[str, Any]) -> None:
    config["processors"]["batch"] = {}
    config["service"]["pipelines"]["traces"]["processors"].append("batch")


def _leak(config: dict[str, Any]) -> None:
    config["service"]["pipelines"]["logs"]["processors"].remove("redaction/secrets")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_drop, "traces: exporter otlp_grpc/tempo is not defined"),
        (_forget, "processor transform/unused is used by no pipeline"),
        (_late, "traces: memory_limiter is not first"),
        (_misspell, "unknown section procesors"),
        (_bloat, "otlp_grpc/tempo: a batch may be larger than a receiver takes"),
        (_count, "otlp_grpc/tempo: a batch may be larger than a receiver takes"),
        (_unwatched, "extension health_check is not used"),
        (_age, "batch is deprecated: sending_queue.batch of the exporter"),
        (_leak, "logs: nothing is redacted"),
    ],
)
def test_a_seeded_fault_is_found(spoil: Any, complaint: str):
    """So that a configuration without complaints says something."""
    spoiled = copy.deepcopy(config())
    spoil(spoiled)
    assert complaint in faults(spoiled, image=CONTRIB)


def test_the_core_image_would_not_do():
    """It has no tail sampling: the collector would not start."""
    found = faults(config(), image="otel/opentelemetry-collector")
    assert "tail_sampling is not in otel/opentelemetry-collector" in found


def test_every_collector_is_the_contrib_image_of_one_version():
    """In compose, in Kubernetes, and in the command that validates the file."""
    tags = {tag for _, tag in images()[CONTRIB]}
    (tag,) = tags
    assert "otel/opentelemetry-collector" not in images()
    for path in (COLLECTOR, DEPLOY / "README.md"):
        told = set(re.findall(rf"{CONTRIB}:(\S+)", path.read_text(encoding="utf-8")))
        assert told == {tag}, path


@pytest.mark.parametrize("files", SETS.values(), ids=SETS.keys())
def test_exporters_lead_to_services_of_compose(files: tuple[Path, ...]):
    """By name, and to a port on which that service is said to listen."""
    running = services(COMPOSE, PHOENIX)
    for exporter, (host, port) in destinations(config(*files)).items():
        service = running[host]
        published = {text.rsplit(":", 1)[1] for text in service.get("ports", ())}
        assert str(port) in published | set(service.get("expose", ())), exporter


@pytest.mark.parametrize("files", SETS.values(), ids=SETS.keys())
def test_exporters_lead_to_services_of_kubernetes(files: tuple[Path, ...]):
    """The same names there."""
    found = base_resources("Service")
    for exporter, (host, port) in destinations(config(*files)).items():
        assert port in {one["port"] for one in named(found, host)["spec"]["ports"]}, exporter


def test_tempo_listens_where_the_collector_sends():
    """And takes a whole attribute of ours, and a whole batch."""
    distributor = document(DEPLOY / "tempo" / "tempo.yaml")["distributor"]
    receiver = distributor["receivers"]["otlp"]["protocols"]["grpc"]
    _, port = destinations(config())["otlp_grpc/tempo"]
    assert receiver["endpoint"] == f"0.0.0.0:{port}"
    most = ExportSettings.model_fields["max_attribute_bytes"].default
    assert distributor["max_attribute_bytes"] >= most


def test_applications_send_to_the_collectors_receiver():
    """In compose and in Kubernetes alike."""
    endpoint = config()["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    expected = f"http://otelcol:{endpoint.rpartition(':')[2]}"
    assert services(COMPOSE)["demo"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == expected
    environment = container(named(base_resources("Deployment"), "application"))["env"]
    (told,) = [one["value"] for one in environment if one["name"] == "OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert told == expected


@pytest.mark.parametrize("files", SETS.values(), ids=SETS.keys())
def test_attributes_are_those_that_are_emitted(files: tuple[Path, ...]):
    """A misspelt one would match nothing, and nobody would notice."""
    known = {value for value in vars(conventions).values() if isinstance(value, str)}
    known |= {conventions.SCORE.format(evaluator=entry.name) for entry in table}
    assert attributes(config(*files)) <= known


def test_a_decision_waits_for_the_judge():
    """A late span cannot change it: longer than a reading may take and the SDK holds spans back."""
    reading_s = 2 * JudgeSettings().timeout_s  # reading_timeout_s, unless set
    wait = ExportSettings.model_fields["judge_wait_s"]
    held_s = max(part.le for part in wait.metadata if hasattr(part, "le"))
    wait_s = seconds(config()["processors"]["tail_sampling"]["decision_wait"])
    assert wait_s > max(reading_s, held_s) + BATCH_DELAY_S


def test_decisions_are_remembered_for_longer_than_traces():
    """Of each kind at least ten times as many, as the documentation of the processor asks."""
    sampling = config()["processors"]["tail_sampling"]
    assert min(sampling["decision_cache"].values()) >= 10 * sampling["num_traces"]


def test_failures_hallucinations_low_scores_and_a_share_are_kept():
    """The rest is a share of chance: healthy answers to compare with."""
    found = policies()
    assert found["failed"]["status_code"] == {"status_codes": ["ERROR"]}
    assert found["hallucinated"]["boolean_attribute"] == {
        "key": conventions.HALLUCINATED,
        "value": True,
    }
    assert 0 < found["share-of-the-rest"]["probabilistic"]["sampling_percentage"] < 100
    assert all(policy["type"] in policy for policy in found.values())


def test_fractions_are_not_compared_as_whole_numbers():
    """The policy numeric_attribute reads integers; a score is a fraction."""
    assert not [p for p in policies().values() if p["type"] == "numeric_attribute"]


def test_every_diagnosis_that_is_a_fault_is_kept():
    """What is new among them is kept, too, or this fails."""
    kept = set(policies()["diagnosed"]["string_attribute"]["values"])
    harmless = {"ok", "refusal", "unknown"}
    assert kept == {diagnosis.value for diagnosis in Diagnosis} - harmless


def test_the_builtin_judge_is_told_from_models():
    """By the beginning of its identity."""
    (condition,) = policies()["judged"]["ottl_condition"]["span"]
    (pattern,) = re.findall(r'IsMatch\([^,]+, "([^"]+)"\)', condition)
    assert re.match(pattern, str(BuiltinJudge().identity))
    assert not re.match(pattern, "openai/gpt-4o-mini@p7")


def test_a_real_root_span_has_what_is_decided_by(monkeypatch: pytest.MonkeyPatch):
    """With the types that the policies expect: a boolean, a fraction, text."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with Monitor(service="bot", server=False) as monitor:
        with monitor.interaction(query="How long may goods be returned?") as interaction:
            interaction.retrieved(["Goods may be returned within 30 days."])
            interaction.answered("Goods may be returned within 30 days. Shipping costs 99 euros.")
        monitor.flush(timeout_s=30)
    provider.shutdown()
    (root,) = [span for span in exporter.get_finished_spans() if span.parent is None]
    found = dict(root.attributes or {})
    assert found[conventions.HALLUCINATED] is True
    assert isinstance(found["ragmonitor.score.faithfulness"], float)
    assert found[conventions.DIAGNOSIS] in policies()["diagnosed"]["string_attribute"]["values"]
    assert str(found[conventions.JUDGE]).startswith("builtin@")


def test_patterns_are_those_of_the_collectors_language():
    """RE2: no looking around, no references back."""
    for pattern in blocked():
        assert not re.search(r"\(\?[=!<]|\\[1-9]", pattern.pattern)


@pytest.mark.parametrize(
    "text",
    [
        "write to jane.doe@example.com, please",
        "card 4111 1111 1111 1111",
        "card 5500-0000-0000-0004",
        "card 3782 822463 10005",
        "Authorization: Bearer " + 20 * "a",
        "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2",
        "key sk-" + string.ascii_letters,
        "ghp_" + 36 * "a",
        "AKIA" + 16 * "A",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_what_must_not_leave_is_masked(text: str):
    """Should the application's own redaction be off."""
    assert any(pattern.search(text) for pattern in blocked())


@pytest.mark.parametrize(
    "text",
    [
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "1795000000000000000",
        "Goods may be returned within 30 days; order 4711-2026.",
        "退货期限是30天。运费为99元。",
        '{"started_ns": 4111222233334444555}',
        "builtin@3",
    ],
)
def test_ids_times_and_plain_answers_stay(text: str):
    """A masked id is a trace that cannot be found."""
    assert not any(pattern.search(text) for pattern in blocked())


def test_no_variable_is_expanded_by_accident():
    """A dollar sign would begin one."""
    assert "$" not in COLLECTOR.read_text(encoding="utf-8").partition("receivers:")[2]
