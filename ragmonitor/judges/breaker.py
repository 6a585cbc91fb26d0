"""The circuit breaker leaves a provider that is down alone, and tries now and then."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from types import TracebackType
from typing import Final, Literal, Self

from ragmonitor.guard import logger, reason
from ragmonitor.judges.provider import ProviderError
from ragmonitor.protocols import BreakerState, Clock

OPENS_AFTER: Final = 5
"""So many readings in a row that the provider failed open the breaker."""
COOL_S: Final = 30.0
MAX_COOL_S: Final = 600.0
LOG_PAUSE_S: Final = 3_600.0
"""An opening is logged at WARNING once in so many seconds, else at DEBUG."""


class Breaker:
    """Closed: readings pass. Open: none does, for `cool_s`. Half open: one passes, as a probe.

    A probe that fails opens it for twice as long as before, up to `max_cool_s`; one that succeeds
    closes it. A provider that names a later time (`Retry-After`) is left alone until then, up to
    `max_cool_s`. What the provider says of one request (400, a text that it will not process) is no
    failure of the provider. Not locked: the state is a few numbers, and two threads that meet here
    cost at worst one probe more.

    Source:
        Nygard, "Release It!" (2007), chapter 5.
    """

    def __init__(
        self,
        *,
        name: str = "",
        opens_after: int = OPENS_AFTER,
        cool_s: float = COOL_S,
        max_cool_s: float = MAX_COOL_S,
        clock: Clock = time.monotonic,
    ) -> None:
        self._name = name
        """The name of the judge, for the log."""
        self._logged_s = -math.inf
        self._opens_after = opens_after
        self._cool_s = cool_s
        self._cool_most_s = max_cool_s
        self._clock = clock
        self._failures = 0
        self._opened = 0
        """The number of times in a row that the breaker has opened."""
        self._open_until: float | None = None
        self._probe: Attempt | None = None

    @property
    def state(self) -> BreakerState:
        """The state as of now; an open breaker stays open after its time until a reading tries."""
        if self._open_until is None:
            return "closed"
        return "half_open" if self._is_probed else "open"

    def admits(self) -> bool:
        """Return whether a reading would pass now."""
        if self._open_until is None:
            return True
        return not self._is_probed and self._clock() >= self._open_until

    @property
    def _is_probed(self) -> bool:
        # In a forked child the probe is the parent's and never ends.
        return self._probe is not None and self._probe.process == os.getpid()

    def attempt(self) -> Attempt:
        """Return a context manager around one reading, which reports how the reading ended.

        Raises:
            ProviderError: Kind `down`: the breaker is open, or a probe is under way.
        """
        if not self.admits():
            left_s = max(0.0, (self._open_until or 0.0) - self._clock())
            raise ProviderError(
                "the provider has failed repeatedly and is not asked"
                + (f" for {left_s:.0f} s" if left_s else ": a probe is under way"),
                kind="down",
            )
        attempt = Attempt(self, is_probe=self._open_until is not None)
        if attempt.is_probe:
            self._probe = attempt
        return attempt

    def ended(
        self,
        attempt: Attempt,
        outcome: Literal["answered", "failed", "unknown"],
        error: ProviderError | None = None,
    ) -> None:
        """Record how an attempt ended; `error` says why it failed."""
        is_probe = self._probe is attempt
        if is_probe:
            self._probe = None
        if outcome == "answered":
            self._failures = self._opened = 0
            self._open_until = None
        elif outcome == "failed" and (is_probe or self._open_until is None):
            self._failures += 1
            if is_probe or self._failures >= self._opens_after:
                self._open(error)

    def _open(self, error: ProviderError | None) -> None:
        asked_s = (error and error.retry_after_s) or 0.0
        cool_s = min(self._cool_most_s, max(asked_s, self._cool_s * 2**self._opened))
        self._opened = min(self._opened + 1, 30)
        now_s = self._clock()
        self._open_until = now_s + cool_s
        if error is None:
            return
        level = logging.DEBUG
        if now_s - self._logged_s >= LOG_PAUSE_S:
            level, self._logged_s = logging.WARNING, now_s
        with contextlib.suppress(Exception):  # a handler of the host's may raise
            logger.log(
                level,
                "ragmonitor: the judge %s fails (%s): it is not asked for %.0f s, and then tried "
                "with one answer at a time until it replies; meanwhile answers have no verdict of "
                "it, cause judge_down; said once an hour",
                self._name,
                reason(error),
                cool_s,
            )


class Attempt:
    """One reading that a breaker let pass."""

    def __init__(self, breaker: Breaker, *, is_probe: bool) -> None:
        self.is_probe = is_probe
        self.process = os.getpid()
        self._breaker = breaker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._breaker.ended(self, "answered")
        elif isinstance(error, ProviderError):
            if error.kind == "refused":
                self._breaker.ended(self, "answered")
            else:
                self._breaker.ended(self, "failed", error)
        else:  # cancelled, or a fault of ours: it says nothing of the provider
            self._breaker.ended(self, "unknown")
