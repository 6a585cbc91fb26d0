"""Vectors of texts by a model behind litellm, for the scores that compare texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ragmonitor.judges.provider import Provider, ProviderError, _unlogged


class LitellmEmbedding:
    """Embeds by a model as litellm names it: `openai/text-embedding-3-small`.

    One call for all the texts of one score. What it costs is not in the judge's budget.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 15.0,
    ) -> None:
        """Import and call nothing yet.

        Args:
            model: As litellm names it.
            api_base: Address of an OpenAI-compatible server.
            api_key: The provider's; by default litellm finds it in the environment.
            timeout_s: Per call.
        """
        self.model = model
        self._embedder = _Embedder(
            model=model, timeout_s=timeout_s, api_base=api_base, api_key=api_key
        )

    def __call__(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Return one vector per text, in order; shape (n_texts, n_dimensions). Waits for it.

        Raises:
            ProviderError: There is none.
            MissingExtraError: litellm is not installed.
        """
        # A thread and a loop of its own: this may be called on a loop, and litellm's blocking call
        # leaves a loop and a connection open behind it.
        with ThreadPoolExecutor(1, "ragmonitor-embedding") as thread:
            return thread.submit(asyncio.run, self._embedder.embed(list(texts))).result()


class _Embedder(Provider):
    async def embed(self, texts: list[str]) -> list[Sequence[float]]:
        await self.load()
        try:
            async with asyncio.timeout(self.timeout_s):
                _unlogged()
                response: Any = await self._litellm.aembedding(
                    model=self.model,
                    input=texts,
                    api_base=self.api_base,
                    api_key=self.api_key,
                    timeout=self.timeout_s + 1.0,
                    max_retries=1,
                    caching=False,
                    **{"no-log": True},
                )
        except TimeoutError:
            raise ProviderError(f"no reply within {self.timeout_s:.3g} s", kind="timeout") from None
        except Exception as error:
            raise self._described(error) from error
        finally:
            await self.close()
        rows = sorted(response.data, key=lambda row: int(row["index"]))
        if len(rows) != len(texts):
            raise ProviderError(f"{len(rows)} vectors for {len(texts)} texts", kind="refused")
        return [row["embedding"] for row in rows]
