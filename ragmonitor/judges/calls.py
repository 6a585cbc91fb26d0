"""The calls of one reading: their cost and time together, when to try again, when to ask again.

The circuit breaker before them leaves a provider that is down alone, and tries now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from ragmonitor.judges.judge_prompts import Prompt, correct
from ragmonitor.judges.provider import Completer, Completion, ProviderError, charged
from ragmonitor.judges.reply import Reader, read_fields
from ragmonitor.records import Cause, JudgeUsage
from ragmonitor.runtime.errors import JudgeError
from ragmonitor.runtime.guard import logger, reason
from ragmonitor.runtime.protocols import BreakerState, Clock

RETRIES: Final = 2
"""The number for all calls of a reading together."""
PAUSE_S: Final = 1.0
"""Before the first retry, if the provider names no time; twice that before the second."""
MIN_CALL_S: Final = 0.01
"""With less time left in seconds, another call is not begun."""

T = TypeVar("T")
Pause = Callable[[float], Awaitable[None]]
"""Waits so many seconds."""


OPENS_AFTER: Final = 5
"""So many readings in a row that the provider failed open the breaker."""
COOL_S: Final = 30.0
MAX_COOL_S: Final = 600.0


class Breaker:
    """Closed: readings pass. Open: none does, for `COOL_S`. Half open: one will, as a probe.

    A probe that fails opens it for twice as long as before, up to `MAX_COOL_S`; one that succeeds
    closes it. A provider that names a later time (`Retry-After`) is left alone until then, up to
    `MAX_COOL_S`. What it says of one request (400, a text that it will not process) is no failure
    of the provider. Not locked: two threads that meet here cost at worst one probe more.

    Source:
        Nygard, "Release It!" (2007), chapter 5.
    """

    def __init__(self, *, name: str = "", clock: Clock = time.monotonic) -> None:
        self.name = name
        """The judge's."""
        self._clock = clock
        self._failures = 0
        """Readings in a row that failed, without those that were under way when it opened."""
        self._open_until_s = -math.inf

    @property
    def state(self) -> BreakerState:
        """The state as of now."""
        if self._failures < OPENS_AFTER:
            return "closed"
        return "half_open" if self.admits() else "open"

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
            problem = f"the provider has failed repeatedly and is not asked for {left_s:.0f} s"
            raise ProviderError(self.name, problem, kind="down", usage=JudgeUsage())
        is_probe = self._failures >= OPENS_AFTER
        if is_probe:
            # Until then it is the only one; a probe that never ends stops none after it.
            self._open_until_s = self._clock() + COOL_S
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
                self.name,
                reason(error),
                cool_s,
            )


@dataclass(slots=True, kw_only=True)
class Calls:
    """Asks one completer, with retries, and adds up the cost and the time.

    A loop of our own and not a library's: the wait comes from `Retry-After`, the end from the time
    that the whole reading has left, and every failed call must be charged.
    """

    completer: Completer
    """The model or function that is asked; loaded."""
    breaker: Breaker
    """Stands before every call."""
    timeout_s: float
    """For one call; all calls and pauses together may take twice as long."""
    pause: Pause
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    """The cost so far."""
    _began: float = field(default_factory=time.monotonic)
    _retried: int = 0

    async def fields(
        self,
        prompt: Prompt,
        readers: Mapping[str, Reader],
        max_tokens: int,
        *,
        examples: Sequence[Mapping[str, object]] = (),
    ) -> dict[str, Any]:
        """Return all fields of a reply. Raises `JudgeError`: it lacks one, or there is none.

        Args:
            prompt: What the model is sent.
            readers: By the name of the field.
            max_tokens: Room for the reply.
            examples: Which the prompt shows.
        """
        read = partial(read_fields, readers=readers, examples=examples)
        values, problems, _ = await self.ask_twice(prompt, read, max_tokens)
        if problems:
            unread = f"the reply could not be read: {'; '.join(problems)}"
            raise JudgeError(self.breaker.name, unread, cause=Cause.UNREADABLE, retryable=True)
        return values

    async def ask_twice(
        self, prompt: Prompt, read: Callable[[str], tuple[T, Sequence[str]]], max_tokens: int
    ) -> tuple[T, Sequence[str], str]:
        """Return what is read of a reply, what cannot be read of it, and the model that gave it.

        A reply of which something cannot be read is asked for once more: with twice the room if it
        was cut, else saying what was wrong. The first stands where the second fails or has more
        problems.

        Args:
            prompt: What the model is sent.
            read: Returns what a reply says, and what is wrong with it, in words for the model.
            max_tokens: Room for the reply.

        Raises:
            ProviderError: There is no reply.
        """
        reply = await self.ask(prompt, max_tokens)
        value, problems = read(reply.text)
        if problems:
            again = prompt if reply.is_cut else correct(prompt, "; ".join(problems))
            with contextlib.suppress(ProviderError):
                second = await self.ask(again, max_tokens * (2 if reply.is_cut else 1))
                read_again, still = read(second.text)
                if len(still) <= len(problems):
                    return read_again, still, second.model
        return value, problems, reply.model

    async def ask(self, prompt: Prompt, max_tokens: int) -> Completion:
        """Return a reply. Raises `ProviderError`: there is none."""
        with self.breaker.attempt() as is_probe:
            retries = 0 if is_probe else RETRIES
            while True:
                try:
                    return await self._ask(prompt, max_tokens)
                except ProviderError as error:
                    if error.may_be_billed:
                        retries = min(retries, 1)
                    wait_s = error.retry_after_s
                    if wait_s is None:
                        # At random, so that callers do not all return at once.
                        wait_s = PAUSE_S * 2.0**self._retried * random.uniform(0.5, 1.5)
                    may_help = error.kind == "transient" and self._retried < retries
                    if not may_help or wait_s >= self._left_s():
                        raise
                self._retried += 1
                await self.pause(wait_s)

    async def _ask(self, prompt: Prompt, max_tokens: int) -> Completion:
        """Make one call, and charge it whatever comes of it. Raises `ProviderError`."""
        name, completer = self.breaker.name, self.completer
        within_s = min(self.timeout_s, self._left_s())
        if within_s < MIN_CALL_S:
            late = f"no time left of {2 * self.timeout_s:.3g} s"
            raise ProviderError(name, late, kind="timeout", usage=JudgeUsage())
        # Who is cancelled, or too slow, has read the prompt, perhaps written the reply: it bills.
        spent = charged(prompt, max_tokens + completer.thinking_tokens, completer.price)
        limit = asyncio.timeout(within_s)
        try:
            async with limit:
                completion = await completer.complete(prompt, max_tokens=max_tokens)
            spent = completion.usage
            return completion
        except (ProviderError, TimeoutError) as error:
            if limit.expired() or not isinstance(error, ProviderError):
                late = f"no reply within {within_s:.3g} s"
                raise ProviderError(name, late, kind="timeout") from None
            if not error.may_be_billed:
                spent = error.usage
            raise
        finally:
            self.usage = replace(self.usage + spent, seconds=time.monotonic() - self._began)

    def _left_s(self) -> float:
        return 2 * self.timeout_s - (time.monotonic() - self._began)
