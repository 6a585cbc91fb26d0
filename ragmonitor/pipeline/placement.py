"""Chooses where answers are scored: on a thread, in a worker, or beyond a stream; and says why."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ragmonitor.pipeline.carried_settings import UNIX, evaluators_of, made_by
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.runtime.guard import logger
from ragmonitor.settings import Settings

if TYPE_CHECKING:
    from ragmonitor.pipeline.stream_sender import StreamSender
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
        from ragmonitor.pipeline.stream_sender import StreamSender

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

        return WorkerSender(settings, poll=poll)
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
