"""Where our own exceptions stop: logged once each, counted by stage, never seen by the host."""

from __future__ import annotations

import logging
from collections import Counter
from types import TracebackType
from typing import Literal, Self

logger = logging.getLogger("ragmonitor")

errors: Counter[str] = Counter()
"""Errors so far in this process, by stage."""

_logged: set[tuple[str, type[BaseException], int]] = set()
_LOGGED_MOST = 200


class shielded:  # noqa: N801 - reads as a statement: `with shielded("capture"):`
    """A context manager that swallows, logs and counts every `Exception` of one stage.

    The first error of its kind (stage, type, line) is logged at WARNING with its traceback,
    further ones at DEBUG: a fault that repeats on every request must not flood the host's log.
    Instances hold no state of a call, so one may be shared and nested.
    """

    __slots__ = ("stage",)

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        record_error(self.stage, error)
        return True


def record_error(stage: str, error: Exception) -> None:
    """Count and log an error of ours, where a `with` block does not fit (hot callbacks)."""
    errors[stage] += 1
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    seen = (stage, type(error), trace.tb_lineno if trace is not None else 0)
    level: Literal[10, 30] = logging.DEBUG if seen in _logged else logging.WARNING
    if len(_logged) < _LOGGED_MOST:
        _logged.add(seen)
    logger.log(
        level,
        "ragmonitor: error in stage %s; the application is not affected",
        stage,
        exc_info=error,
    )
