"""The lists that name integrations and the page on the architecture agree with the tree."""

import re
import tomllib

from tests.support.scripts import ROOT

INTEGRATIONS = {path.name: path for path in ROOT.glob("integrations/*/ragmonitor_*")}


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
    names = {name for line in contract["layers"] for name in re.split(r" [|:] ", line)}
    paths = re.findall(r"`(ragmonitor/[\w/.]+)`", page)
    assert names - {part for path in paths for part in re.split(r"[/.]", path)} == set()
