"""Carries the settings of a monitor to its worker.

What the application gave as an object is imported there by its name, and exporters of ours are made
anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from ragmonitor.evaluators import table
from ragmonitor.export import EXPORTERS
from ragmonitor.export.content import PROCESS_KEY
from ragmonitor.runtime.imports import imported
from ragmonitor.settings import Settings

UNIX: Final = "unix:"
"""Begins the address of a worker that all processes of a machine share."""


def described(settings: Settings) -> dict[str, Any]:
    """Return the settings as plain values, for a worker of ours: nobody has a reason to stay."""
    values = _plain(settings.model_dump())
    values["evaluators"] = [entry.name for entry in table.select(settings.evaluators)]
    # Both processes may put hashes of one text into a trace.
    values["content"]["hash_key"] = values["content"]["hash_key"] or PROCESS_KEY.hex()
    return {"settings": values, "imports": [*map(made_by, evaluators_of(settings))]}


def evaluators_of(settings: Settings) -> Iterator[Any]:
    """Yield the functions of evaluators that are not ours."""
    for entry in table.select(settings.evaluators):
        if not _module_of(entry.evaluator).startswith("ragmonitor."):
            yield entry.evaluator


def _module_of(value: Any) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)


def made_by(value: Any) -> dict[str, Any]:
    """Return by what a worker has the same object: its place, or class and arguments; empty: none.

    The arguments are those of an exporter of ours.
    """
    arguments = getattr(value, "arguments", None) if type(value) in EXPORTERS.values() else None
    if arguments:
        return {"exporter": type(value).__name__, "arguments": _plain(arguments)}
    module = _module_of(value)
    names = vars(sys.modules.get(module, os)) if module != "__main__" else {}
    return next(({"place": f"{module}:{n}"} for n, each in names.items() if each is value), {})


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | float | None) else made_by(value)


def restored(told: Mapping[str, Any]) -> Settings:
    """Return the settings that `described` has made of those of the monitor that started us.

    Raises:
        RagMonitorError: Something cannot be imported here, or carried out.
    """
    for each in told["imports"]:  # it registers the evaluator
        _made(each)
    return Settings(**_made(told["settings"]))


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_made, value))
    if not isinstance(value, dict):
        return value
    if value.keys() == {"place"}:
        return imported(value["place"])
    if value.keys() == {"exporter", "arguments"}:
        by_name = {each.__name__: each for each in EXPORTERS.values() if isinstance(each, type)}
        return by_name[value["exporter"]](**value["arguments"])
    return {key: _made(each) for key, each in value.items()}
