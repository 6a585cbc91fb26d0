"""Says where answers are scored and why, and tells a worker of what its monitor was given."""

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
from ragmonitor.runtime import imports
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.settings import Settings

UNIX: Final = "unix:"
"""Begins the address of a worker that all processes of a machine share."""
_PLAIN: Final = (str, bool, int, float, type(None))
_OBJECTS: Final = ("custom_provider_map", "custom_prompt_dict")
"""Names of litellm: what an application puts there works in its own process only."""
_GREENLETS: Final = (
    ("gevent.monkey", "is_module_patched", "threading"),
    ("eventlet.patcher", "is_monkey_patched", "thread"),
)
"""Where and how to ask whether threads were replaced, and not only a module was imported."""


def wants_worker(settings: Settings) -> bool:
    """Return whether a worker is to score: it is told so, or a model takes seconds to import."""
    if settings.worker is not None:
        return settings.worker == "process"
    return isinstance(settings.judge.model, str) or isinstance(settings.judge.builtin, str)


def require_texts(settings: Settings) -> None:
    """Raise `SettingsError` where a worker with settings of its own may not be sent texts."""
    if settings.content.shown != "all":
        raise SettingsError(
            "send_to: a worker elsewhere scores texts, and content.policy is "
            f"{settings.content.shown!r}: nothing could be scored; use content='all', with "
            "redaction, or score in this process"
        )


def reason_to_stay(settings: Settings) -> str:
    """Return why the work has to stay in the application's process; empty: it need not."""
    if os.name != "posix":
        return "workers need a POSIX system"
    # An application that embeds Python is named there itself, as uWSGI is, and would start again.
    is_python = Path(sys.executable or "").name.lower().startswith(("python", "pypy"))
    if getattr(sys, "frozen", False) or not is_python:
        return "there is no interpreter to start (a frozen or embedding application)"
    for name, asked, module in _GREENLETS:
        is_patched = getattr(sys.modules.get(name), asked, None)
        if is_patched is not None and is_patched(module):
            return f"{name.partition('.')[0]} has replaced threads and sockets"
    for name in _OBJECTS:
        if getattr(sys.modules.get("litellm"), name, None):
            return f"litellm.{name} holds objects of the application's"
    for option, value in _objects(settings):
        if not (_arguments_of(value) or place_of(value)):
            kind = getattr(value, "__qualname__", None) or type(value).__qualname__
            return f"{option} has an object that a worker cannot import ({kind})"
    return ""


def _objects(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield the objects of the application's, by option."""
    given: dict[str, Any] = {
        "judge": (settings.judge.model,),
        "judge.builtin": (settings.judge.builtin,),
        "content.redaction": settings.content.redaction,
        "exporters": settings.exporters,
        "evaluators": [
            entry.evaluator
            for entry in table.select(settings.evaluators)
            if not _module_of(entry.evaluator).startswith("ragmonitor.")
        ],
    }
    for option, values in given.items():
        for value in values:
            if not isinstance(value, _PLAIN):
                yield option, value


def _arguments_of(value: Any) -> dict[str, Any] | None:
    """Return with what a worker makes an exporter of ours."""
    is_ours = type(value) in EXPORTERS.values()
    return getattr(value, "arguments", None) if is_ours else None


def _module_of(value: Any) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)


def place_of(value: Any) -> str:
    """Return `module:name`, by which a worker imports an object; empty: it cannot."""
    module = _module_of(value)
    names = vars(sys.modules.get(module, os)) if module != "__main__" else {}
    return next((f"{module}:{name}" for name, each in names.items() if each is value), "")


def described(settings: Settings) -> dict[str, Any]:
    """Return the settings as plain values, for a worker; `reason_to_stay` is empty for them."""
    places = {id(value): place_of(value) for _, value in _objects(settings)}

    def plain(value: Any) -> Any:
        if isinstance(value, SecretStr):
            return value.get_secret_value()
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, Mapping):
            return {key: plain(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        if isinstance(value, _PLAIN):
            return value
        if arguments := _arguments_of(value):
            return {"exporter": type(value).__name__, "arguments": plain(arguments)}
        return {"place": places[id(value)]}

    selected = table.select(settings.evaluators)
    values = plain(settings.model_dump())
    values["evaluators"] = [entry.name for entry in selected]
    # Both processes may put hashes of one text into a trace.
    values["content"]["hash_key"] = values["content"]["hash_key"] or PROCESS_KEY.hex()
    litellm = vars(sys.modules.get("litellm", os)) if "litellm" in sys.modules else {}
    return {
        "settings": values,
        "imports": [
            place_of(entry.evaluator)
            for entry in selected
            if not _module_of(entry.evaluator).startswith("ragmonitor.")
        ],
        "litellm": {
            name: value
            for name, value in litellm.items()
            if isinstance(value, _PLAIN) and not name.startswith("_") and not name.isupper()
        },
    }


def restored(setup: Mapping[str, Any]) -> Settings:
    """Return the settings that `described` has made plain, with what they name imported.

    Raises:
        RagMonitorError: Something cannot be imported here, or carried out.
    """
    by_name = {each.__name__: each for each in EXPORTERS.values() if isinstance(each, type)}

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(whole, value))
        if not isinstance(value, dict):
            return value
        if value.keys() == {"place"}:
            return imports.imported(value["place"])
        if value.keys() == {"exporter", "arguments"}:
            return by_name[value["exporter"]](**value["arguments"])
        return {key: whole(each) for key, each in value.items()}

    for place in setup["imports"]:
        imports.imported(place)

    def apply(module: Any) -> None:
        for name, value in setup["litellm"].items():
            if getattr(module, name, None) != value:
                setattr(module, name, value)

    imports.after("litellm", apply)
    return Settings(**whole(setup["settings"]))
