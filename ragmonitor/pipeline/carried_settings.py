"""Carries the settings of a monitor to its worker.

What the application gave as an object is imported there by its name, and exporters of ours are made
anew.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Iterator
from typing import Any, Final

from ragmonitor.evaluators import table
from ragmonitor.export import EXPORTERS
from ragmonitor.runtime.imports import imported
from ragmonitor.settings import Settings

UNIX: Final = "unix:"
"""Begins the address of a worker that all processes of a machine share."""


def objects_of(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield what the application gave as objects, by option."""
    given = (
        ("judge", (settings.judge.model, settings.judge.builtin)),
        ("content.redaction", settings.content.redaction),
        ("exporters", settings.exporters),
        ("evaluators", _evaluators(settings)),
    )
    for option, values in given:
        for value in values:
            if value is not None and not isinstance(value, str):
                yield option, value


def _evaluators(settings: Settings) -> list[Any]:
    """Return the functions of evaluators that are not ours."""
    selected = [entry.evaluator for entry in table.select(settings.evaluators)]
    return [each for each in selected if not _module_of(each).startswith("ragmonitor.")]


def _module_of(value: Any) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)


def made_by(value: Any) -> tuple[Any, ...]:
    """Return by what a worker has the same object: its place, or class and arguments; empty: none.

    The arguments are those of an exporter of ours.
    """
    arguments = getattr(value, "arguments", None) if type(value) in EXPORTERS.values() else None
    if arguments:
        return type(value), arguments
    module = _module_of(value)
    names = vars(sys.modules.get(module, os)) if module != "__main__" else {}
    return next(((f"{module}:{name}",) for name, each in names.items() if each is value), ())


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, objects: dict[int, tuple[Any, ...]]) -> None:
        super().__init__(file)
        self._objects = objects

    def persistent_id(self, value: Any) -> Any:
        return self._objects.get(id(value))


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, made_by: Any) -> Any:
        first, *arguments = made_by
        return first(**arguments[0]) if arguments else imported(first)


def described(settings: Settings) -> bytes:
    """Return the settings as bytes, for a worker of ours: nobody has a reason to stay."""
    objects = {id(value): made_by(value) for _, value in objects_of(settings)}
    names = tuple(entry.name for entry in table.select(settings.evaluators))
    file = io.BytesIO()
    # The functions come with the names of evaluators: their import registers them.
    whole = settings.model_copy(update={"evaluators": names}), _evaluators(settings)
    _Pickler(file, objects).dump(whole)
    return file.getvalue()


def restored(data: bytes) -> Settings:
    """Return the settings that `described` has made of those of the monitor that started us.

    Raises:
        RagMonitorError: Something cannot be imported here.
    """
    settings: Settings = _Unpickler(io.BytesIO(data)).load()[0]
    return settings
