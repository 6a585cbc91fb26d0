"""Chooses where answers are scored: on a thread, in a worker, or beyond a stream; and says why.

A worker is told the settings of its monitor. What the application gave as an object is imported
there by its name, and exporters of ours are made anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import SecretStr

from ragmonitor.evaluators import table
from ragmonitor.export import EXPORTERS
from ragmonitor.export.content import PROCESS_KEY
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.runtime.addresses import UNIX
from ragmonitor.runtime.guard import logger
from ragmonitor.runtime.imports import imported
from ragmonitor.settings import Group, Settings

if TYPE_CHECKING:
    from ragmonitor.pipeline.sender import StreamSender
    from ragmonitor.pipeline.worker_sender import WorkerSender

    BackHalf: TypeAlias = Pipeline | WorkerSender | StreamSender
    """What takes finished interactions, and scores and exports them, or has it done."""


def back_half_of(settings: Settings, poll: Callable[[], object]) -> BackHalf:
    """Return what works behind the request path, as the settings say.

    Args:
        settings: The settings.
        poll: Called now and then; gives up abandoned runs.

    Raises:
        SettingsError: The settings cannot be carried out.
    """
    url = settings.send_to
    if url is not None and not url.get_secret_value().startswith(UNIX):
        from ragmonitor.pipeline.sender import StreamSender

        return StreamSender(settings, poll=poll)
    judge = settings.judge
    told: Mapping[str, Any] | None = None if url is None else {}
    # A model takes seconds to import.
    names_model = isinstance(judge.model, str) or isinstance(judge.builtin, str)
    wants_worker = names_model if settings.worker is None else settings.worker == "process"
    if url is None and wants_worker:
        try:
            _check_system()
            told = described(settings)
        except StaysError as why:
            logger.info("ragmonitor: answers are scored on a thread of this process: %s", why)
    if told is None:
        return Pipeline(settings, poll=poll)
    from ragmonitor.pipeline.worker_sender import WorkerSender

    return WorkerSender(settings, poll=poll, told=told)


class StaysError(Exception):
    """The work has to stay in the application's process."""


def _check_system() -> None:
    """Raise `StaysError` where no worker can be started."""
    if os.name != "posix":
        raise StaysError("workers need a POSIX system")
    # An application that embeds Python is named there itself, as uWSGI is, and would start again.
    is_python = Path(sys.executable or "").name.lower().startswith(("python", "pypy"))
    if getattr(sys, "frozen", False) or not is_python:
        raise StaysError("there is no interpreter to start (a frozen or embedding application)")
    is_patched = getattr(sys.modules.get("gevent.monkey"), "is_module_patched", None)
    if is_patched is not None and is_patched("threading"):
        raise StaysError("gevent has replaced threads and sockets")


# --- what a worker is told of the settings -------------------------------------------------------


def described(settings: Settings) -> dict[str, Any]:
    """Return the settings as plain values, for a worker of ours.

    Raises:
        StaysError: There is an object that a worker cannot have.
    """
    entries = table.select(settings.evaluators)
    named = settings.model_copy(update={"evaluators": [entry.name for entry in entries]})
    values, functions = _plain(named), [entry.evaluator for entry in entries]
    # Both processes may put hashes of one text into a trace.
    values["content"]["hash_key"] = values["content"]["hash_key"] or PROCESS_KEY.hex()
    others = [each for each in functions if not _module_of(each).startswith("ragmonitor.")]
    return {"settings": values, "imports": _plain(others, "evaluators")}


def _plain(value: Any, option: str = "") -> Any:
    """Return an option's value as a worker is told it."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Group | Mapping):
        named = dict(value).items()
        return {name: _plain(each, f"{option}.{name}".strip(".")) for name, each in named}
    if isinstance(value, list | tuple):
        return [_plain(each, option) for each in value]
    return value if isinstance(value, str | int | float | None) else _made_by(value, option)


def _made_by(value: Any, option: str) -> dict[str, Any]:
    """Return by what a worker has the same object: its place; or an exporter's arguments."""
    arguments = getattr(value, "arguments", None) if type(value) in EXPORTERS.values() else None
    if arguments:
        return {"exporter": type(value).__name__, "arguments": _plain(arguments, option)}
    module = _module_of(value)
    names = vars(sys.modules.get(module, os)) if module != "__main__" else {}
    for name, each in names.items():
        if each is value:
            return {"place": f"{module}:{name}"}
    kind = getattr(value, "__qualname__", None) or type(value).__qualname__
    raise StaysError(f"{option} has an object that a worker cannot import ({kind})")


def _module_of(value: Any) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)


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
