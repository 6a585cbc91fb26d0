"""What stands in deploy/, read: compose files, the collector's, a kustomization's documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
OVERLAYS = tuple(sorted((KUBERNETES / "overlays").iterdir()))
COMPOSE = DEPLOY / "compose.yml"
PHOENIX = DEPLOY / "compose.phoenix.yml"
FLEET = DEPLOY / "compose.fleet.yml"
COLLECTOR = DEPLOY / "otelcol" / "collector.yaml"

Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    """Return the YAML documents of a file."""
    return [found for found in yaml.safe_load_all(path.read_text(encoding="utf-8")) if found]


def document(path: Path) -> Document:
    """Return the one YAML document of a file."""
    (found,) = documents(path)
    return found


def services(*paths: Path) -> dict[str, Document]:
    """Return the services of compose files, later ones merged over earlier ones.

    Maps are merged, lists replaced, but for ports, which compose appends, and volumes, of which it
    replaces those with the same target.
    """
    merged: dict[str, Document] = {}
    for path in paths:
        for name, service in document(path)["services"].items():
            before = merged.get(name, {})
            merged[name] = merge(before, service)
            if "ports" in before and "ports" in service:
                merged[name]["ports"] = [*before["ports"], *service["ports"]]
            if "volumes" in before and "volumes" in service:
                both = [*before["volumes"], *service["volumes"]]
                merged[name]["volumes"] = [*{text.split(":")[1]: text for text in both}.values()]
    return merged


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Document:
    """Return two maps as one, as compose and the collector merge theirs: lists are replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = (
            merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return merged


class Kustomization:
    """A kustomization and all that it names, followed into other folders.

    No kustomize: nothing is patched, hashed or labelled. It knows the fields that these files use
    and refuses others.
    """

    FIELDS = frozenset(
        {
            "apiVersion",
            "kind",
            "namespace",
            "resources",
            "patches",
            "labels",
            "configMapGenerator",
            "generatorOptions",
        }
    )

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.content = document(folder / "kustomization.yaml")
        unknown = set(self.content) - self.FIELDS
        if unknown:
            raise ValueError(f"{folder}: {', '.join(sorted(unknown))}")

    def files(self) -> Iterator[Path]:
        """Yield every file that it names, also those that do not exist."""
        for path in self._named("resources"):
            if path.is_dir():
                yield path / "kustomization.yaml"
                yield from Kustomization(path).files()
            else:
                yield path
        for patch in self.content.get("patches", ()):
            yield self.folder / patch["path"]
        for generator in self.content.get("configMapGenerator", ()):
            yield from self._generated(generator).values()

    def resources(self) -> Iterator[Document]:
        """Yield every document, generated ConfigMaps included."""
        for path in self._named("resources"):
            yield from Kustomization(path).resources() if path.is_dir() else documents(path)
        options = self.content.get("generatorOptions", {})
        for generator in self.content.get("configMapGenerator", ()):
            yield {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": generator["name"],
                    "labels": dict(options.get("labels", {})),
                    "annotations": dict(options.get("annotations", {})),
                },
                "data": {
                    key: path.read_text(encoding="utf-8")
                    for key, path in self._generated(generator).items()
                },
            }

    def patches(self) -> Iterator[Document]:
        """Yield the patches, each a part of a resource."""
        for patch in self.content.get("patches", ()):
            yield from documents(self.folder / patch["path"])

    def _named(self, field: str) -> list[Path]:
        return [(self.folder / name).resolve() for name in self.content.get(field, ())]

    def _generated(self, generator: Mapping[str, Any]) -> dict[str, Path]:
        found = {}
        for text in generator["files"]:
            key, equals, name = text.rpartition("=")
            path = self.folder / name
            found[key if equals else path.name] = path
        return found


def base_resources(kind: str) -> list[Document]:
    """Return the base's documents of a kind."""
    return [found for found in Kustomization(BASE).resources() if found["kind"] == kind]


def named(found: list[Document], name: str) -> Document:
    """Return the one of that name."""
    (one,) = [document for document in found if document["metadata"]["name"] == name]
    return one


def container(deployment: Mapping[str, Any]) -> Document:
    """Return the one container of a Deployment."""
    (one,) = deployment["spec"]["template"]["spec"]["containers"]
    found: Document = one
    return found


def images() -> dict[str, list[tuple[str, str]]]:
    """Return the images of compose and Kubernetes files: by name, where and with which tag."""
    found: dict[str, list[tuple[str, str]]] = {}

    def add(where: Path, image: str) -> None:
        name, _, tag = image.partition(":")
        found.setdefault(name, []).append((str(where.relative_to(ROOT)), tag))

    for path in (COMPOSE, PHOENIX, FLEET):
        for service in document(path)["services"].values():
            if "image" in service:
                add(path, service["image"])
    for path in sorted(KUBERNETES.rglob("*.yaml")):
        for one in documents(path):
            if one.get("kind") not in {"Deployment", "StatefulSet"}:
                continue
            for part in one["spec"]["template"]["spec"]["containers"]:
                if "image" in part:
                    add(path, part["image"])
    return found
