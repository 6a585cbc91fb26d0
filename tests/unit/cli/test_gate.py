"""`ragmonitor gate`: a decision over processes, by its exit code."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from ragmonitor.cli import gate
from ragmonitor.cli.app import app
from ragmonitor.cli.options import GateOptions
from ragmonitor.export import PrometheusExporter
from ragmonitor.records import Snapshot
from tests.unit.causes.test_versions import BEGAN_S, Versions, feed, versions


@contextmanager
def serving(*parts: Versions) -> Iterator[list[str]]:
    """Serve each part by an endpoint of its own, as two processes would; yield the addresses."""
    exporters = []
    for part in parts:
        part.tick()
        exporter = PrometheusExporter("support", port=0)
        exporters.append(exporter)
        gauges = tuple(part.gauges(None))  # type: ignore[arg-type]
        snapshot = Snapshot(gauges=gauges, records=part.records())
        exporter.refresh(snapshot=snapshot, queue_depth=0, open_runs=0, errors={})
    try:
        yield [str(exporter.url) for exporter in exporters]
    finally:
        for exporter in exporters:
            exporter.close()


def canary(bad: int, good: int) -> tuple[Versions, Versions]:
    """Return the parts of two processes: 1.4 with 5 % of 4,000 answers bad, and 1.5."""
    old, new = versions(judge=None, version="1.4"), versions(judge=None, version="1.5")
    feed(old, "", 200, 3_800)
    feed(new, "", bad, good)
    return old, new


def decided(*addresses: str, **options: Any) -> tuple[int, list[float]]:
    """Return the exit code, and how long it slept each time."""
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    given = GateOptions(
        service="support",
        candidate="1.5",
        baseline="1.4",
        address=list(addresses) or None,
        **options,
    )
    return gate.run(given, wait=sleep, clock=lambda: now[0]), slept


@pytest.mark.parametrize(("bad", "good", "code"), [(0, 4_000, 0), (200, 3_800, 3), (800, 3_200, 4)])
def test_versions_in_two_processes_are_decided(bad: int, good: int, code: int) -> None:
    """Better, equivalent and worse, at the first look."""
    with serving(*canary(bad, good)) as urls:
        assert decided(*urls) == (code, [])


@pytest.mark.parametrize(("bad", "good"), [(0, 4_000), (800, 3_200)])
def test_nothing_is_decided_against_a_baseline_that_has_ended(
    bad: int, good: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A night's answers against a day's are no comparison of versions."""
    old, new = versions(judge=None, version="1.4"), versions(judge=None, version="1.5")
    feed(old, "", 200, 3_800)
    feed(new, "", bad, good, at_s=BEGAN_S + 7_200)
    with serving(old, new) as urls:
        assert decided(*urls, timeout="0s")[0] == 5
    assert "'1.5' and '1.4' have not answered at the same time" in capsys.readouterr().err


def test_a_baseline_that_holds_back_little_of_the_traffic_is_decided_against() -> None:
    """Nineteen of twenty answers are the candidate's, at the same time."""
    old, new = versions(judge=None, version="1.4"), versions(judge=None, version="1.5")
    feed(old, "", 4, 196)
    feed(new, "", 1_200, 2_600)
    with serving(old, new) as urls:
        assert decided(*urls, timeout="0s")[0] == 4


def test_counters_of_several_processes_decide_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They do not tell when each version answered, and the gate says that."""
    read = gate.numbers
    monkeypatch.setattr(
        gate, "numbers", lambda url: [{**each, "is_shared": True} for each in read(url)]
    )
    with serving(*canary(800, 3_200)) as urls:
        assert decided(*urls, timeout="0s")[0] == 5
    assert "do not tell when each version answered" in capsys.readouterr().err


def test_what_is_accepted_ends_with_0() -> None:
    """An equivalent version passes where it is accepted, a worse one never."""
    with serving(*canary(200, 3_800)) as urls:
        assert decided(*urls, accept="equivalent")[0] == 0
    with serving(*canary(800, 3_200)) as urls:
        assert decided(*urls, accept="undecided")[0] == 4


def test_a_version_is_not_compared_with_itself() -> None:
    """A pipeline whose two variables hold the same would pass whatever is rolled out."""
    words = ["--service", "a", "--candidate", "1.5", "--baseline", "1.5", "--timeout", "0s"]
    result = CliRunner().invoke(app, ["gate", *words])
    assert result.exit_code == 2
    assert "are both '1.5'" in result.output


def test_json_says_what_was_compared_and_why_it_is_undecided() -> None:
    """One object, through the real command line."""
    with serving(*canary(2, 8)) as urls:
        given = ["gate", "--service", "support", "--candidate", "1.5", "--baseline", "1.4"]
        addresses = [each for url in urls for each in ("--address", url)]
        result = CliRunner().invoke(app, [*given, *addresses, "--timeout", "0s", "--json"])
    assert result.exit_code == 5
    told = json.loads(result.stdout)
    assert told["decision"] == "undecided"
    assert told["comparison"]["candidate"]["judged"] == 10
    assert told["reason"] == "'1.5' has 10 of 20 judged answers while both answered"
    assert told["exit_code"] == result.exit_code


def test_a_service_that_is_not_served_there_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name is not waited for in silence."""
    with serving(*canary(1, 1)) as urls:
        given = GateOptions(
            service="other", candidate="1", baseline="2", address=urls, timeout="0s"
        )
        assert gate.run(given) == 5
    assert "serves no service 'other'" in capsys.readouterr().err
