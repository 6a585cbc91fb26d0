"""The circuit breaker leaves a provider that is down alone, and tries now and then."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Final

from ragmonitor.judges.provider import ProviderError
from ragmonitor.runtime.guard import logger, reason
from ragmonitor.runtime.protocols import BreakerState, Clock

OPENS_AFTER: Final = 5
"""So many readings in a row that the provider failed open the breaker."""
COOL_S: Final = 30.0
MAX_COOL_S: Final = 600.0


class Breaker:
    """Closed: readings pass. Open: none does, for `COOL_S`. Half open: one passes, as a probe.

    A probe that fails opens it for twice as long as before, up to `MAX_COOL_S`; one that succeeds
    closes it. A provider that names a later time (`Retry-After`) is left alone until then, up to
    `MAX_COOL_S`. What it says of one request (400, a text that it will not process) is no failure
    of the provider. Not locked: two threads that meet here cost at worst one probe more.

    Source:
        Nygard, "Release It!" (2007), chapter 5.
    """

    def __init__(self, *, name: str = "", clock: Clock = time.monotonic) -> None:
        self._name = name
        self._clock = clock
        self._failures = 0
        """Readings in a row that failed, without those that were under way when it opened."""
        self._open_until_s = -math.inf
        self._is_probing = False

    @property
    def state(self) -> BreakerState:
        """The state as of now; an open breaker stays open after its time until a reading tries."""
        if self._failures < OPENS_AFTER:
            return "closed"
        return "half_open" if self._is_probing else "open"

    def admits(self) -> bool:
        """Return whether a reading would pass now."""
        return self._clock() >= self._open_until_s

    @contextlib.contextmanager
    def attempt(self) -> Iterator[bool]:
        """Let one reading pass, and note how it ends; yields whether it is a probe.

        Raises:
            ProviderError: Kind `down`: the breaker is open, or a probe is under way.
        """
        left_s = self._open_until_s - self._clock()
        if left_s > 0:
            raise ProviderError(
                f"the provider has failed repeatedly and is not asked for {left_s:.0f} s",
                kind="down",
            )
        is_probe = self._failures >= OPENS_AFTER
        if is_probe:
            # Until then it is the only one; a probe that never ends stops none after it.
            self._is_probing, self._open_until_s = True, self._clock() + COOL_S
        try:
            yield is_probe
        except ProviderError as error:
            if error.kind in ("refused", "filtered"):
                self._failures, self._open_until_s = 0, -math.inf
            elif is_probe or self._failures < OPENS_AFTER:
                self._count(error)
            raise
        else:
            self._failures, self._open_until_s = 0, -math.inf
        finally:  # cancelled, or a fault of ours: that says nothing of the provider
            if is_probe:
                self._is_probing = False

    def _count(self, error: ProviderError) -> None:
        self._failures += 1
        if self._failures < OPENS_AFTER:
            return
        doubled = COOL_S * 2 ** min(self._failures - OPENS_AFTER, 10)
        cool_s = min(MAX_COOL_S, max(error.retry_after_s or 0.0, doubled))
        self._open_until_s = self._clock() + cool_s
        if self._failures == OPENS_AFTER:
            logger.warning(
                "ragmonitor: the judge %s fails (%s): it is not asked for %.0f s, and then tried "
                "with one answer at a time; meanwhile answers are judge_down",
                self._name,
                reason(error),
                cool_s,
            )
