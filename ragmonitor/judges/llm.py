"""The LLM judge: one call gives all reference-free scores."""

from __future__ import annotations

import asyncio
import string
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Literal

from ragmonitor.errors import JudgeError
from ragmonitor.judges import sentences as splitter
from ragmonitor.judges.prompts import (
    Prompt,
    correct,
    draw_border,
    prompt_version,
    write_prompt,
)
from ragmonitor.judges.provider import Completion, Price, Provider, ProviderError
from ragmonitor.judges.reply import RULES, Reading, read_reply
from ragmonitor.judges.sentences import Sentence
from ragmonitor.protocols import Clock
from ragmonitor.records import (
    Assessment,
    Cause,
    Interaction,
    JudgeIdentity,
    JudgeUsage,
    Language,
    SentenceVerdict,
)

PROMPT_TOKENS_MOST: Final = 24_000
"""Longer evidence is refused: a judge that skims is worse than none."""
_PAUSE_S: Final = 1.0
"""Before the one retry, if the provider names no time."""
_SHORTEST_S: Final = 0.01
"""With less time left, another call is not begun."""
_FRAME_TOKENS: Final = 620
"""Of the prompt without its data, at most; a test holds it."""
_UNLOADED_PRICE: Final = Price(input_usd=1e-6, output_usd=4e-6)
"""A small model's, until litellm is loaded: the budget is settled with what was really spent."""
_SMALLEST_COST: Final = 1e-9
_LETTERS_AND_SPACE: Final = (string.ascii_letters + string.whitespace).encode()


