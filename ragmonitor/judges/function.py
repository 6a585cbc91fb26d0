"""A function as the judge: it reaches a model in its own way, with our prompt and parsing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from ragmonitor.judges.judge_prompts import Prompt
from ragmonitor.judges.llm import LlmJudge
from ragmonitor.judges.provider import Completer, Completion, ProviderError, charged
from ragmonitor.judges.scrubbing import one_line_of
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.prices import Price
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
        price: tuple[float, float] | None = None,
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
            price: US dollars per input token and per output token; the tokens are estimated.
            budget_unit: What `expected_cost` counts, unless a monitor's budget says otherwise. In
                dollars a price must be given.
            options: Others of `LlmJudge`.
        """
        if parallel < 1:
            raise ValueError("parallel is at least 1")
        completer = FunctionCompleter(function, name=name, parallel=parallel, price=price)
        super().__init__(
            name, timeout_s=timeout_s, budget_unit=budget_unit, completer=completer, **options
        )
        if version:
            self.identity = replace(self.identity, version=f"{self.identity.version}.{version}")


class FunctionCompleter(Completer):
    """Lets a function reply to prompts, on one loop at a time."""

    def __init__(
        self, function: Function, *, name: str, parallel: int, price: tuple[float, float] | None
    ) -> None:
        self._function, self._name, self._parallel = function, name, parallel
        self.price = None if price is None else Price(*price)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def complete(
        self,
        prompt: Prompt,
        *,
        max_tokens: int,  # noqa: ARG002 - a function knows no room for its reply
    ) -> Completion:
        """Return the function's reply. Raises `ProviderError`: it raised, or that is no reply."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._turns = loop, asyncio.Semaphore(self._parallel)
        try:
            async with self._turns:
                reply = await self._reply("\n\n".join(each["content"] for each in prompt))
        except Exception as error:  # noqa: BLE001 - the function is anybody's code
            why = f"{type(error).__name__}: {one_line_of(error)}"
            # Not `from error`: its frames hold prompts.
            raise ProviderError(self._name, why, kind="permanent") from None
        # Nobody counted its tokens.
        usage = charged(prompt, estimate_tokens(reply), self.price)
        return Completion(text=reply, model="", is_cut=False, usage=usage)

    async def _reply(self, prompt: str) -> str:
        # What makes a coroutine needs no thread, and takes none from anybody.
        replies: Any = await apart(self._function, [prompt])
        if inspect.isawaitable(replies):
            replies = await replies
        if isinstance(replies, str) or len(replies) != 1:
            raise ValueError("the function gave no list of 1 reply")
        return replies[0] if isinstance(replies[0], str) else ""
