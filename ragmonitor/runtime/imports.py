"""Imports what a command or a setting names."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from ragmonitor.runtime.errors import InputError


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
