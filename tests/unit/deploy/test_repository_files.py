"""Workflows, issue forms and the citation, by the schemas that check-jsonschema brings along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.scripts import ROOT

GITHUB = ROOT / ".github"
FORMS = [
    path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"
]
CASES = [
    ("github-workflows", sorted((GITHUB / "workflows").glob("*.yml"))),
    ("github-issue-forms", FORMS),
    ("github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
    ("dependabot", [GITHUB / "dependabot.yml"]),
    ("citation-file-format", [ROOT / "CITATION.cff"]),
]


def checked(schema: str, paths: list[Path]) -> subprocess.CompletedProcess[str]:
    """Check files against a schema of the package, without a network."""
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *paths],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("schema", "paths"), CASES, ids=[schema for schema, _ in CASES])
def test_the_files_keep_their_schema(schema: str, paths: list[Path]) -> None:
    """Every key and every value of them."""
    assert paths
    done = checked(schema, paths)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seeded_fault_is_seen(tmp_path: Path) -> None:
    """So that keeping the schema says something."""
    text = (GITHUB / "workflows" / "ci.yml").read_text(encoding="utf-8")
    spoiled = tmp_path / "ci.yml"
    spoiled.write_text(text.replace("runs-on:", "run-on:"), encoding="utf-8")
    assert checked("github-workflows", [spoiled]).returncode != 0


def test_workflows_may_do_no_more_than_they_need() -> None:
    """Reading is the rule; publishing has an environment, and no token is stored."""
    for path in (GITHUB / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
        assert "secrets." not in text
    release = yaml.safe_load((GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8"))
    publish = release["jobs"]["publish"]
    assert publish["environment"] == "pypi"
    assert publish["permissions"] == {"id-token": "write"}


def test_every_tried_python_has_its_classifier_and_its_job() -> None:
    """What the package says it supports is what the workflow runs."""
    workflow = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    versions = workflow["jobs"]["run"]["strategy"]["matrix"]["python"]
    for version in ("3.11", "3.12", "3.13"):
        assert version in versions
        assert f"Python :: {version}" in project
