"""Workflows, issue forms and the citation, by the schemas that check-jsonschema brings along."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


def test_every_package_that_an_extra_or_a_group_brings_is_pinned() -> None:
    """Also what those need in turn, as far as it is installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    groups = project["dependency-groups"]
    apart = ("docs", "sbom", "audit")  # in environments of their own
    named = [group for name, group in groups.items() if name not in apart]
    extras = project["project"]["optional-dependencies"]
    named += [project["project"]["dependencies"], *extras.values()]
    waiting = [Requirement(each) for group in named for each in group if isinstance(each, str)]
    seen: set[tuple[str, str]] = set()
    unpinned = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        for extra in ("", *wanted.extras):
            if name.startswith("ragmonitor") or (name, extra) in seen:
                continue
            seen.add((name, extra))
            if name not in pinned and name not in {"pip", "setuptools"}:
                unpinned.add(name)
            try:
                found = distribution(name).requires or ()
            except PackageNotFoundError:
                continue
            more = map(Requirement, found)
            waiting += [r for r in more if r.marker is None or r.marker.evaluate({"extra": extra})]
    assert unpinned == set()
