"""The calls of one reading: their cost and time together, when to try again, when to ask again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from ragmonitor.judges.judge_prompts import Message, Prompt, correct
from ragmonitor.judges.provider import Completer, Completion, ProviderError
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import JudgeUsage, Language
from ragmonitor.runtime.protocols import Clock

RETRIES: Final = 2
PAUSE_S: Final = 1.0
"""Before the first retry, if the provider names no time; twice that before the second."""
MIN_CALL_S: Final = 0.01
"""With less time left in seconds, another call is not begun."""
_MAX_RETRY_LATENESS: Final = 0.1
"""Largest share that is added to a `Retry-After`, so that callers do not all return at once."""

Pause = Callable[[float], Awaitable[None]]
"""Waits so many seconds."""


class Calls:
    """Asks one completer, with retries, and adds up the cost and the time.

    A loop of our own and not a library's: the wait comes from `Retry-After`, the end from the time
    that the whole reading has left, and every failed call must be charged.
    """

    def __init__(
        self,
        completer: Completer,
        *,
        within_s: float,
        clock: Clock,
        pause: Pause,
        retries: int = RETRIES,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Begin to count and to measure time.

        Args:
            completer: The model or function that is asked; loaded.
            within_s: For all calls and pauses together.
            clock: Measures that time.
            pause: Waits before a retry.
            retries: The number for all calls together.
            jitter: Returns a number in [0, 1) for each pause.
        """
        self._completer = completer
        self._within_s = within_s
        self._clock = clock
        self._pause = pause
        self._retries_left = retries
        self._jitter = jitter
        self._retried = 0
        self._began = clock()
        self._spent = JudgeUsage()

    @property
    def usage(self) -> JudgeUsage:
        """The cost so far."""
        return replace(self._spent, seconds=max(0.0, self._clock() - self._began))

    @property
    def left_s(self) -> float:
        """The time in seconds that is left for further calls."""
        return self._within_s - (self._clock() - self._began)

    async def ask(self, prompt: Prompt, max_tokens: int) -> Completion:
        """Return a reply. Raises `ProviderError`: there is none."""
        messages = prompt.messages
        while True:
            try:
                completion = await self._completer.complete(
                    messages, max_tokens=max_tokens, within_s=max(self.left_s, MIN_CALL_S)
                )
            except asyncio.CancelledError:  # the provider goes on, and bills
                self._charge(messages, max_tokens)
                raise
            except ProviderError as error:
                if error.unread is not None:
                    self._count(error.unread, messages)
                elif error.may_be_billed:
                    # Who was too slow has read the prompt, perhaps written the reply.
                    self._charge(messages, max_tokens)
                    self._retries_left = min(self._retries_left, 1)
                else:
                    self._spent += JudgeUsage(calls=1)
                wait_s = self._wait_s(error)
                if error.kind != "transient" or not self._retries_left or wait_s >= self.left_s:
                    raise
                self._retries_left -= 1
                self._retried += 1
                await self._pause(wait_s)
            else:
                self._count(completion, messages)
                return completion

    def _wait_s(self, error: ProviderError) -> float:
        if error.retry_after_s is not None:
            return error.retry_after_s * (1 + _MAX_RETRY_LATENESS * self._jitter())
        return PAUSE_S * 2.0**self._retried * (0.5 + self._jitter())

    def _charge(self, messages: Sequence[Message], max_tokens: int) -> None:
        """Count the most that a call costs whose reply did not come or is not there whole."""
        outputs = max_tokens + self._completer.thinking_tokens
        self._spend(JudgeUsage(calls=1, input_tokens=_tokens(messages), output_tokens=outputs))

    def _count(self, completion: Completion, messages: Sequence[Message]) -> None:
        usage = completion.usage
        outputs = usage.output_tokens or round(estimate_tokens(completion.text))
        if usage.input_tokens and usage.output_tokens == outputs:
            self._spent += usage
            return
        # What a provider does not count still costs something: a budget must not leak by it.
        inputs = usage.input_tokens or _tokens(messages)
        self._spend(replace(usage, input_tokens=inputs, output_tokens=outputs))

    def _spend(self, usage: JudgeUsage) -> None:
        price = self._completer.price
        cost = 0.0 if price is None else price.of(usage.input_tokens, usage.output_tokens)
        self._spent += replace(usage, cost_usd=cost)


def _tokens(messages: Sequence[Message]) -> int:
    return round(sum(estimate_tokens(message["content"]) for message in messages))


Ask = Callable[[Prompt, int], Awaitable[Completion]]
"""From a prompt and the room for the reply to the reply. Raises `ProviderError`."""


async def ask_twice(
    ask: Ask,
    prompt: Prompt,
    problems_of: Callable[[Completion], Sequence[str]],
    *,
    max_tokens: int,
    language: Language,
) -> list[Completion]:
    """Return the reply; or two, where something of the first could not be read.

    A reply that was cut gets twice the room; any other is asked for with what was wrong. Where the
    second fails, the first stands alone.

    Args:
        ask: The model.
        prompt: What it is sent.
        problems_of: Returns what cannot be read of a reply, in words for the model.
        max_tokens: Room for the reply.
        language: In which the model is told what was wrong.

    Raises:
        ProviderError: There is no reply.
    """
    first = await ask(prompt, max_tokens)
    problems = problems_of(first)
    if not problems:
        return [first]
    try:
        if first.is_cut:
            return [first, await ask(prompt, 2 * max_tokens)]
        return [first, await ask(correct(prompt, "; ".join(problems), language), max_tokens)]
    except ProviderError:
        return [first]
