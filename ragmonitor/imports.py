"""Imports what a command names, and modules that take seconds to load, in applications that fork.

A child that is forked while another thread imports has the module half, and its lock for ever:
whoever imports it there waits without end, the application included. A fork therefore waits until
such an import is through.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ragmonitor.errors import InputError, RagMonitorError
from ragmonitor.forks import survive_forks
from ragmonitor.guard import logger

FORK_WAIT_S: Final = 60.0
"""litellm's import takes 2 to 6 s, 35 s and more on a machine that is busy starting. A child that
is forked before its end has no judge for its whole life."""


def imported(name: str, *, option: str = "") -> Any:
    """Return a module, or of `module:object` the object; the current folder is looked in first.

    Args:
        name: As a user gives it.
        option: By which it was given.

    Raises:
        InputError: It cannot be imported.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in filter(None, path.split(".")):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # a script's `sys.exit(0)` is no success of ours
        raise InputError(f"{option} {name}: {type(error).__name__}: {error}".lstrip()) from error
    return found


class HalfImportedError(RagMonitorError):
    """The process was forked in the middle of an import that took too long; restart it."""

    quotes_no_text = True


class _Imports:
    """Imports one module at a time, and lets no fork come in between."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        """Held while a module is imported, and over a fork."""
        self._forking = 0
        """The thread that holds the lock over its fork: others may fork at the same time."""
        self._name = ""
        self._half: str | None = None
        """The module that this process has half: its parent imported it when it forked."""

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Let no fork come in between, as the function of this name says."""
        with self._lock:
            if self._half is not None:
                raise HalfImportedError(
                    f"this process was forked while {self._half} was being imported for longer "
                    f"than {FORK_WAIT_S:g} s; import it before the fork, or build the Monitor "
                    "after it"
                )
            self._name = name
            yield

    def before_fork(self) -> None:
        """Wait for the end of an import that is under way."""
        if self._lock.acquire(timeout=FORK_WAIT_S):
            self._forking = threading.get_ident()
        else:
            logger.warning(
                "ragmonitor: a fork has waited %g s for the import of %s and goes on; the child "
                "has no judge. Import it before the fork, or build the Monitor after it",
                FORK_WAIT_S,
                self._name,
            )

    def after_fork_in_parent(self) -> None:
        """Go on importing."""
        if self._forking == threading.get_ident():
            self._forking = 0
            self._lock.release()

    def after_fork_in_child(self) -> None:
        """Take a lock of its own, and note what is half imported."""
        if self._forking != threading.get_ident():
            self._half = self._name
        self._lock, self._forking = threading.RLock(), 0


_imports = _Imports()
_after: dict[str, list[Callable[[ModuleType], None]]] = {}
survive_forks(_imports)


def load(name: str) -> ModuleType:
    """Return the module, imported if need be; to be called on a thread that may take its time.

    Raises:
        ImportError: There is none.
        HalfImportedError: This is a forked child that has it half.
    """
    with _imports.held(name):
        module = import_module(name)
        for call in _after.pop(name, ()):
            call(module)
        return module


def after(name: str, call: Callable[[ModuleType], None]) -> None:
    """Have `call` called with the module when it is loaded here for the first time."""
    _after.setdefault(name, []).append(call)


def held(name: str) -> AbstractContextManager[None]:
    """Let no fork come in between the imports that are made in the block, by whatever library.

    Libraries import parts of themselves when they are first called. Raises `HalfImportedError`.

    Args:
        name: What is being imported, for the log.
    """
    return _imports.held(name)
