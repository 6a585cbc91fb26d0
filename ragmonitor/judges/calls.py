"""The calls of one reading: their cost and time together, when to try again, when to ask again.

The circuit breaker before them leaves a provider that is down alone, and tries now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from ragmonitor.judges.judge_prompts import Prompt, correct
from ragmonitor.judges.provider import Completer, Completion, ProviderError
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import JudgeUsage
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
    within_s: float
    """For all calls and pauses together."""
    pause: Pause
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    """The cost so far."""
    _began: float = field(default_factory=time.monotonic)
    _retried: int = 0

    async def ask(self, prompt: Prompt, max_tokens: int) -> Completion:
        """Return a reply. Raises `ProviderError`: there is none."""
        with self.breaker.attempt() as is_probe:
            try:
                return await self._ask(prompt, max_tokens, retries=0 if is_probe else RETRIES)
            finally:
                self.usage = replace(self.usage, seconds=time.monotonic() - self._began)

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

    async def _ask(self, prompt: Prompt, max_tokens: int, *, retries: int) -> Completion:
        while True:
            left_s = self.within_s - (time.monotonic() - self._began)
            if left_s < MIN_CALL_S:
                raise ProviderError(f"no time left of {self.within_s:.3g} s", kind="timeout")
            try:
                completion = await self.completer.complete(
                    prompt, max_tokens=max_tokens, within_s=left_s
                )
            except asyncio.CancelledError:  # the provider goes on, and bills
                self._charge(prompt, max_tokens)
                raise
            except ProviderError as error:
                if error.unread is not None:
                    self._count(error.unread, prompt)
                elif error.may_be_billed or error.kind == "timeout":
                    # Who was too slow has read the prompt, perhaps written the reply.
                    self._charge(prompt, max_tokens)
                    retries = min(retries, 1)
                else:
                    self.usage += JudgeUsage(calls=1)
                wait_s = error.retry_after_s
                if wait_s is None:
                    # At random, so that callers do not all return at once.
                    wait_s = PAUSE_S * 2.0**self._retried * random.uniform(0.5, 1.5)
                if error.kind != "transient" or self._retried >= retries or wait_s >= left_s:
                    raise
                self._retried += 1
                await self.pause(wait_s)
            else:
                self._count(completion, prompt)
                return completion

    def _charge(self, prompt: Prompt, max_tokens: int) -> None:
        """Count the most that a call costs whose reply did not come or is not there whole."""
        self._spend(JudgeUsage(calls=1), prompt, max_tokens + self.completer.thinking_tokens)

    def _count(self, completion: Completion, prompt: Prompt) -> None:
        usage = completion.usage
        if usage.input_tokens and usage.output_tokens:
            self.usage += usage
        else:
            # What a provider does not count still costs something: a budget must not leak by it.
            self._spend(usage, prompt, round(estimate_tokens(completion.text)))

    def _spend(self, usage: JudgeUsage, prompt: Prompt, outputs: int) -> None:
        inputs = usage.input_tokens or round(prompt_tokens(prompt))
        outputs = usage.output_tokens or outputs
        price = self.completer.price
        cost = 0.0 if price is None else price.of(inputs, outputs)
        self.usage += replace(usage, input_tokens=inputs, output_tokens=outputs, cost_usd=cost)


def prompt_tokens(prompt: Prompt) -> float:
    """Return an upper estimate of the tokens of a prompt."""
    return sum(estimate_tokens(message["content"]) for message in prompt)
