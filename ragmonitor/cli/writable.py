"""Checks whether the paths that the settings name can be written, without leaving a trace."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCheck:
    """Says whether a file or folder can be written."""

    summary: str
    """For people."""
    problem: str = ""
    """Why it cannot be written, in the system's words; empty: it can."""
    is_open_to_others: bool = False
    """Others on this machine can read it."""


def checked_folder(path: Path) -> WriteCheck:
    """Return whether files can be made in a folder; one that is missing is made when needed."""
    if not path.exists():
        return _to_be_made(path)
    problem = _problem_within(path)
    if not problem:
        for file in sorted(path.iterdir()):
            if file.is_file() and not os.access(file, os.R_OK | os.W_OK):
                problem = f"{file.name}: {os.strerror(errno.EACCES)}"
                break
    return _existing(path, problem)


def checked_file(path: Path) -> WriteCheck:
    """Return whether lines can be appended to a file; one that is missing is made when needed."""
    if not path.exists():
        return _to_be_made(path)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
    except OSError as error:
        return _existing(path, _words(error))
    return _existing(path, "")


def _to_be_made(path: Path) -> WriteCheck:
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    return WriteCheck(summary=f"{path} is made when needed", problem=_problem_within(nearest))


def _problem_within(folder: Path) -> str:
    try:
        with tempfile.TemporaryFile(prefix=".ragmonitor-", dir=folder):
            return ""
    except OSError as error:
        return f"{folder}: {_words(error)}"


def _existing(path: Path, problem: str) -> WriteCheck:
    mode = stat.S_IMODE(path.stat().st_mode)
    if problem or not mode & 0o077:
        summary = str(path) if problem else f"{path} can be written"
        return WriteCheck(summary=summary, problem=problem)
    least = "700" if path.is_dir() else "600"
    return WriteCheck(
        summary=f"{path} can be written; others on this machine may read it (mode {mode:03o}); "
        f"if they should not: chmod {least} {path}",
        is_open_to_others=True,
    )


def _words(error: OSError) -> str:
    return error.strerror or type(error).__name__
