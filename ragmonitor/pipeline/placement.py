"""Chooses where answers are scored: on a thread, in a worker, or beyond a stream; and says why.

A worker is told the settings of its monitor. What the application gave as an object is imported
there by its name, and exporters of ours are made anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
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
from ragmonitor.settings import Settings

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
    # A model takes seconds to import.
    names_model = isinstance(judge.model, str) or isinstance(judge.builtin, str)
    wants_worker = names_model if settings.worker is None else settings.worker == "process"
    why = _reason_to_stay(settings) if wants_worker and url is None else ""
    if why:
        logger.info("ragmonitor: answers are scored on a thread of this process: %s", why)
    elif url is not None or wants_worker:
        from ragmonitor.pipeline.worker_sender import WorkerSender

        return WorkerSender(settings, poll=poll, described=partial(described, settings))
    return Pipeline(settings, poll=poll)


def _reason_to_stay(settings: Settings) -> str:
    """Return why the work has to stay in the application's process; empty: it need not."""
    if os.name != "posix":
        return "workers need a POSIX system"
    # An application that embeds Python is named there itself, as uWSGI is, and would start again.
    is_python = Path(sys.executable or "").name.lower().startswith(("python", "pypy"))
    if getattr(sys, "frozen", False) or not is_python:
        return "there is no interpreter to start (a frozen or embedding application)"
    is_patched = getattr(sys.modules.get("gevent.monkey"), "is_module_patched", None)
    if is_patched is not None and is_patched("threading"):
        return "gevent has replaced threads and sockets"
    given = (
        ("judge", (settings.judge.model, settings.judge.builtin)),
        ("content.redaction", settings.content.redaction),
        ("exporters", settings.exporters),
        ("evaluators", evaluators_of(settings)),
    )
    for option, values in given:
        for value in values:
            if not (value is None or isinstance(value, str) or made_by(value)):
                kind = getattr(value, "__qualname__", None) or type(value).__qualname__
                return f"{option} has an object that a worker cannot import ({kind})"
    return ""


# --- what a worker is told of the settings -------------------------------------------------------


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
