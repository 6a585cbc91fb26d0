"""What one answer may cost the built-in judge: it reads on the one thread that reads them all."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ragmonitor.errors import JudgeError
from ragmonitor.records import Cause

MAX_CHARACTERS: Final = 200_000
"""Of question, chunks, answer and reference together: some fifty times what is usual. Ordinary
texts of this length take 0.05 s in English and 0.15 s in Chinese."""
MAX_CPU_S: Final = 1.0
"""Of the reading thread, for one answer. Only texts that are made to be slow come near it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long the texts of one answer may be, and for how long they may be read."""

    max_characters: int = MAX_CHARACTERS
    max_cpu_s: float = MAX_CPU_S

    def check(self, judge: str, texts: Iterable[str]) -> None:
        """Refuse texts that are too long, before anything is done with them.

        Raises:
            JudgeError: They are; the cause is `too_long`.
        """
        characters = sum(map(len, texts))
        if characters > self.max_characters:
            raise _too_long(
                judge,
                f"question, chunks and answer have {characters:,} characters together, more than "
                f"{self.max_characters:,}",
            )

    def watch(self, judge: str) -> Watch:
        """Return what ends a reading that takes too long from now on."""
        return Watch(judge, self.max_cpu_s)


class Watch:
    """Ends a reading once its thread has worked on it for too long."""

    __slots__ = ("_judge", "_max_cpu_s", "_until")

    def __init__(self, judge: str, max_cpu_s: float) -> None:
        self._judge = judge
        self._max_cpu_s = max_cpu_s
        self._until = time.thread_time() + max_cpu_s

    def __call__(self) -> None:
        """Raise `JudgeError`, cause `too_long`, if the time is over."""
        if time.thread_time() > self._until:
            raise _too_long(self._judge, f"not read within {self._max_cpu_s:g} s of CPU time")


def _too_long(judge: str, problem: str) -> JudgeError:
    return JudgeError(judge, problem, cause=Cause.TOO_LONG, retryable=False)
