"""deploy/README.md: what it tells of addresses, files and commands is so."""

from __future__ import annotations

import re

from ragmonitor.settings import PREFIX, VARIABLES
from tests.unit.deploy.manifests import COMPOSE, DEPLOY, FLEET, PHOENIX, ROOT, images, services

TEXT = (DEPLOY / "README.md").read_text(encoding="utf-8")


def test_every_published_port_is_told():
    """And no other one of this machine's, but the example's."""
    published = {
        port.split(":")[1]
        for service in services(COMPOSE, PHOENIX, FLEET).values()
        for port in service.get("ports", ())
    }
    table = TEXT.partition("| | address |")[2].partition("\n\n")[0]
    assert set(re.findall(r"(?<![\d.])(\d{4,5})\b", table)) == published


def test_links_lead_somewhere():
    """Within the project."""
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert links
    assert [link for link in links if not (DEPLOY / link).exists()] == []


def test_files_that_are_named_exist():
    """From the project's root, or from here; what a command writes, too."""
    named = set(re.findall(r"(?:deploy|tests|docs|overlays|base)/[\w./-]*\w\.(?:ya?ml|py)\b", TEXT))
    assert len(named) >= 10
    places = (ROOT, DEPLOY, DEPLOY / "kubernetes")
    assert {
        name for name in named if not any((place / name).is_file() for place in places)
    } == set()


def test_images_have_the_versions_that_come_up():
    """In the commands that check a file with its image."""
    told = re.findall(r"\b([a-z]+/[a-z-]+):(\d[\w.]+)", TEXT)
    assert len(told) >= 2
    for name, tag in told:
        assert {used for _, used in images()[name]} == {tag}


def test_variables_are_settings():
    """As an application reads them."""
    told = set(re.findall(rf"\b{PREFIX}([A-Z_]+)", TEXT))
    assert told
    assert {PREFIX + name for name in told} <= VARIABLES
