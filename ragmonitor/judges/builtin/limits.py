"""Limits of what one answer may cost the built-in judge, which reads all answers on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ragmonitor.records import Cause
from ragmonitor.runtime.errors import JudgeError
from ragmonitor.runtime.lock_slices import give_back

MAX_CHARACTERS: Final = 200_000
"""Characters of question, chunks, answer and reference together: some fifty times what is usual.
Ordinary texts of this length take 0.05 s in English and 0.15 s in Chinese."""
MAX_CPU_S: Final = 1.0
"""CPU time of the reading thread for one answer. Only texts that are made to be slow come near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of the texts of one answer, and of the time in which they are read."""

    max_characters: int = MAX_CHARACTERS
    max_cpu_s: float = MAX_CPU_S

    def check(self, judge: str, texts: Iterable[str]) -> None:
        """Refuse texts that are too long, before anything is done with them.

        Raises:
            JudgeError: They are too long; the cause is `too_long`.
        """
        characters = sum(map(len, texts))
        if characters > self.max_characters:
            raise _too_long(
                judge,
                f"question, chunks and answer have {characters:,} characters together, more than "
                f"{self.max_characters:,}",
            )

    def deadline(self, judge: str) -> Callable[[], None]:
        """Return a function that raises once this thread has worked for too long from now on.

        It raises `JudgeError`, cause `too_long`. Before, it gives the interpreter's lock back.
        """
        until = time.thread_time() + self.max_cpu_s

        def check() -> None:
            give_back()
            if time.thread_time() > until:
                raise _too_long(judge, f"not read within {self.max_cpu_s:g} s of CPU time")

        return check


def _too_long(judge: str, problem: str) -> JudgeError:
    return JudgeError(judge, problem, cause=Cause.TOO_LONG, retryable=False)
