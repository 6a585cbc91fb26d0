"""Limits of what one answer may cost the built-in judge, which reads all answers on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from ragmonitor.records import Cause
from ragmonitor.runtime.errors import JudgeError
from ragmonitor.runtime.lock_slices import give_back

MAX_CHARACTERS: Final = 200_000
"""Characters of question, chunks, answer and reference together: some fifty times what is usual.
Ordinary texts of this length take 0.05 s in English and 0.15 s in Chinese."""
MAX_CPU_S: Final = 1.0
"""CPU time of the reading thread for one answer. Only texts that are made to be slow come near."""


def check_length(texts: Iterable[str]) -> None:
    """Refuse texts that are too long, before anything is done with them.

    Raises:
        JudgeError: They are too long; the cause is `too_long`.
    """
    characters = sum(map(len, texts))
    if characters > MAX_CHARACTERS:
        raise _too_long(
            f"question, chunks and answer have {characters:,} characters together, more than "
            f"{MAX_CHARACTERS:,}"
        )


def deadline() -> Callable[[], None]:
    """Return a function that raises once this thread has worked for too long from now on.

    It raises `JudgeError`, cause `too_long`. Before, it gives the interpreter's lock back.
    """
    until = time.thread_time() + MAX_CPU_S

    def check() -> None:
        give_back()
        if time.thread_time() > until:
            raise _too_long(f"not read within {MAX_CPU_S:g} s of CPU time")

    return check


def _too_long(problem: str) -> JudgeError:
    return JudgeError("builtin", problem, cause=Cause.TOO_LONG, retryable=False)
