"""A function as the judge: it reaches a model in its own way, with our prompt and parsing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from ragmonitor.judges.judge_prompts import Prompt
from ragmonitor.judges.llm import LlmJudge
from ragmonitor.judges.provider import Completion, Price, ProviderError, longest_reply
from ragmonitor.judges.scrubbing import scrubbed
from ragmonitor.records import JudgeUsage
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.protocols import BudgetUnit

Function = Callable[[list[str]], Sequence[str] | Awaitable[Sequence[str]]]
"""From prompts to replies, as many and in the same order; plain or a coroutine function."""


class FunctionJudge(LlmJudge):
    """Asks a function instead of litellm; everything else is as with `LlmJudge`.

    The function is given a list of one prompt and returns a list of one reply, in the form of
    RAGChecker's `custom_llm_api_func`. A plain function runs on a thread of its own, one call at a
    time unless `parallel` says more; one that is too slow keeps its thread until it returns. What
    it raises counts as the provider's failure and is not tried again: the function knows better
    when to.
    """

    def __init__(
        self,
        function: Function,
        *,
        name: str,
        version: str = "",
        parallel: int = 1,
        timeout_s: float = 60.0,
        input_usd_per_million_tokens: float | None = None,
        output_usd_per_million_tokens: float | None = None,
        budget_unit: BudgetUnit = "tokens",
        **options: Any,
    ) -> None:
        """Build the judge; the function is not called before the first reading.

        Args:
            function: From prompts to replies.
            name: What labels carry.
            version: Of the model behind the function: change it whenever verdicts may change.
            parallel: Calls at once, at most.
            timeout_s: Per call, waiting for its turn included.
            input_usd_per_million_tokens: US dollars per million input tokens, estimated.
            output_usd_per_million_tokens: The same of output tokens.
            budget_unit: What `expected_cost` counts, unless a monitor's budget says otherwise. In
                dollars a price must be given.
            options: Others of `LlmJudge`.
        """
        if parallel < 1:
            raise ValueError("parallel is at least 1")
        price = Price.per_million(input_usd_per_million_tokens, output_usd_per_million_tokens)
        completer = FunctionCompleter(function, parallel=parallel, timeout_s=timeout_s, price=price)
        super().__init__(
            name, timeout_s=timeout_s, budget_unit=budget_unit, completer=completer, **options
        )
        if version:
            self.identity = replace(self.identity, version=f"{self.identity.version}.{version}")


class FunctionCompleter:
    """Lets a function reply to prompts, on one loop at a time."""

    thinking_tokens = 0
    is_loaded = True

    def __init__(
        self, function: Function, *, parallel: int, timeout_s: float, price: Price | None
    ) -> None:
        self.price = price
        self._timeout_s = timeout_s
        self._function = function
        self._parallel = parallel
        self._loop: asyncio.AbstractEventLoop | None = None

    async def load(self) -> None:
        """Do nothing: a function needs no loading."""

    async def close(self) -> None:
        """Do nothing: there are none."""

    async def complete(self, prompt: Prompt, *, max_tokens: int, within_s: float) -> Completion:
        """Return the function's reply to a prompt.

        Raises:
            ProviderError: It raised, was too slow, or gave what is no reply.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._turns = loop, asyncio.Semaphore(self._parallel)
        text = "\n\n".join(each["content"] for each in prompt)
        within_s = min(within_s, self._timeout_s)
        limit = asyncio.timeout(within_s)
        try:
            async with limit, self._turns:
                reply = await self._reply(text)
        except Exception as error:  # noqa: BLE001 - the function is anybody's code
            # Not `from error`: its frames hold prompts.
            if limit.expired():
                late = f"no reply within {within_s:.3g} s"
                raise ProviderError(late, kind="timeout") from None
            why = " ".join(scrubbed(str(error)).split())[:240]
            raise ProviderError(f"{type(error).__name__}: {why}", kind="permanent") from None
        # Nobody counted its tokens: the reading estimates them.
        completion = Completion(text=reply, model="", is_cut=False, usage=JudgeUsage(calls=1))
        if len(reply) > longest_reply(max_tokens):
            problem = f"a reply of {len(reply):,} characters"
            raise ProviderError(problem, kind="refused", unread=completion)
        return completion

    async def _reply(self, text: str) -> str:
        if inspect.iscoroutinefunction(self._function):
            replies: Any = await self._function([text])
        else:
            replies = await apart(self._function, [text])
            replies = await replies if inspect.isawaitable(replies) else replies
        if isinstance(replies, str) or len(replies) != 1:
            raise ValueError("the function gave no list of 1 reply")
        return replies[0] if isinstance(replies[0], str) else ""
