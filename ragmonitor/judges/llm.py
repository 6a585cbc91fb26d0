"""The LLM judge: one call gives all reference-free scores."""

from __future__ import annotations

import asyncio
import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

from ragmonitor.judges import evaluator_questions, judge_prompts, reference_checks
from ragmonitor.judges import sentences as splitter
from ragmonitor.judges.calls import RETRIES, Breaker, Calls, Pause
from ragmonitor.judges.evaluator_questions import MIN_REPLY_TOKENS, InteractionAsker
from ragmonitor.judges.judge_prompts import write_prompt
from ragmonitor.judges.long_evidence import CHUNK_FRAME_TOKENS, Part, join, spread
from ragmonitor.judges.provider import Completer, Provider, ProviderError
from ragmonitor.judges.reference_checks import read_reference
from ragmonitor.judges.reply import RULES, ParsedReply, read_reply
from ragmonitor.judges.tokens import estimate_tokens, reply_tokens
from ragmonitor.records import Assessment, Cause, Interaction, JudgeIdentity
from ragmonitor.runtime.errors import JudgeError, SettingsError
from ragmonitor.runtime.prices import Price
from ragmonitor.runtime.protocols import BreakerState, BudgetUnit

TOKENS_PER_CALL: Final = 8_000
"""Longer evidence is spread over several calls: a judge that skims is worse than none."""
MAX_CALLS: Final = 6
"""Evidence that needs more is refused."""
_FRAME_TOKENS: Final = 620
"""Most tokens of the prompt without its data; a test holds it."""
_CORRECTION_TOKENS: Final = 160
"""Most tokens of the second call's last line."""
_MIN_CHUNK_TOKENS: Final = 400
"""Least room for chunks in a call; with less, question and answer alone are too long."""
_SMALLEST_COST: Final = 1e-9
_UNPRICED: Final = (
    "has no price in US dollars that is known, or a fallback has none; set estimation.prices "
    "(RAGMONITOR_ESTIMATION__PRICES=my-model=0.5/1.5), which is of the judge's own, or give a "
    "budget in tokens (budget.tokens_per_day, budget_tokens, --budget-tokens), or that of a "
    "monitor in calls (budget.calls_per_day)"
)


