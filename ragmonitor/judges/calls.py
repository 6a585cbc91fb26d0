"""The calls of one reading: what they cost together, how long they may take, when to try again."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from ragmonitor.judges.prompts import Message
from ragmonitor.judges.provider import Completer, Completion, ProviderError, Strict
from ragmonitor.judges.tokens import most_tokens
from ragmonitor.protocols import Clock
from ragmonitor.records import JudgeUsage

RETRIES: Final = 2
PAUSE_S: Final = 1.0
"""Before the first retry, if the provider names no time; twice that before the second."""
SHORTEST_S: Final = 0.01
"""With less time left, another call is not begun."""
_LATENESS: Final = 0.1
"""Of a `Retry-After`, at most: those who were turned away together come back apart."""

Pause = Callable[[float], Awaitable[None]]
"""How to wait, in seconds."""


class Calls:
    """Asks one completer, again where it is busy or broken, and adds up what that takes.

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
            completer: Whom to ask; loaded.
            within_s: For all calls and pauses together.
            clock: For that time.
            pause: How to wait before a retry.
            retries: Of all calls together.
            jitter: A number in [0, 1) for each pause.
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
        """What was spent so far."""
        return replace(self._spent, seconds=max(0.0, self._clock() - self._began))

    @property
    def left_s(self) -> float:
        """How long there is for further calls."""
        return self._within_s - (self._clock() - self._began)

    async def ask(
        self, messages: Sequence[Message], *, max_tokens: int, strict: Strict | None = None
    ) -> Completion:
        """Return a reply.

        Args:
            messages: What to ask.
            max_tokens: Room for the reply.
            strict: What to ask instead while the model takes a schema.

        Raises:
            ProviderError: There is none.
        """
        while True:
            try:
                completion = await self._completer.complete(
                    messages,
                    max_tokens=max_tokens,
                    within_s=max(self.left_s, SHORTEST_S),
                    strict=strict,
                )
            except ProviderError as error:
                self._charge_failed(error, messages, max_tokens)
                wait_s = self._wait_s(error)
                if error.kind != "transient" or not self._retries_left or wait_s >= self.left_s:
                    raise
                self._retries_left -= 1
                self._retried += 1
                await self._pause(wait_s)
            else:
                self._spent += self._counted(completion, messages)
                return completion

    def _wait_s(self, error: ProviderError) -> float:
        if error.retry_after_s is not None:
            return error.retry_after_s * (1 + _LATENESS * self._jitter())
        return PAUSE_S * 2.0**self._retried * (0.5 + self._jitter())

    def _charge_failed(
        self, error: ProviderError, messages: Sequence[Message], max_tokens: int
    ) -> None:
        # Who was too slow for us has read the prompt, perhaps written the reply, and bills both.
        is_billed = error.kind == "timeout"
        self._spent += self._usage(
            calls=1,
            inputs=_tokens(messages) if is_billed else 0,
            outputs=max_tokens + self._completer.thinking_tokens if is_billed else 0,
        )

    def _counted(self, completion: Completion, messages: Sequence[Message]) -> JudgeUsage:
        usage = completion.usage
        if usage.input_tokens:
            return usage
        # A provider that counts nothing still costs something: a budget must not leak by it.
        return self._usage(
            calls=usage.calls,
            inputs=_tokens(messages),
            outputs=usage.output_tokens or round(most_tokens(completion.text)),
        )

    def _usage(self, *, calls: int, inputs: int, outputs: int) -> JudgeUsage:
        price = self._completer.price
        return JudgeUsage(
            calls=calls,
            input_tokens=inputs,
            output_tokens=outputs,
            cost_usd=0.0 if price is None else price.of(inputs, outputs),
        )


def _tokens(messages: Sequence[Message]) -> int:
    return round(sum(most_tokens(message["content"]) for message in messages))
