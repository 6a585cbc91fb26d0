"""The import contracts hold, and each is seen to fail on a planted violation."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.scripts import ROOT

INTEGRATIONS = {path.name: path for path in ROOT.glob("integrations/*/ragmonitor_*")}
PACKAGES = {"ragmonitor": ROOT / "ragmonitor", **INTEGRATIONS}
VIOLATIONS = {
    "Stages never import each other": (
        "ragmonitor/sampling/consistent_draws.py",
        "ragmonitor.export",
    ),
    "Stages do not know what wires them; records know nobody": (
        "ragmonitor/records.py",
        "ragmonitor.errors",
    ),
    "The core imports no framework": ("ragmonitor/queues/memory.py", "langchain_core"),
    "Integrations use the front door only": (
        "ragmonitor_langchain/translate.py",
        "ragmonitor.records",
    ),
    "No import ring, deferred imports included": (
        "ragmonitor/estimation/sums.py",
        "ragmonitor.estimation.statistics",
    ),
    "Integrations do not know each other": (
        "ragmonitor_langchain/driver.py",
        "ragmonitor_llama_index",
    ),
}


def test_every_integration_is_in_the_lists_that_take_no_pattern():
    """import-linter and mypy want names; everything else goes by the folder."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    contracts = {each["name"]: each for each in tool["importlinter"]["contracts"]}
    lists = (
        tool["importlinter"]["root_packages"],
        contracts["The core imports no framework"]["forbidden_modules"],
        contracts["Integrations use the front door only"]["source_modules"],
        contracts["Integrations do not know each other"]["modules"],
    )
    for names in lists:
        assert {name for name in names if name.startswith("ragmonitor_")} == set(INTEGRATIONS)
    folders = {f"integrations/{path.parent.name}" for path in INTEGRATIONS.values()}
    assert set(tool["mypy"]["mypy_path"].split(":")) == folders


def test_the_page_on_the_architecture_draws_the_layers_that_hold():
    """The same lines in the same order, and the table of parts names each folder and file."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    [contract] = [each for each in tool["importlinter"]["contracts"] if each["type"] == "layers"]
    drawn = "\n".join(line.replace(" | ", " · ") for line in contract["layers"])
    assert f"```\n{drawn}\n```" in page
    names = {name for line in contract["layers"] for name in line.split(" | ")}
    parts = set(re.findall(r"`(\w+)(?:/|\.py)`", page))
    assert names - parts == set()


@pytest.fixture
def copy(tmp_path):
    for name, folder in PACKAGES.items():
        shutil.copytree(folder, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def broken_contracts(folder):
    result = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
    )
    lines = result.stdout.splitlines()
    broken = {line.removesuffix("BROKEN").strip() for line in lines if line.endswith("BROKEN")}
    assert bool(broken) == (result.returncode != 0), result.stdout + result.stderr
    return broken


def test_the_contracts_hold(copy):
    """As the code stands."""
    assert broken_contracts(copy) == set()


@pytest.mark.parametrize("contract", VIOLATIONS)
def test_a_planted_violation_is_found(copy, contract):
    """One import too many breaks its contract."""
    file, imported = VIOLATIONS[contract]
    with (copy / file).open("a", encoding="utf-8") as source:
        source.write(f"\nimport {imported}\n")
    assert contract in broken_contracts(copy)
