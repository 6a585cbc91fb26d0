"""Chooses where answers are scored: on a thread, in a worker, or beyond a stream; and says why.

A worker gets the settings of its monitor. What the application gave as an object is imported there
by its name; where it has none, the work stays on a thread of the application's process.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ragmonitor.evaluators import table
from ragmonitor.export import EXPORTERS
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.redaction import Redactor
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.guard import logger
from ragmonitor.runtime.imports import imported
from ragmonitor.settings import Settings

if TYPE_CHECKING:
    from ragmonitor.pipeline.stream_sender import StreamSender
    from ragmonitor.pipeline.worker_sender import WorkerSender

    BackHalf: TypeAlias = Pipeline | WorkerSender | StreamSender
    """What takes finished interactions, and scores and exports them, or has it done."""

UNIX: Final = "unix:"
"""Begins the address of a worker that all processes of a machine share."""


def back_half_of(settings: Settings, *, redactor: Redactor, poll: Callable[[], object]) -> BackHalf:
    """Return what works behind the request path, as the settings say.

    Args:
        settings: The settings.
        redactor: What every text passes before a judge or an exporter sees it.
        poll: Called now and then; gives up abandoned runs.

    Raises:
        SettingsError: The settings cannot be carried out.
    """
    url = settings.send_to
    if url is not None:
        require_texts(settings)
        if not url.get_secret_value().startswith(UNIX):
            from ragmonitor.pipeline.stream_sender import StreamSender

            return StreamSender(settings, redactor=redactor, poll=poll)
    why = "" if url is not None or not _wants_worker(settings) else _reason_to_stay(settings)
    if why:
        logger.info("ragmonitor: answers are scored on a thread of this process: %s", why)
    elif url is not None or _wants_worker(settings):
        from ragmonitor.pipeline.worker_sender import WorkerSender

        return WorkerSender(settings, redactor=redactor, poll=poll)
    return Pipeline(settings, redactor=redactor, poll=poll)


def require_texts(settings: Settings) -> None:
    """Raise `SettingsError` where a worker with settings of its own may not be sent texts."""
    if settings.content.shown != "all":
        raise SettingsError(
            "send_to: a worker elsewhere scores texts, and content.policy is "
            f"{settings.content.shown!r}: nothing could be scored; use content='all', with "
            "redaction, or score in this process"
        )


def _wants_worker(settings: Settings) -> bool:
    """Return whether a worker is to score: it is told so, or a model takes seconds to import."""
    if settings.worker is not None:
        return settings.worker == "process"
    return isinstance(settings.judge.model, str) or isinstance(settings.judge.builtin, str)


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
    for option, value in _objects(settings):
        if not _made_by(value):
            kind = getattr(value, "__qualname__", None) or type(value).__qualname__
            return f"{option} has an object that a worker cannot import ({kind})"
    return ""


def _objects(settings: Settings) -> Iterator[tuple[str, Any]]:
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


def _made_by(value: Any) -> tuple[Any, ...]:
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
    objects = {id(value): _made_by(value) for _, value in _objects(settings)}
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
