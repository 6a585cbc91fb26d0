"""An embedding model behind litellm, for the scores that compare texts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from ragmonitor.judges.provider import Provider, ProviderError
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import Cause, JudgeUsage
from ragmonitor.runtime.apart import call_apart, run
from ragmonitor.runtime.errors import JudgeError
from ragmonitor.runtime.prices import Price

_RETRIES: Final = 1
"""The number of times that the client library asks again."""


class LitellmEmbedding(Provider):
    """Embeds texts by a model as litellm names it: `openai/text-embedding-3-small`.

    It makes one call for all the texts of one score. Evaluators count its cost with the judge's
    calls, tokens and dollars.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 15.0,
        price_usd: float | None = None,
    ) -> None:
        """Import and call nothing yet.

        Args:
            model: As litellm names it.
            api_base: Address of an OpenAI-compatible server.
            api_key: The provider's; by default litellm finds it in the environment.
            timeout_s: Per call.
            price_usd: US dollars per million tokens, if litellm knows no price.
        """
        given = None if price_usd is None else Price(price_usd / 1e6, 0.0)
        super().__init__(
            model, timeout_s=timeout_s, api_base=api_base, api_key=api_key, given_price=given
        )

    def __call__(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Return one vector per text, in order; shape (n_texts, n_dimensions). Waits for it.

        Raises:
            JudgeError: There is none.
            MissingExtraError: litellm is not installed.
        """
        return self.embed(texts)[0]

    def embed(self, texts: Sequence[str]) -> tuple[list[Sequence[float]], JudgeUsage]:
        """Return the vectors and what they cost: dollars where a price is known.

        Raises:
            JudgeError: There is none; with what was spent all the same.
            MissingExtraError: litellm is not installed.
        """
        # A thread and a loop of its own: this may be called on a loop, and litellm's blocking call
        # leaves a loop and a connection open behind it.
        return call_apart(run, self._embed(list(texts)))

    async def _embed(self, texts: list[str]) -> tuple[list[Sequence[float]], JudgeUsage]:
        await self.load()
        began = time.monotonic()
        estimate = round(sum(estimate_tokens(text) for text in texts))
        try:
            async with asyncio.timeout(self._timeout_s):
                response: Any = await self._call(
                    "aembedding", self.model, {}, input=texts, max_retries=_RETRIES
                )
        except TimeoutError:
            late = ProviderError(f"no vectors within {self._timeout_s:.3g} s", kind="timeout")
            raise self._failed(late, estimate) from None
        except ProviderError as error:
            # The client library has asked again, and met another such error.
            raise self._failed(error, (1 + _RETRIES) * estimate) from None
        finally:
            await self.close()
        # A provider that counts nothing still costs something: a budget must not leak by it.
        counted = getattr(getattr(response, "usage", None), "prompt_tokens", None)
        usage = self._spent(int(counted or estimate), time.monotonic() - began)
        rows = sorted(response.data, key=lambda row: int(row["index"]))
        if len(rows) != len(texts):
            raise JudgeError(
                self.model,
                f"{len(rows)} vectors for {len(texts)} texts",
                cause=Cause.JUDGE_ERROR,
                usage=usage,
            )
        return [row["embedding"] for row in rows], usage

    def _spent(self, tokens: int, seconds: float = 0.0) -> JudgeUsage:
        cost_usd = 0.0 if self.price is None else self.price.of(tokens, 0)
        return JudgeUsage(calls=1, input_tokens=tokens, cost_usd=cost_usd, seconds=seconds)

    def _failed(self, error: ProviderError, tokens: int) -> JudgeError:
        return JudgeError(
            self.model,
            str(error),
            cause=error.cause,
            retryable=error.kind in ("timeout", "transient"),
            # Who was too slow for us has read the texts, and bills them.
            usage=self._spent(tokens if error.may_be_billed else 0),
        )
