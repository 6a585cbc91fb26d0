"""The LLM judge: one call gives all reference-free scores."""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

from ragmonitor.judges import sentences as splitter
from ragmonitor.judges.breaker import Breaker
from ragmonitor.judges.cache import AssessmentCache, key_of
from ragmonitor.judges.calls import MIN_CALL_S, RETRIES, Ask, Calls, Pause, ask_twice
from ragmonitor.judges.evaluator_questions import MIN_REPLY_TOKENS, InteractionAsker, asking_version
from ragmonitor.judges.judge_prompts import Prompt, draw_border, prompt_version, write_prompt
from ragmonitor.judges.long_evidence import CHUNK_FRAME_TOKENS, Part, join, spread
from ragmonitor.judges.provider import Completer, Completion, Price, Provider, ProviderError
from ragmonitor.judges.reference_checks import read_reference, reference_version, reply_tokens
from ragmonitor.judges.reply import RULES, ParsedReply, read_reply
from ragmonitor.judges.sentences import Sentence
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import (
    Assessment,
    Cause,
    Interaction,
    JudgeIdentity,
    JudgeUsage,
    Language,
    ReferenceReading,
    SentenceVerdict,
)
from ragmonitor.runtime.errors import JudgeError, SettingsError
from ragmonitor.runtime.protocols import BreakerState, BudgetUnit, Clock
from ragmonitor.settings import Budget

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
_UNLOADED_PRICE: Final = Price(input_usd=5e-6, output_usd=25e-6)
"""A large model's price, until litellm is loaded: the reservation must not be too small."""
_SMALLEST_COST: Final = 1e-9
_ENDS: Final = {ord(mark): None for mark in ".!?;\n\r\v\f\x85\u2028\u2029。！？；｡．…|"}
"""Every sentence but the last ends in one of these."""


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
        budget: Budget | None = None,
        budget_unit: BudgetUnit = "usd",
        tokens_per_call: int = TOKENS_PER_CALL,
        max_calls: int = MAX_CALLS,
        cache: AssessmentCache | None = None,
        completer: Completer | None = None,
        clock: Clock = time.monotonic,
        pause: Pause = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        draw: Callable[[], str] = draw_border,
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
            budget: What a monitor's judges may spend, where the monitor is given no budget itself.
            budget_unit: What `expected_cost` counts, unless a monitor's budget says otherwise. In
                dollars a price must be known.
            tokens_per_call: Of a prompt, estimated; longer evidence is spread.
            max_calls: Over how many calls it may be spread.
            cache: Where exact duplicates are looked up; None: each is read.
            completer: Who replies instead of litellm; `model` is then but a name.
            clock: For the time of a reading, and the breaker's.
            pause: How to wait before a retry.
            jitter: A number in [0, 1) for each such wait.
            draw: Where the borders of the prompt's sections come from.
        """
        self._given_price = (
            None if price is None else Price(input_usd=price[0], output_usd=price[1])
        )
        self.fallbacks: Mapping[str, str | None] = dict(fallbacks or {})
        self._completer: Completer = completer or Provider(
            model,
            timeout_s=timeout_s,
            api_base=api_base,
            api_key=api_key,
            fallbacks=self.fallbacks,
            given_price=self._given_price,
        )
        self.identity = JudgeIdentity(name=model, version=f"{prompt_version()}.{RULES}", kind="LLM")
        """The model, and the version of the prompt and of the rules for replies."""
        self.budget = budget
        self.budget_unit: BudgetUnit = budget_unit if budget is None else budget.unit
        self._reading_timeout_s = 2 * timeout_s
        self._tokens_per_call = tokens_per_call
        self._max_calls = max_calls
        self._cache = cache
        self._clock = clock
        self._pause = pause
        self._jitter = jitter
        self._draw = draw
        self.breaker = Breaker(name=model, clock=clock)

    @property
    def prompt_versions(self) -> Mapping[Literal["question", "reference"], str]:
        """The versions of the frame of evaluators' questions, and of reading a reference answer."""
        return {"question": asking_version(), "reference": reference_version()}

    def counting(self, unit: BudgetUnit) -> Self:
        """Return this judge, with `expected_cost` in another unit.

        Raises:
            SettingsError: The unit is dollars, and no price is known or ever will be.
        """
        if unit == "usd" and self._completer.is_loaded and self._completer.price is None:
            raise SettingsError(
                f"judge {self.identity.name} has no price in US dollars; set estimation.prices, "
                "or a budget in tokens"
            )
        counting = copy.copy(self)
        counting.budget_unit = unit
        return counting

    def uncached(self) -> Self:
        """Return this judge without its cache; all else is shared."""
        uncached = copy.copy(self)
        uncached._cache = None  # noqa: SLF001 - of the same class
        return uncached

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
        if self._cache is None:
            return await self._assess(interaction)
        day = str(interaction.started_ns // (86_400 * 10**9))
        return await self._cache.read(
            key_of(interaction, self.identity, day),
            lambda: self._assess(interaction),
            with_reference=bool(interaction.reference.strip()),
        )

    async def _assess(self, interaction: Interaction) -> Assessment:
        await self.prepare()
        spread_chunks = self._spread(interaction)
        question = _Question(
            interaction=interaction,
            language=splitter.language(interaction.answer),
            sentences=splitter.split(interaction.answer),
        )
        began = self._clock()
        made: list[Calls] = []
        try:
            with self.breaker.attempt() as is_probe:
                made = [self._calls(0 if is_probe else RETRIES) for _ in spread_chunks]
                replies = await _all(
                    self._read(calls, question, parts)
                    for calls, parts in zip(made, spread_chunks, strict=True)
                )
        except ProviderError as error:
            raise self._error(
                str(error),
                cause=error.cause,
                retryable=error.kind in ("timeout", "transient", "down"),
                usage=self._usage(made, began),
            ) from error
        usage = self._usage(made, began)
        reading = join(
            [reply.reading for reply in replies], spread_chunks, n_chunks=len(interaction.chunks)
        )
        if not reading.is_usable:
            raise self._error(
                f"the reply could not be read: {'; '.join(reading.problems)}",
                cause=Cause.UNREADABLE,
                retryable=True,
                usage=usage,
            )
        identity = self.identity
        for reply in replies:
            if reply.model in self.fallbacks:
                identity = replace(identity, name=reply.model)
        assessment = Assessment(
            judge=identity,
            language=question.language,
            sentences=_verdicts(reading, question.sentences),
            answer_relevancy=reading.relevancy,
            evasive=reading.evasive,
            chunk_relevance=reading.chunk_relevance,
            usage=usage,
        )
        if not interaction.reference.strip():
            return assessment
        left_s = self._reading_timeout_s - (self._clock() - began)
        return await self._with_reference(assessment, interaction, spread_chunks, within_s=left_s)

    async def _with_reference(
        self,
        assessment: Assessment,
        interaction: Interaction,
        shares: Sequence[Sequence[Part]],
        *,
        within_s: float,
    ) -> Assessment:
        # What the answer's own calls have left: who gives the whole reading up loses its verdicts.
        calls = self._calls(within_s=within_s)
        reading: ReferenceReading | Cause = Cause.JUDGE_TIMEOUT
        if within_s > MIN_CALL_S:
            reading = await read_reference(
                self._asking(calls), interaction, assessment, shares, draw=self._draw
            )
        return replace(
            assessment,
            judge=replace(
                assessment.judge, version=f"{assessment.judge.version}.{reference_version()}"
            ),
            reference=None if isinstance(reading, Cause) else reading,
            reference_cause=reading if isinstance(reading, Cause) else None,
            usage=assessment.usage + calls.usage,
        )

    def asker(self, interaction: Interaction, assessment: Assessment) -> InteractionAsker:
        """Return the asker by which evaluators ask questions of their own, each one call."""
        calls = self._calls()
        return InteractionAsker(
            interaction,
            self._asking(calls),
            identity=assessment.judge,
            language=assessment.language,
            max_prompt_tokens=self._tokens_per_call,
            reply_tokens=self._reply_tokens(
                len(assessment.sentences or ()), len(interaction.chunks)
            ),
            usage=lambda: calls.usage,
            draw=self._draw,
        )

    def _calls(self, retries: int = RETRIES, *, within_s: float | None = None) -> Calls:
        return Calls(
            self._completer,
            within_s=self._reading_timeout_s if within_s is None else within_s,
            clock=self._clock,
            pause=self._pause,
            jitter=self._jitter,
            retries=retries,
        )

    def _asking(self, calls: Calls) -> Ask:
        async def ask(prompt: Prompt, room: int) -> Completion:
            with self.breaker.attempt():
                return await calls.ask(prompt, room)

        return ask

    async def _read(self, calls: Calls, question: _Question, parts: Sequence[Part]) -> _Reply:
        """Return the reply to one call, or to two where the first left something unread.

        Raises:
            ProviderError: The provider failed.
        """
        chunks = [part.text for part in parts]
        replies = await ask_twice(
            calls.ask,
            question.prompt(chunks, self._draw),
            lambda reply: question.read(reply, chunks).problems,
            max_tokens=self._reply_tokens(len(question.sentences), len(chunks)),
            language=question.language,
        )
        reading = question.read(replies[-1], chunks)
        if len(replies) > 1:
            reading = reading.completed_by(question.read(replies[0], chunks))
        return _Reply(reading=reading, model=replies[-1].model)

    def expected_cost(self, interaction: Interaction) -> float:
        """Return an upper estimate of one reading's cost, in the budget's unit, above 0.

        All its calls are in it: one for each share of the evidence, and for each of these a second
        with twice the room, for a reply that was cut.

        Raises:
            JudgeError: It could not be read at any cost: the evidence is too long, or the budget
                is in dollars and the model's price is unknown.
        """
        completer = self._completer
        if completer.is_loaded:
            self._check_price()
        shares = self._shares(interaction)
        if self.budget_unit == "calls":
            return (2.0 + RETRIES) * shares * (2 if interaction.reference.strip() else 1)
        answer = interaction.answer
        ends = len(answer) - len(answer.translate(_ENDS))
        sentences = 1 + min(ends, len(answer) // 2)
        # A reading is set aside for each question of an evaluator, which has a least room.
        room = max(
            MIN_REPLY_TOKENS, self._reply_tokens(sentences, len(interaction.chunks) + shares)
        )
        inputs = 2 * (
            shares * (self._fixed_tokens(interaction) + 4 * sentences + _CORRECTION_TOKENS)
            + _evidence_tokens(interaction)
        )
        outputs = shares * (3 * room + 2 * completer.thinking_tokens)
        if interaction.reference.strip():
            # A second reading of the same evidence, with the reference beside it.
            references = 1 + len(interaction.reference) // 2
            inputs = 2 * inputs + 2 * shares * estimate_tokens(interaction.reference)
            outputs = 2 * outputs + 3 * shares * reply_tokens(sentences, min(references, 400), 10)
        if self.budget_unit == "tokens":
            return float(inputs + outputs)
        price = completer.price or self._given_price or _UNLOADED_PRICE
        return max(_SMALLEST_COST, price.of(inputs, outputs))

    async def close(self) -> None:
        """Close the connections of the running loop."""
        await self._completer.close()

    def _fixed_tokens(self, interaction: Interaction) -> float:
        """Return the tokens of every call of a reading, whichever chunks it is shown."""
        return (
            _FRAME_TOKENS + estimate_tokens(interaction.query) + estimate_tokens(interaction.answer)
        )

    def _chunk_room(self, interaction: Interaction) -> float:
        room = self._tokens_per_call - self._fixed_tokens(interaction)
        if room < _MIN_CHUNK_TOKENS:
            raise self._too_long("question and answer alone")
        return room

    def _shares(self, interaction: Interaction) -> int:
        """Return over how many calls the evidence is spread, at most."""
        room = self._chunk_room(interaction)
        evidence = _evidence_tokens(interaction)
        if evidence <= room:
            return 1
        if evidence > room * self._max_calls:
            raise self._too_long(f"evidence of about {evidence:.0f} tokens")
        return len(spread([chunk.text for chunk in interaction.chunks], room_tokens=room))

    def _spread(self, interaction: Interaction) -> list[list[Part]]:
        if self._shares(interaction) > self._max_calls:
            raise self._too_long("evidence")
        return spread(
            [chunk.text for chunk in interaction.chunks],
            room_tokens=self._chunk_room(interaction),
        )

    def _reply_tokens(self, sentences: int, chunks: int) -> int:
        """Return the room for a reply: about three times what an honest one takes."""
        return 60 + 28 * sentences + 4 * chunks

    def _usage(self, made: Sequence[Calls], began_s: float) -> JudgeUsage:
        spent = sum((calls.usage for calls in made), JudgeUsage())
        return replace(spent, seconds=max(0.0, self._clock() - began_s))

    def _check_price(self) -> None:
        if self.budget_unit == "usd" and self._completer.price is None:
            raise self._error(
                "litellm knows no price of this model, or of a fallback; set estimation.prices, "
                "which is of the judge's own, name fallbacks of a known price, or set "
                "budget.tokens_per_day instead of a budget in dollars",
                cause=Cause.JUDGE_ERROR,
            )

    def _too_long(self, subject: str) -> JudgeError:
        return self._error(
            f"{subject} exceeds the {self._max_calls} calls of {self._tokens_per_call} tokens that "
            "a reading may take",
            cause=Cause.EVIDENCE_TOO_LONG,
        )

    def _error(
        self,
        problem: str,
        *,
        cause: Cause,
        retryable: bool = False,
        usage: JudgeUsage | None = None,
    ) -> JudgeError:
        return JudgeError(
            self.identity.name, problem, cause=cause, retryable=retryable, usage=usage
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    """The reply on one share of the evidence, and who gave it."""

    reading: ParsedReply
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The parts of a prompt that all calls about one answer share."""

    interaction: Interaction
    language: Language
    sentences: Sequence[Sentence]

    def prompt(self, chunks: Sequence[str], draw: Callable[[], str]) -> Prompt:
        return write_prompt(
            question=self.interaction.query,
            chunks=chunks,
            sentences=[sentence.text for sentence in self.sentences],
            language=self.language,
            asked_ns=self.interaction.started_ns,
            draw=draw,
        )

    def read(self, completion: Completion, chunks: Sequence[str]) -> ParsedReply:
        return read_reply(
            completion.text,
            sentences=[sentence.text for sentence in self.sentences],
            chunks=chunks,
            question=self.interaction.query,
        )


async def _all(readings: Iterable[Coroutine[Any, Any, _Reply]]) -> list[_Reply]:
    """Return all replies; waits for every one, so that their cost is known.

    Raises:
        ProviderError: The first that one of them raised.
    """
    replies: list[_Reply] = []
    failure: BaseException | None = None
    for result in await asyncio.gather(*readings, return_exceptions=True):
        if isinstance(result, BaseException):
            failure = failure or result
        else:
            replies.append(result)
    if failure is not None:
        raise failure
    return replies


def _verdicts(
    reading: ParsedReply, sentences: Sequence[Sentence]
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
            severity=entry.severity,
        )
        for sentence, entry in zip(sentences, reading.entries, strict=True)
    )


def _evidence_tokens(interaction: Interaction) -> float:
    return sum(estimate_tokens(chunk.text) + CHUNK_FRAME_TOKENS for chunk in interaction.chunks)