class LlmJudge:
    """Asks a language model, through litellm, what the chunks say of each sentence of an answer.

    One reading is one call. A reply that cannot be read is asked for once more, saying what was
    wrong, or with twice the room if it was cut; a busy or broken provider is tried once more. All
    of it within twice `timeout_s`.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 15.0,
        price_input_usd: float | None = None,
        price_output_usd: float | None = None,
        budget_unit: Literal["usd", "tokens"] = "usd",
        clock: Clock = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], str] = draw_border,
    ) -> None:
        """Build the judge; nothing is imported or called before the first reading.

        Args:
            model: As litellm names it: `openai/gpt-4o-mini`.
            api_base: Address of an OpenAI-compatible server.
            api_key: The provider's; by default litellm finds it in the environment.
            timeout_s: Per call.
            price_input_usd: US dollars per million input tokens, if litellm knows no price.
            price_output_usd: The same of output tokens.
            budget_unit: What `expected_cost` counts. In dollars a price must be known.
            clock: For the time of a reading.
            pause: How to wait before a retry.
            draw: Where the borders of the prompt's sections come from.
        """
        given = price_input_usd is not None and price_output_usd is not None
        self._provider = Provider(
            model=model,
            timeout_s=timeout_s,
            api_base=api_base,
            api_key=api_key,
            fallback_price=Price(
                input_usd=(price_input_usd or 0.0) / 1e6, output_usd=(price_output_usd or 0.0) / 1e6
            )
            if given
            else None,
        )
        self._identity = JudgeIdentity(
            name=model, version=f"{prompt_version()}.{RULES}", kind="LLM"
        )
        self._unit: Literal["usd", "tokens"] = budget_unit
        self._clock = clock
        self._pause = pause
        self._draw = draw

    @property
    def identity(self) -> JudgeIdentity:
        """Who judges: the model, and the version of the prompt and of the rules for replies."""
        return self._identity

    async def prepare(self) -> None:
        """Import litellm and check that the budget can be kept, ahead of the first reading.

        Raises:
            MissingExtraError: litellm is not installed.
            JudgeError: The budget is in dollars and the model's price is unknown.
        """
        await self._provider.load()
        if self._unit == "usd" and self._provider.price is None:
            raise self._error(
                "litellm knows no price of this model; set judge_price_input_usd and "
                "judge_price_output_usd, or budget_tokens_per_day instead of a budget in dollars",
                cause=Cause.JUDGE_ERROR,
            )

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the model said of the answer.

        Raises:
            JudgeError: There is no usable reply, or the evidence is too long for one call.
            MissingExtraError: litellm is not installed.
        """
        await self.prepare()
        language = splitter.language(interaction.answer)
        sentences = splitter.split(interaction.answer)
        prompt = write_prompt(
            question=interaction.query,
            chunks=[chunk.text for chunk in interaction.chunks],
            sentences=[sentence.text for sentence in sentences],
            language=language,
            asked_ns=interaction.started_ns,
            draw=self._draw,
        )
        tokens = sum(_most_tokens(message["content"]) for message in prompt.messages)
        if tokens > PROMPT_TOKENS_MOST:
            raise self._error(
                f"evidence of about {tokens:.0f} tokens exceeds the {PROMPT_TOKENS_MOST} "
                "of one call",
                cause=Cause.JUDGE_ERROR,
            )
        calls = _Calls(
            provider=self._provider,
            clock=self._clock,
            pause=self._pause,
            prompt_tokens=tokens,
        )
        try:
            reading = await _read(calls, prompt, interaction, sentences, language)
        except ProviderError as error:
            cause = Cause.JUDGE_TIMEOUT if error.kind == "timeout" else Cause.JUDGE_ERROR
            raise self._error(
                str(error), cause=cause, retryable=error.kind != "permanent", usage=calls.usage
            ) from error
        if reading.is_empty:
            raise self._error(
                f"the reply could not be read: {'; '.join(reading.problems)}",
                cause=Cause.UNREADABLE,
                retryable=True,
                usage=calls.usage,
            )
        return Assessment(
            judge=self._identity,
            language=language,
            sentences=_verdicts(reading, sentences),
            answer_relevancy=reading.relevancy,
            evasive=reading.evasive,
            chunk_relevance=reading.chunk_relevance,
            usage=calls.usage,
        )

    def expected_cost(self, interaction: Interaction) -> float:
        """Return an upper estimate of one call's cost, in dollars or tokens, above 0.

        A second call, for an unreadable reply, is rare and not in it; the budget learns what was
        spent from the assessment's usage.
        """
        # Sentences are longer than this on the whole; to split every answer here would cost more.
        sentences = 1 + len(interaction.answer) // 30
        chunks = len(interaction.chunks)
        inputs = (
            _FRAME_TOKENS
            + _most_tokens(interaction.query)
            + _most_tokens(interaction.answer)
            + 4 * sentences
            + sum(_most_tokens(chunk.text) + 8 for chunk in interaction.chunks)
        )
        outputs = _reply_tokens(sentences, chunks)
        if self._unit == "tokens":
            return float(inputs + outputs)
        provider = self._provider
        if not provider.is_loaded:
            provider.load_soon()
        price = provider.price or provider.fallback_price or _UNLOADED_PRICE
        return max(_SMALLEST_COST, price.of(inputs, outputs))

    async def close(self) -> None:
        """Close the connections of the running loop, which must be one that only judges use."""
        await self._provider.close()

    def _error(
        self,
        problem: str,
        *,
        cause: Cause,
        retryable: bool = False,
        usage: JudgeUsage | None = None,
    ) -> JudgeError:
        return JudgeError(
            self._identity.name, problem, cause=cause, retryable=retryable, usage=usage
        )


