"""A function as the judge: it reaches a model in its own way, with our prompt and parsing."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from ragmonitor.apart import apart
from ragmonitor.guard import is_fault
from ragmonitor.judges.cache import AssessmentCache
from ragmonitor.judges.calls import Pause
from ragmonitor.judges.judge_prompts import Message
from ragmonitor.judges.llm import MAX_CALLS, TOKENS_PER_CALL, LlmJudge
from ragmonitor.judges.provider import (
    Completion,
    Form,
    Price,
    ProviderError,
    Strict,
    longest_reply,
)
from ragmonitor.judges.scrubbing import scrubbed
from ragmonitor.protocols import BudgetUnit, Clock
from ragmonitor.records import JudgeUsage
from ragmonitor.settings import Budget

Function = Callable[[list[str]], Sequence[str] | Awaitable[Sequence[str]]]
"""From prompts to replies, as many and in the same order; plain or a coroutine function."""

LINGER_S: Final = 0.02
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
        reading_timeout_s: float | None = None,
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
            reading_timeout_s: Of a reading, over all its calls; None: twice `timeout_s`.
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
            reading_timeout_s=reading_timeout_s,
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
            self._short = replace(self._short, version=f"{self._short.version}.{version}")


class FunctionCompleter:
    """Lets a function reply to prompts, on one loop at a time."""

    form: Form = "text"
    thinking_tokens: int = 0
    is_loaded: bool = True

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
        self.timeout_s = timeout_s
        self.price = price
        self._function = function
        self._batch_size = batch_size
        self._parallel = parallel
        self._begin(None)

    def _begin(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._waiting: deque[tuple[str, asyncio.Future[str]]] = deque()
        self._calling: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Do nothing: a function needs no loading."""

    def load_soon(self) -> None:
        """Do nothing: a function needs no loading."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,  # a function has its own idea of it; what is far beyond is no reply
        within_s: float,
        strict: Strict | None = None,  # noqa: ARG002 - likewise
    ) -> Completion:
        """Return the function's reply to one prompt, alone or in a batch.

        Raises:
            ProviderError: It raised, was too slow, or gave what is no reply.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._begin(loop)
        prompt = "\n\n".join(message["content"] for message in messages)
        coming: asyncio.Future[str] = loop.create_future()
        self._waiting.append((prompt, coming))
        if len(self._calling) < self._parallel:
            self._calling.add(loop.create_task(self._work_off()))
        within_s = min(within_s, self.timeout_s)
        try:
            async with asyncio.timeout(within_s):
                text = await coming
        except TimeoutError:
            raise ProviderError(f"no reply within {within_s:.3g} s", kind="timeout") from None
        # Nobody counted its tokens: the reading estimates them.
        completion = Completion(
            text=text, model="", form="text", is_cut=False, usage=JudgeUsage(calls=1)
        )
        if len(text) > longest_reply(max_tokens):
            raise ProviderError(
                f"a reply of {len(text):,} characters", kind="refused", unread=completion
            )
        return completion

    async def close(self) -> None:
        """Wait for nothing: a function cannot be interrupted."""
        for task in tuple(self._calling):
            task.cancel()

    async def _work_off(self) -> None:
        try:
            while self._waiting:
                if len(self._waiting) < self._batch_size:
                    await asyncio.sleep(LINGER_S)
                batch: list[tuple[str, asyncio.Future[str]]] = []
                while self._waiting and len(batch) < self._batch_size:
                    prompt, coming = self._waiting.popleft()
                    if not coming.done():  # somebody still waits
                        batch.append((prompt, coming))
                if batch:
                    await self._call(batch)
        finally:
            # At once, and not when the loop hears of the end: a prompt may come in between.
            task = asyncio.current_task()
            if task is not None:
                self._calling.discard(task)

    async def _call(self, batch: Sequence[tuple[str, asyncio.Future[str]]]) -> None:
        prompts = [prompt for prompt, _ in batch]
        try:
            replies = await self._replies(prompts)
            if isinstance(replies, str) or len(replies) != len(prompts):
                raise ValueError(f"the function gave no list of {len(prompts)} replies")
        except BaseException as error:
            if not is_fault(error):
                raise
            for _, coming in batch:
                if not coming.done():
                    coming.set_exception(
                        ProviderError(_one_line(error), kind="permanent").with_traceback(None)
                    )
            return
        for (_, coming), reply in zip(batch, replies, strict=True):
            if not coming.done():
                coming.set_result(reply if isinstance(reply, str) else "")

    async def _replies(self, prompts: list[str]) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(prompts)
        replies = await apart(self._function, prompts)
        return await replies if inspect.isawaitable(replies) else replies


def _one_line(error: BaseException) -> str:
    text = " ".join(scrubbed(str(error)).split())
    return f"{type(error).__name__}: {text[:240]}"
