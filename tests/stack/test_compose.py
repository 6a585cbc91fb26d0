"""The compose files, read by compose itself; what they mount, read by the servers' own tools."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.prometheus_server import require_binary

pytestmark = [pytest.mark.stack, pytest.mark.slow]

DEPLOY = Path(__file__).parents[2] / "deploy"
STACK = DEPLOY / "compose.yml"
PHOENIX = DEPLOY / "compose.phoenix.yml"
FLEET = DEPLOY / "compose.fleet.yml"
EXAMPLE = DEPLOY.parent / "examples" / "compose" / "compose.yml"


def compose(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Debian's docker-compose, which needs no engine to read files."""
    return subprocess.run(
        [require_binary("docker-compose"), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "files",
    [(STACK,), (STACK, PHOENIX), (STACK, FLEET), (STACK, PHOENIX, FLEET), (EXAMPLE,)],
    ids=["stack", "with Phoenix", "fleet", "fleet with Phoenix", "example"],
)
def test_compose_takes_the_files(files: tuple[Path, ...]):
    """Every key and every value of them."""
    options = [option for path in files for option in ("-f", path)]
    done = compose(*options, "config", "-q")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("spoil", "into"),
    [
        ("healthcheck:", "healthchek:"),
        ("read_only: true", "read_only: perhaps"),
        ("condition: service_healthy", "condition: service_well"),
        ("x-service: &service", "name: ragmonitor\nx-service: &service"),
        ("- tempo-data:/var/tempo", "- tempo-store:/var/tempo"),
        (r'"127.0.0.1:3200:3200"', '"127.0.0.1:port:3200"'),
    ],
)
def test_compose_refuses_a_seeded_fault(tmp_path: Path, spoil: str, into: str):
    """So that taking the files says something."""
    text = STACK.read_text(encoding="utf-8")
    spoiled = text.replace(spoil, into, 1)
    assert spoiled != text
    path = tmp_path / "compose.yml"
    path.write_text(spoiled, encoding="utf-8")
    done = compose("-f", path, "config", "-q")
    assert done.returncode != 0


def test_the_second_file_adds_and_takes_nothing_away():
    """As compose merges them: the demo keeps its volume, the collector its ports."""
    alone = yaml.safe_load(compose("-f", STACK, "config").stdout)["services"]
    both = yaml.safe_load(compose("-f", STACK, "-f", PHOENIX, "config").stdout)["services"]
    assert set(both) == {*alone, "phoenix"}
    for name, service in alone.items():
        for field in ("ports", "volumes"):
            assert sorted(both[name].get(field, ())) == sorted(service.get(field, ()))
    assert both["otelcol"]["command"] == [
        "--config=/etc/otelcol/collector.yaml",
        "--config=/etc/otelcol/phoenix.yaml",
    ]
    assert both["demo"]["environment"].items() >= alone["demo"]["environment"].items()
    published = [port for service in both.values() for port in service.get("ports", ())]
    assert published
    assert all(str(port).startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize(
    "files", [(STACK,), (STACK, FLEET), (EXAMPLE,)], ids=["stack", "fleet", "example"]
)
def test_prometheus_takes_its_configuration_as_it_is_mounted(
    tmp_path: Path, files: tuple[Path, ...]
):
    """With the rules where the container has them."""
    options = [option for path in files for option in ("-f", path)]
    service = yaml.safe_load(compose(*options, "config").stdout)["services"]["prometheus"]
    for text in service["volumes"]:
        source, target, _ = text.split(":")
        if not target.startswith("/etc/prometheus/"):
            continue
        place = tmp_path / target.removeprefix("/etc/prometheus/")
        if Path(source).is_dir():
            shutil.copytree(source, place)
        else:
            shutil.copy(source, place)
    done = subprocess.run(
        [require_binary("promtool"), "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[1-9]\d+ rules found", done.stdout)
