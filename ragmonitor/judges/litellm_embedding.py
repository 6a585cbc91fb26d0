"""An embedding model behind litellm, for the scores that compare texts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ragmonitor.judges.provider import Provider, ProviderError
from ragmonitor.records import Cause
from ragmonitor.runtime.apart import call_apart, run
from ragmonitor.runtime.errors import JudgeError


class LitellmEmbedding(Provider):
    """Embeds texts by a model as litellm names it: `openai/text-embedding-3-small`.

    It makes one call for all the texts of one score. No budget counts what it costs.
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
        super().__init__(model, timeout_s=timeout_s, api_base=api_base, api_key=api_key)

    def __call__(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Return one vector per text, in order; shape (n_texts, n_dimensions). Waits for it.

        Raises:
            JudgeError: There is none.
            MissingExtraError: litellm is not installed.
        """
        # A thread and a loop of its own: this may be called on a loop, and litellm's blocking call
        # leaves a loop and a connection open behind it.
        return call_apart(run, self._embed(list(texts)))

    async def _embed(self, texts: list[str]) -> list[Sequence[float]]:
        await self.load()
        try:
            async with asyncio.timeout(self._timeout_s):
                response: Any = await self._call(
                    "aembedding", self.model, {}, input=texts, max_retries=1
                )
        except TimeoutError:
            late = f"no vectors within {self._timeout_s:.3g} s"
            raise JudgeError(self.model, late, cause=Cause.JUDGE_TIMEOUT) from None
        except ProviderError as error:
            raise JudgeError(self.model, str(error), cause=error.cause) from None
        finally:
            await self.close()
        rows = sorted(response.data, key=lambda row: int(row["index"]))
        if len(rows) != len(texts):
            problem = f"{len(rows)} vectors for {len(texts)} texts"
            raise JudgeError(self.model, problem, cause=Cause.JUDGE_ERROR)
        return [row["embedding"] for row in rows]
