"""A function as the judge: it reaches a model in its own way, with our prompt and parsing."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from ragmonitor.judges.cache import AssessmentCache
from ragmonitor.judges.calls import Pause
from ragmonitor.judges.judge_prompts import Message
from ragmonitor.judges.llm import MAX_CALLS, TOKENS_PER_CALL, LlmJudge
from ragmonitor.judges.provider import Completion, Price, ProviderError, longest_reply
from ragmonitor.judges.scrubbing import scrubbed
from ragmonitor.records import JudgeUsage
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.protocols import BudgetUnit, Clock
from ragmonitor.settings import Budget

Function = Callable[[list[str]], Sequence[str] | Awaitable[Sequence[str]]]
"""From prompts to replies, as many and in the same order; plain or a coroutine function."""

LINGER_S = 0.02
"""The time for which the first prompt of a batch waits for others."""


class FunctionJudge(LlmJudge):
    """Asks a function instead of litellm; everything else is as with `LlmJudge`.

    The function is given a list of prompts and returns a list of replies, as RAGChecker's
    `custom_llm_api_func` does. A plain function runs on a thread of its own, one call at a time
    unless `parallel` says more. What it raises counts as the provider's failure and is not tried
    again: the function knows better when to.
    """

    def __init__(
        self,
        function: Function,
        *,
        name: str,
        version: str = "",
        batch_size: int = 1,
        parallel: int = 1,
        timeout_s: float = 60.0,
        input_usd_per_million_tokens: float | None = None,
        output_usd_per_million_tokens: float | None = None,
        budget: Budget | None = None,
        budget_unit: BudgetUnit = "tokens",
        tokens_per_call: int = TOKENS_PER_CALL,
        max_calls: int = MAX_CALLS,
        cache: AssessmentCache | None = None,
        clock: Clock = time.monotonic,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Build the judge; the function is not called before the first reading.

        Args:
            function: From prompts to replies.
            name: What labels carry.
            version: Of the model behind the function: change it whenever verdicts may change.
            batch_size: Prompts in one call, at most.
            parallel: Calls at once, at most.
            timeout_s: Per call, waiting for its turn included.
            input_usd_per_million_tokens: US dollars per million input tokens, estimated.
            output_usd_per_million_tokens: The same of output tokens.
            budget: What a monitor's judges may spend, where the monitor is given no budget itself.
            budget_unit: What `expected_cost` counts, unless a monitor's budget says otherwise. In
                dollars a price must be given.
            tokens_per_call: Of a prompt, estimated; longer evidence is spread.
            max_calls: Over how many calls it may be spread.
            cache: Where exact duplicates are looked up; None: each is read.
            clock: For the time of a reading, and the breaker's.
            pause: How to wait before a retry.
        """
        price = Price.per_million(input_usd_per_million_tokens, output_usd_per_million_tokens)
        super().__init__(
            name,
            timeout_s=timeout_s,
            budget=budget,
            budget_unit=budget_unit,
            tokens_per_call=tokens_per_call,
            max_calls=max_calls,
            cache=cache,
            completer=FunctionCompleter(
                function,
                batch_size=batch_size,
                parallel=parallel,
                timeout_s=timeout_s,
                price=price,
            ),
            clock=clock,
            pause=pause,
        )
        if version:
            self.identity = replace(self.identity, version=f"{self.identity.version}.{version}")


class FunctionCompleter:
    """Lets a function reply to prompts, in batches, on one loop at a time."""

    thinking_tokens = 0
    is_loaded = True

    def __init__(
        self,
        function: Function,
        *,
        batch_size: int,
        parallel: int,
        timeout_s: float,
        price: Price | None,
    ) -> None:
        if batch_size < 1 or parallel < 1:
            raise ValueError("batch_size and parallel are at least 1")
        self.price = price
        self._timeout_s = timeout_s
        self._function = function
        self._batch_size = batch_size
        self._parallel = parallel
        self._loop: asyncio.AbstractEventLoop | None = None

    async def load(self) -> None:
        """Do nothing: a function needs no loading."""

    async def close(self) -> None:
        """Do nothing: there are none."""

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, within_s: float
    ) -> Completion:
        """Return the function's reply to one prompt, alone or in a batch.

        Raises:
            ProviderError: It raised, was too slow, or gave what is no reply.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._turns = asyncio.Semaphore(self._parallel)
            self._waiting: list[tuple[str, asyncio.Future[str]]] = []
            self._calling: set[asyncio.Task[None]] = set()
        coming: asyncio.Future[str] = loop.create_future()
        self._waiting.append(("\n\n".join(each["content"] for each in messages), coming))
        task = loop.create_task(self._call())
        self._calling.add(task)
        task.add_done_callback(self._calling.discard)
        within_s = min(within_s, self._timeout_s)
        try:
            async with asyncio.timeout(within_s):
                text = await coming
        except TimeoutError:
            raise ProviderError(f"no reply within {within_s:.3g} s", kind="timeout") from None
        # Nobody counted its tokens: the reading estimates them.
        completion = Completion(text=text, model="", is_cut=False, usage=JudgeUsage(calls=1))
        if len(text) > longest_reply(max_tokens):
            raise ProviderError(
                f"a reply of {len(text):,} characters", kind="refused", unread=completion
            )
        return completion

    async def _call(self) -> None:
        """Call the function with what waits, if no other task has taken it."""
        async with self._turns:
            if len(self._waiting) < self._batch_size:
                await asyncio.sleep(LINGER_S if self._batch_size > 1 else 0)
            batch, self._waiting = (
                self._waiting[: self._batch_size],
                self._waiting[self._batch_size :],
            )
            batch = [each for each in batch if not each[1].done()]  # somebody still waits
            if not batch:
                return
            try:
                replies = await self._replies([prompt for prompt, _ in batch])
                if isinstance(replies, str) or len(replies) != len(batch):
                    raise ValueError(f"the function gave no list of {len(batch)} replies")
            except Exception as error:  # noqa: BLE001 - the function is anybody's code
                # Not `from error`: its frames hold prompts.
                replies = [ProviderError(_one_line(error), kind="permanent")] * len(batch)
            for (_, coming), reply in zip(batch, replies, strict=True):
                if coming.done():
                    continue
                if isinstance(reply, ProviderError):
                    coming.set_exception(reply)
                else:
                    coming.set_result(reply if isinstance(reply, str) else "")

    async def _replies(self, prompts: list[str]) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(prompts)
        replies = await apart(self._function, prompts)
        return await replies if inspect.isawaitable(replies) else replies


def _one_line(error: BaseException) -> str:
    text = " ".join(scrubbed(str(error)).split())
    return f"{type(error).__name__}: {text[:240]}"
