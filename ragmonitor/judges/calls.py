"""The calls of one reading: their cost and time together, when to try again, when to ask again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from ragmonitor.judges.breaker import Breaker
from ragmonitor.judges.judge_prompts import Prompt, correct
from ragmonitor.judges.provider import Completer, Completion, ProviderError
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import JudgeUsage

RETRIES: Final = 2
"""The number for all calls of a reading together."""
PAUSE_S: Final = 1.0
"""Before the first retry, if the provider names no time; twice that before the second."""
MIN_CALL_S: Final = 0.01
"""With less time left in seconds, another call is not begun."""

T = TypeVar("T")
Pause = Callable[[float], Awaitable[None]]
"""Waits so many seconds."""


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
