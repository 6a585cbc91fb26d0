"""Imports that take seconds, on threads of ours, in applications that fork.

A child that is forked while another thread imports has the module half, and its lock for ever:
whoever imports it there waits without end, the application included. A fork therefore waits until
such an import is through.
"""

from __future__ import annotations

import os
import threading
from importlib import import_module
from types import ModuleType
from typing import Final

from ragmonitor.errors import RagMonitorError
from ragmonitor.guard import logger

FORK_WAIT_S: Final = 20.0
"""litellm's import takes 2 to 6 s, several times that on a machine that is busy starting."""


class HalfImportedError(RagMonitorError):
    """The process was forked in the middle of an import that took too long; restart it."""

    quotes_no_text = True


class _State:
    """Whose import is under way."""

    lock = threading.RLock()
    """Held while a module is imported, and over a fork."""
    is_held_for_fork = False
    name = ""
    half: str | None = None
    """What this process has half, since its parent imported it when it forked."""


def load(name: str) -> ModuleType:
    """Return the module, imported if need be; to be called on a thread that may take its time.

    Raises:
        ImportError: There is none.
        HalfImportedError: This is a forked child that has it half.
    """
    with _State.lock:
        if _State.half is not None:
            raise HalfImportedError(
                f"this process was forked while {_State.half} was being imported for longer than "
                f"{FORK_WAIT_S:g} s; import it before the fork, or build the Monitor after it"
            )
        _State.name = name
        return import_module(name)


def _before_fork() -> None:
    _State.is_held_for_fork = _State.lock.acquire(timeout=FORK_WAIT_S)
    if not _State.is_held_for_fork:
        logger.warning(
            "ragmonitor: a fork has waited %g s for the import of %s and goes on; the child has no "
            "judge. Import it before the fork, or build the Monitor after it",
            FORK_WAIT_S,
            _State.name,
        )


def _after_fork_in_parent() -> None:
    if _State.is_held_for_fork:
        _State.lock.release()


def _after_fork_in_child() -> None:
    if not _State.is_held_for_fork:
        _State.half = _State.name
    _State.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