class _Calls:
    """The calls of one reading: what they cost together, and the time they have together."""

    def __init__(
        self,
        *,
        provider: Provider,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]],
        prompt_tokens: float,
    ) -> None:
        self._provider = provider
        self._clock = clock
        self._pause = pause
        self._prompt_tokens = prompt_tokens
        self._began = clock()
        self._may_retry = True
        self._spent = JudgeUsage()

    @property
    def usage(self) -> JudgeUsage:
        """What was spent so far."""
        return replace(self._spent, seconds=max(0.0, self._clock() - self._began))

    @property
    def left_s(self) -> float:
        """How long there is for further calls."""
        return 2 * self._provider.timeout_s - (self._clock() - self._began)

    async def ask(self, prompt: Prompt, max_tokens: int) -> Completion:
        """Return a reply, tried once more where the provider is busy or broken.

        Raises:
            ProviderError: There is none.
        """
        while True:
            try:
                completion = await self._provider.complete(
                    prompt.messages,
                    max_tokens=max_tokens,
                    within_s=max(self.left_s, _SHORTEST_S),
                )
            except ProviderError as error:
                self._charge_failed(error)
                wait_s = _PAUSE_S if error.retry_after_s is None else error.retry_after_s
                if error.kind != "transient" or not self._may_retry or wait_s >= self.left_s:
                    raise
                self._may_retry = False
                await self._pause(wait_s)
            else:
                self._charge(completion.usage)
                return completion

    def _charge_failed(self, error: ProviderError) -> None:
        # Who was too slow for us has read the prompt, and bills it.
        tokens = round(self._prompt_tokens) if error.kind == "timeout" else 0
        price = self._provider.price
        self._charge(
            JudgeUsage(
                calls=1,
                input_tokens=tokens,
                cost_usd=0.0 if price is None else price.of(tokens, 0),
            )
        )

    def _charge(self, usage: JudgeUsage) -> None:
        self._spent = JudgeUsage(
            calls=self._spent.calls + usage.calls,
            input_tokens=self._spent.input_tokens + usage.input_tokens,
            output_tokens=self._spent.output_tokens + usage.output_tokens,
            cost_usd=self._spent.cost_usd + usage.cost_usd,
        )


async def _read(
    calls: _Calls,
    prompt: Prompt,
    interaction: Interaction,
    sentences: Sequence[Sentence],
    language: Language,
) -> Reading:
    """Return what one call gave, or two where the first left something unread.

    Raises:
        ProviderError: Nothing was read, and the provider failed.
    """

    def read(completion: Completion) -> Reading:
        return read_reply(
            completion.text,
            sentences=[sentence.text for sentence in sentences],
            chunks=[chunk.text for chunk in interaction.chunks],
            question=interaction.query,
        )

    room = _reply_tokens(len(sentences), len(interaction.chunks))
    first = await calls.ask(prompt, room)
    reading = read(first)
    if not reading.problems or calls.left_s <= _SHORTEST_S:
        return reading
    try:
        if first.is_cut:
            second = await calls.ask(prompt, 2 * room)
        else:
            second = await calls.ask(correct(prompt, "; ".join(reading.problems), language), room)
    except ProviderError:
        if reading.is_empty:
            raise
        return reading
    return read(second).completed_by(reading)


def _verdicts(
    reading: Reading, sentences: Sequence[Sentence]
) -> tuple[SentenceVerdict, ...] | None:
    if reading.entries is None:
        return None
    return tuple(
        SentenceVerdict(
            text=sentence.text,
            start=sentence.start,
            end=sentence.end,
            verdict=entry.verdict,
            chunks=entry.chunks,
            words=entry.words,
            reasons=entry.reasons,
        )
        for sentence, entry in zip(sentences, reading.entries, strict=True)
    )


def _reply_tokens(sentences: int, chunks: int) -> int:
    """Return the room for a reply: about three times what an honest one takes."""
    return 60 + 24 * sentences + 4 * chunks


def _most_tokens(text: str) -> float:
    """Return an upper estimate of a text's tokens, in microseconds, whatever the tokenizer.

    English takes a token for 4 to 5 letters, and at most one for each digit or sign. A Chinese
    character is 3 bytes and at most about 1.5 tokens, an emoji 4 bytes and about 2.
    """
    ascii_bytes = text.encode("ascii", "ignore")
    signs = len(ascii_bytes.translate(None, _LETTERS_AND_SPACE))
    wide = len(text.encode("utf-8", "replace")) - len(ascii_bytes)
    return (len(ascii_bytes) - signs) / 3.5 + signs + wide / 2
