"""Says what a helper process is told at its start, and what keeps the work in the application."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from ragmonitor.evaluators import table
from ragmonitor.evaluators.table import Entry
from ragmonitor.export.content import PROCESS_KEY
from ragmonitor.protocols import Exporter
from ragmonitor.settings import Settings

_PLAIN = (str, bool, int, float, type(None))
_OPTIONAL = ("alarm", "snapshot", "feedback")
"""The methods of `AlarmListener`, `SnapshotListener` and `FeedbackListener`."""
_OBJECTS = ("custom_provider_map", "custom_prompt_dict")
"""Names of litellm: what an application puts there works in its own process only."""
_GREENLETS = (
    ("gevent.monkey", "is_module_patched", "threading"),
    ("eventlet.patcher", "is_monkey_patched", "thread"),
)
"""Where and how to ask whether threads were replaced, and not only a module was imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings and counts that a helper process works with."""

    settings: Settings
    """Its exporters are texts."""
    exporters: tuple[tuple[str, ...], ...]
    """Those of the application, in their order: for each the optional methods that it has."""
    host: int
    """The application's process id."""
    number: int
    """Later monitors have higher ones: the newest of a service has its address."""
    restarts: int
    """The number of helpers of this monitor that died before."""
    errors: Mapping[str, int]
    """The application's own errors by stage, as they were before this monitor."""
    litellm: Mapping[str, object]
    """Settings of the module litellm as the application has them; empty: it has not imported it."""


def heard_by(exporter: Exporter) -> tuple[str, ...]:
    """Return the optional methods of an exporter: what it is to be sent beside reports."""
    return tuple(each for each in _OPTIONAL if hasattr(exporter, each))


def without_objects(settings: Settings) -> Settings:
    """Return the settings as a helper process may have them: plain values, and a key for hashes."""
    changed: dict[str, object] = {
        "exporters": tuple(each for each in settings.exporters if isinstance(each, str)),
        "evaluators": tuple(entry.name for entry in table.select(settings.evaluators)),
    }
    if settings.content.hash_key is None:
        # Both processes may put hashes of one text into a trace.
        key = SecretStr(PROCESS_KEY.hex())
        changed["content"] = settings.content.model_copy(update={"hash_key": key})
    return settings.model_copy(update=changed)


def reason_to_stay(settings: Settings) -> str:
    """Return why the work has to stay in the application's process; empty: it need not.

    Objects that score or change texts may hold anything, so they run where they were made.
    """
    if os.name != "posix" or not hasattr(os, "fork"):
        return "helper processes need a POSIX system"
    if not _can_start_interpreter():
        return "there is no interpreter to start (a frozen or embedding application)"
    objects = {
        "judge": settings.judge.model,
        "judge.builtin": settings.judge.builtin,
    }
    for name, value in objects.items():
        if value is not None and not isinstance(value, str):
            return f"{name} was given as an object"
    if any(map(callable, settings.content.redaction)):
        return "content.redaction holds a function of the application's"
    own = [entry.name for entry in table.select(settings.evaluators) if not _is_ours(entry)]
    if own:
        return f"the evaluator {own[0]} is a function of the application's"
    return ""


def _can_start_interpreter() -> bool:
    # An application that embeds Python is named there itself, as uWSGI is, and would start again.
    name = Path(sys.executable or "").name.lower()
    return not getattr(sys, "frozen", False) and name.startswith(("python", "pypy"))


def _is_ours(entry: Entry) -> bool:
    module = getattr(entry.evaluator, "__module__", None) or type(entry.evaluator).__module__
    return module.partition(".")[0] == "ragmonitor"


def reason_to_stay_now() -> str:
    """Return why the work has to stay, as the application is when the helper is to start."""
    for name, asked, module in _GREENLETS:
        is_patched = getattr(sys.modules.get(name), asked, None)
        if is_patched is not None and is_patched(module):
            return (
                f"{name.partition('.')[0]} has replaced threads and sockets, with which no helper "
                "process can be served; workers with threads (gthread) have one"
            )
    litellm = sys.modules.get("litellm")
    for name in _OBJECTS:
        if getattr(litellm, name, None):
            return f"litellm.{name} holds objects of the application's"
    return ""


def litellm_settings() -> dict[str, object]:
    """Return the plain settings of the module litellm; empty: it is not imported."""
    module = sys.modules.get("litellm")
    if module is None:
        return {}
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, _PLAIN) and not name.startswith("_") and not name.isupper()
    }