class LlmJudge:
    """Asks a language model, through litellm, what the chunks say of each sentence of an answer.

    One reading is one call. A reply that cannot be read is asked for once more, saying what was
    wrong, or with twice the room if it was cut; a busy or broken provider is tried twice more.
    Evidence beyond `tokens_per_call` is spread over several calls, made at once. All of it within
    twice `timeout_s`. A provider that keeps failing is left alone for a while: see `Breaker`.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        fallbacks: Mapping[str, str | None] | None = None,
        timeout_s: float = 15.0,
        price: tuple[float, float] | None = None,
        budget_unit: BudgetUnit = "usd",
        tokens_per_call: int = TOKENS_PER_CALL,
        max_calls: int = MAX_CALLS,
        completer: Completer | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """Build the judge; nothing is imported or called before the first reading.

        Args:
            model: As litellm names it: `openai/gpt-4o-mini`.
            api_base: Address of an OpenAI-compatible server.
            api_key: The provider's; by default litellm finds it in the environment.
            fallbacks: Models that litellm asks in turn where this one fails, with the addresses of
                their servers; None: litellm knows it. A verdict bears the name of who gave it.
            timeout_s: Per call; a reading with all its calls may take twice as long.
            price: US dollars per input token and per output token, if litellm knows none.
            budget_unit: What `expected_cost` counts, unless a monitor's budget says otherwise. In
                dollars a price must be known.
            tokens_per_call: Of a prompt, estimated; longer evidence is spread.
            max_calls: Over how many calls it may be spread.
            completer: Who replies instead of litellm; `model` is then but a name.
            pause: How to wait before a retry.
        """
        self.fallbacks: Mapping[str, str | None] = dict(fallbacks or {})
        self._completer: Completer = completer or Provider(
            model,
            timeout_s=timeout_s,
            api_base=api_base,
            api_key=api_key,
            fallbacks=self.fallbacks,
            given_price=None if price is None else Price(*price),
        )
        self.identity = JudgeIdentity(name=model, version=prompt_version(), kind="LLM")
        """The model, and the version of the prompt and of the rules for replies."""
        self.budget_unit: BudgetUnit = budget_unit
        self._calls = partial(Calls, completer=self._completer, timeout_s=timeout_s, pause=pause)
        self._tokens_per_call = tokens_per_call
        self._max_calls = max_calls
        self.breaker = Breaker(name=model)

    def counting(self, unit: BudgetUnit) -> Self:
        """Return this judge, with `expected_cost` in another unit.

        Raises:
            SettingsError: The unit is dollars, and no price is known or ever will be.
        """
        # litellm's price is looked for in its table, which a new release may have.
        is_function = not isinstance(self._completer, Provider)
        if unit == "usd" and is_function and self._completer.price is None:
            raise SettingsError(f"judge {self.identity.name} {_UNPRICED}")
        counting = copy.copy(self)
        counting.budget_unit = unit
        return counting

    @property
    def breaker_state(self) -> BreakerState:
        """Whether the provider is asked."""
        return self.breaker.state

    def admits(self) -> bool:
        """Return whether the provider would be asked now."""
        return self.breaker.admits()

    async def prepare(self) -> None:
        """Import litellm and check that the budget can be kept, ahead of the first reading.

        Raises:
            MissingExtraError: litellm is not installed.
            JudgeError: The budget is in dollars and the model's price is unknown.
        """
        await self._completer.load()
        self._check_price()

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return the model's assessment of the answer.

        Raises:
            JudgeError: There is no usable reply, the evidence is too long, or the provider is down.
            MissingExtraError: litellm is not installed.
        """
        await self.prepare()
        shares = self._spread(interaction)
        answer = splitter.without_thoughts(interaction.answer)
        sentences, language = splitter.split(answer), splitter.language(answer)
        calls = self._calls(breaker=self.breaker)

        async def read(parts: Sequence[Part]) -> tuple[ParsedReply, str]:
            """Return what a model says by one share of the chunks, and the model."""
            chunks, question = [part.text for part in parts], interaction.query
            prompt = write_prompt(
                question=question,
                chunks=chunks,
                sentences=[sentence.text for sentence in sentences],
                language=language,
                asked_ns=interaction.started_ns,
            )

            def read_one(text: str) -> tuple[ParsedReply, Sequence[str]]:
                reply = read_reply(text, sentences=sentences, chunks=chunks, question=question)
                return reply, reply.problems

            room = reply_tokens(len(sentences), len(chunks))
            reply, _, model = await calls.ask_twice(prompt, read_one, room)
            return reply, model

        try:
            reading = [asyncio.ensure_future(read(parts)) for parts in shares]
            # All are waited for, so that their cost is known.
            await asyncio.gather(*reading, return_exceptions=True)
            replies = [each.result() for each in reading]
        except ProviderError as error:
            error.usage = calls.usage
            raise
        joined = join([reply for reply, _ in replies], shares, n_chunks=len(interaction.chunks))
        if not joined.is_usable:
            unread = f"the reply could not be read: {'; '.join(joined.problems)}"
            raise self._error(unread, Cause.UNREADABLE, retryable=True, usage=calls.usage)
        signed = [model for _, model in replies if model in self.fallbacks]
        assessment = Assessment(
            judge=replace(self.identity, name=signed[0]) if signed else self.identity,
            language=language,
            sentences=joined.sentences,
            answer_relevancy=joined.relevancy,
            evasive=joined.evasive,
            chunk_relevance=joined.chunk_relevance,
        )
        if interaction.reference.strip():
            assessment = await read_reference(calls, interaction, assessment, shares)
        return replace(assessment, usage=calls.usage)

    def asker(self, interaction: Interaction, assessment: Assessment) -> InteractionAsker:
        """Return the asker by which evaluators ask questions of their own, each one call."""
        calls = self._calls(breaker=self.breaker)
        most = self._tokens_per_call
        return InteractionAsker(calls, interaction, assessment, max_prompt_tokens=most)

    def expected_cost(self, interaction: Interaction) -> float:
        """Return an upper estimate of one reading's cost, in the budget's unit, above 0.

        All its calls are in it: one for each share of the evidence, and for each of these a second
        with twice the room, for a reply that was cut.

        Raises:
            JudgeError: It could not be read at any cost: the evidence is too long, or the budget
                is in dollars and the model's price is unknown.
        """
        self._check_price()
        shares = len(self._spread(interaction))
        sentences = len(splitter.spans(interaction.answer))
        references = len(splitter.spans(interaction.reference))
        # A reference is read in calls of its own, from the same evidence.
        passes = 2 if interaction.reference.strip() else 1
        if self.budget_unit == "calls":
            return (2.0 * shares * passes + RETRIES) * (1 + len(self.fallbacks))
        texts = _frame_tokens(interaction) + estimate_tokens(interaction.reference)
        texts += 4 * sentences + _CORRECTION_TOKENS
        inputs = 2 * passes * (shares * texts + _evidence_tokens(interaction))
        # A reading is set aside for each question of an evaluator, which has a least room.
        room = reply_tokens(sentences, len(interaction.chunks) + shares, references)
        room = 3 * max(MIN_REPLY_TOKENS, room) + 2 * self._completer.thinking_tokens
        outputs = passes * shares * room
        if self.budget_unit == "tokens":
            return float(inputs + outputs)
        price = self._completer.price or Price(0.0, 0.0)
        return max(_SMALLEST_COST, price.of(inputs, outputs))

    async def close(self) -> None:
        """Close the connections of the running loop."""
        await self._completer.close()

    def _spread(self, interaction: Interaction) -> list[list[Part]]:
        """Return the chunks by the calls that they are spread over.

        Raises:
            JudgeError: They need more calls than there may be.
        """
        room = self._tokens_per_call - _frame_tokens(interaction)
        shares: list[list[Part]] = []
        # Before it is cut into pieces: what is far too long would be cut for nothing.
        if room >= _MIN_CHUNK_TOKENS and _evidence_tokens(interaction) <= room * self._max_calls:
            shares = spread([chunk.text for chunk in interaction.chunks], room_tokens=room)
        if not 0 < len(shares) <= self._max_calls:
            raise self._error(
                f"question, answer and evidence exceed the {self._max_calls} calls of "
                f"{self._tokens_per_call} tokens that a reading may take",
                Cause.EVIDENCE_TOO_LONG,
            )
        return shares

    def _check_price(self) -> None:
        if self.budget_unit == "usd" and self._completer.price is None:
            raise self._error(_UNPRICED, Cause.JUDGE_ERROR)

    def _error(self, problem: str, cause: Cause, **details: Any) -> JudgeError:
        return JudgeError(self.identity.name, problem, cause=cause, **details)


def prompt_version() -> str:
    """Return what changes with every static text that a model is sent, and every rule for replies.

    One version for all prompts: a verdict, a question of an evaluator, and a reading of a reference
    answer by other words are another judge's.
    """
    tables = (judge_prompts.SYSTEM, judge_prompts.REMINDER, reference_checks.SYSTEM)
    texts = [text for table in (*tables, reference_checks.REMINDER) for text in table.values()]
    texts += [evaluator_questions.FRAME, evaluator_questions.REMINDER, judge_prompts.CORRECTION]
    return f"{hashlib.blake2b(chr(0).join(texts).encode(), digest_size=4).hexdigest()}.{RULES}"


def _frame_tokens(interaction: Interaction) -> float:
    """Return the tokens of every call of a reading, whichever chunks it is shown."""
    return _FRAME_TOKENS + estimate_tokens(interaction.query) + estimate_tokens(interaction.answer)


def _evidence_tokens(interaction: Interaction) -> float:
    return sum(estimate_tokens(chunk.text) + CHUNK_FRAME_TOKENS for chunk in interaction.chunks)
