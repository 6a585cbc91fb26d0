"""Calls one model at one address through litellm.

What form of reply a model takes is found out by asking: a strict schema, any JSON, or plain text.
A form that it rejects is not asked of it again in this process, whoever asks.

litellm takes seconds to import and is the application's as much as ours: it is imported on first
use, in a thread, and whatever we want of it is said per call. Its settings, callbacks and caches
are the application's and stay as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, Protocol

from ragmonitor import imports
from ragmonitor.apart import apart
from ragmonitor.errors import MissingExtraError, RagMonitorError
from ragmonitor.forks import survive_forks
from ragmonitor.guard import record_problem, silenced
from ragmonitor.judges.judge_prompts import Message
from ragmonitor.judges.scrubbing import scrubbed
from ragmonitor.patterns import lazy_pattern
from ragmonitor.records import Cause, JudgeUsage

LOGGERS: Final = (
    "LiteLLM",
    "LiteLLM Router",
    "LiteLLM Proxy",
    "httpx",
    "openai._base_client",
    "anthropic._base_client",
)
"""The loggers that tell of each call, and of each failure in several lines."""
Form = Literal["json_schema", "json_object", "text"]
"""The form of reply that a model is asked for, strictest first."""
FORMS: Final[tuple[Form, ...]] = ("json_schema", "json_object", "text")

_REFUSABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "response_format": (
        "response_format",
        "response format",
        "json_schema",
        "json_object",
        "json mode",
        "structured output",
    ),
    "temperature": ("temperature",),
    "reasoning_effort": ("reasoning_effort",),
}
"""Parameters that a call can do without, with words of a provider's 400 about each."""
_OF_THE_REQUEST: Final = frozenset({400, 413, 422})
"""Status codes of a provider that works and will not process this request."""
_TRANSIENT = frozenset({409, 425, 429, 500, 502, 503, 504, 529})
_MAX_ERROR_CHARACTERS = 2000
_MAX_DETAIL_CHARACTERS = 240
_CHARACTERS_PER_TOKEN = 16
"""A reply with more characters per token of its room is longer than it was told to be."""
_FREE_CHARACTERS = 64_000
"""A reply may have so many characters whatever its room: a model may think aloud."""
_FRAMING_TOKENS = 2_000
"""Tokens that a provider may put around our messages and count as ours."""
_MAX_OVERRUN = 4
"""A reply may have so many times the tokens of its room: some providers think beyond it."""
_MAX_PRICE_FACTOR = 10.0
"""A reply may cost so many times its plain price, by tiers and by region."""
_PREFIXES = lazy_pattern(r"(?:(?:litellm\.)?[A-Za-z]+(?:Error|Exception): )+")
"""Prefixes of litellm's messages that repeat the name of the error."""
_THINKING_TOKENS = 4096
"""Room for a model's thoughts, in tokens; they count as output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model's tokens."""

    input_usd: float
    """The price per token."""
    output_usd: float
    """The price per token."""

    @classmethod
    def per_million(cls, input_usd: float | None, output_usd: float | None) -> Price | None:
        """Return the price of what a million tokens cost; None: one of the two is not known."""
        if input_usd is None or output_usd is None:
            return None
        return cls(input_usd=input_usd / 1e6, output_usd=output_usd / 1e6)

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Return the cost in US dollars."""
        return input_tokens * self.input_usd + output_tokens * self.output_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply."""

    text: str
    model: str
    """Who replied: the model that was asked, or one of its fallbacks."""
    form: Form
    """The form that was asked for."""
    is_cut: bool
    """The provider stopped at `max_tokens`."""
    usage: JudgeUsage


class ProviderError(RagMonitorError):
    """A call gave no reply."""

    def __init__(
        self,
        detail: str,
        *,
        kind: Literal["timeout", "transient", "permanent", "refused", "down"],
        retry_after_s: float | None = None,
        may_be_billed: bool = False,
        unread: Completion | None = None,
    ) -> None:
        """Describe one failed call.

        Args:
            detail: What happened, in one line, without keys.
            kind: `transient`: the same call may succeed soon; `permanent`: no call will;
                `refused`: this one will not, others may; `down`: it was not made.
            retry_after_s: When the provider wants to be asked again, if it said so.
            may_be_billed: The provider has read the prompt and begun to reply, as far as anybody
                knows, and told nobody how many tokens that took. A timeout always may be.
            unread: A whole reply that is not read; it costs what one that is read does.
        """
        super().__init__(detail)
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.may_be_billed = may_be_billed or kind == "timeout"
        self.unread = unread

    @property
    def cause(self) -> Cause:
        """The cause under which evaluations that needed the reply are counted."""
        return _CAUSES.get(self.kind, Cause.JUDGE_ERROR)


_CAUSES: Final = {"timeout": Cause.JUDGE_TIMEOUT, "down": Cause.JUDGE_DOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    """Asks the same question of a model that replies by a schema."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any]


class Completer(Protocol):
    """Replies to prompts: a model behind litellm, or a function."""

    @property
    def timeout_s(self) -> float:
        """The seconds per call."""
        ...

    @property
    def price(self) -> Price | None:
        """None: unknown, or not loaded yet."""
        ...

    @property
    def thinking_tokens(self) -> int:
        """The tokens of a reply beyond the room that is asked for."""
        ...

    @property
    def form(self) -> Form:
        """The form of reply that the next call will ask for."""
        ...

    @property
    def is_loaded(self) -> bool:
        """Whether it can reply, and the price is known if it ever will be."""
        ...

    async def load(self) -> None:
        """Make ready, without blocking the loop. Raises `MissingExtraError`."""
        ...

    def load_soon(self) -> None:
        """Begin to make ready in the background; returns at once and raises nothing."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        within_s: float,
        strict: Strict | None = None,
    ) -> Completion:
        """Return the reply to one call. `load` first. Raises `ProviderError`."""
        ...

    async def close(self) -> None:
        """Close what was opened on the running loop."""
        ...


@dataclass(slots=True)
class ModelSupport:
    """The parameters that one model at one address was found to support."""

    rejected: set[str] = field(default_factory=set)
    """Forms of reply and parameters that the provider answered with a 400."""
    thinks: bool = False


_found: dict[tuple[str, str | None], ModelSupport] = {}


def support_of(model: str, api_base: str | None) -> ModelSupport:
    """Return what a model is known to support; all who ask it share one object."""
    return _found.setdefault((model, api_base), ModelSupport())


@dataclass(slots=True, kw_only=True, weakref_slot=True)
class Provider:
    """Calls one model; safe to use from several tasks and loops."""

    model: str
    """The name by which litellm knows it: `openai/gpt-4o-mini`."""
    timeout_s: float
    """The seconds per call."""
    api_base: str | None = None
    api_key: str | None = field(default=None, repr=False)
    fallbacks: Mapping[str, str | None] = field(default_factory=dict)
    """Models that litellm asks in turn where this one fails, with the addresses of their servers;
    None: litellm knows it."""
    fallback_price: Price | None = None
    """Taken where litellm knows no price of the model itself."""
    start_form: Form = "json_object"
    """The strictest form of reply to ask for; `json_schema` needs `Strict` in the call."""

    price: Price | None = field(default=None, init=False)
    """The highest of the models that may reply. None: unknown of one, or not loaded yet."""
    is_loaded: bool = field(default=False, init=False)
    _litellm: Any = field(default=None, init=False, repr=False)
    _listed: dict[str, Price] = field(default_factory=dict, init=False)
    """The prices of those of the models that litellm itself knows."""
    _parameters: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _takes_forms: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _loading: threading.Thread | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        survive_forks(self)

    @property
    def _support(self) -> ModelSupport:
        return support_of(self.model, self.api_base)

    @property
    def thinking_tokens(self) -> int:
        """The tokens of a reply beyond the room that is asked for."""
        return _THINKING_TOKENS if self._support.thinks else 0

    @property
    def form(self) -> Form:
        """The form of reply that the next call will ask for."""
        if not self._takes_forms:
            return "text"
        rejected = self._support.rejected
        wanted = FORMS[FORMS.index(self.start_form) :]
        return next(form for form in wanted if form not in rejected)

    def after_fork_in_child(self) -> None:
        """Begin anew: a thread of the parent's may have held the lock."""
        self._lock, self._loading = threading.Lock(), None

    async def load(self) -> None:
        """Import litellm and learn what it knows of the model, without blocking the loop.

        Raises:
            MissingExtraError: litellm is not installed.
        """
        if not self.is_loaded:
            await apart(self._load)

    def load_soon(self) -> None:
        """Begin to load in the background, once; returns at once and raises nothing."""
        if self.is_loaded or self._loading is not None:
            return
        self._loading = threading.Thread(
            target=self._load_quietly, name="ragmonitor-judge-load", daemon=True
        )
        with contextlib.suppress(RuntimeError):  # the system has no thread; a reading will load it
            self._loading.start()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        within_s: float,
        strict: Strict | None = None,
    ) -> Completion:
        """Return the model's reply to one call. `load` first.

        Args:
            messages: The prompt.
            max_tokens: Room for the reply, without a model's thoughts.
            within_s: Time for the call, where that is less than `timeout_s`.
            strict: The prompt to send instead while the model takes a schema.

        Raises:
            ProviderError: There is none.
        """
        within_s = min(within_s, self.timeout_s)
        refusals = 0
        try:
            async with asyncio.timeout(within_s):
                while True:
                    form = self._form_with(strict)
                    optional = self._optional(form, strict)
                    sent = messages if form != "json_schema" or strict is None else strict.messages
                    try:
                        response = await self._call(sent, max_tokens, optional)
                    except Exception as error:  # noqa: BLE001 - whatever litellm raises
                        if self._forgoes(error, form, optional):
                            refusals += 1
                            continue
                        # Not `from error`: what litellm raises may quote the key, and logs show it.
                        raise self._described(error) from None
                    asked = _Asked(messages=sent, room=max_tokens + self.thinking_tokens)
                    return self._completion(response, asked, form=form, calls=1 + refusals)
        except TimeoutError:
            raise ProviderError(f"no reply within {within_s:.3g} s", kind="timeout") from None

    async def _call(
        self, messages: Sequence[Message], max_tokens: int, optional: Mapping[str, Any]
    ) -> Any:
        with unheard():
            return await self._litellm.acompletion(
                model=self.model,
                messages=[dict(message) for message in messages],
                max_tokens=max_tokens + self.thinking_tokens,
                api_base=self.api_base,
                api_key=self.api_key,
                # Later than ours, so that ours decides; and always the same, since litellm keeps
                # one connection pool for each value.
                timeout=self.timeout_s + 1.0,
                num_retries=0,
                max_retries=0,
                drop_params=True,
                caching=False,
                # Where litellm is told to log all the same, and does so in a task of its own.
                metadata={"ragmonitor": False},
                **({"fallbacks": self._fallbacks()} if self.fallbacks else {}),
                **{"no-log": True},
                **optional,
            )

    def _fallbacks(self) -> list[dict[str, Any]]:
        """Return the fallbacks as litellm takes them; none has the judge's own address or key."""
        return [
            {"model": model, "api_base": api_base, "api_key": self._key_of(model, api_base)}
            for model, api_base in self.fallbacks.items()
        ]

    def _key_of(self, model: str, api_base: str | None) -> str | None:
        # Local servers want no key; the client library wants some.
        return "none" if api_base is not None and _lacks_key(self._litellm, model) else None

    def _form_with(self, strict: Strict | None) -> Form:
        form = self.form
        if form != "json_schema" or strict is not None:
            return form
        return "text" if "json_object" in self._support.rejected else "json_object"

    def _optional(self, form: Form, strict: Strict | None) -> dict[str, Any]:
        rejected = self._support.rejected
        optional = {name: value for name, value in self._parameters.items() if name not in rejected}
        if form == "json_schema" and strict is not None:
            schema = {"name": "assessment", "strict": True, "schema": dict(strict.schema)}
            optional["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif form == "json_object":
            optional["response_format"] = {"type": "json_object"}
        return optional

    async def close(self) -> None:
        """Close the connections that were opened on the running loop, whoever opened them.

        For a loop of our own, before it ends; elsewhere litellm closes them at the process's end.
        """
        pool: Any = getattr(self._litellm, "in_memory_llm_clients_cache", None)
        clients: dict[str, Any] = getattr(pool, "cache_dict", {})
        suffix = f"-{id(asyncio.get_running_loop())}"
        for key in [key for key in clients if key.endswith(suffix)]:
            client: Any = clients.get(key)
            # Out of the cache first: another loop may get this one's id.
            with contextlib.suppress(Exception):
                pool.delete_cache(key)
            with contextlib.suppress(Exception):
                await client.close()

    def _load_quietly(self) -> None:
        # The same error meets the first reading, where there is somebody to tell.
        with contextlib.suppress(Exception):
            self._load()

    def _load(self) -> None:
        with self._lock:
            if self.is_loaded:
                return
            # That there is no network for its prices, and the like, people should hear.
            with silenced(LOGGERS, logging.WARNING):
                try:
                    litellm: Any = imports.load("litellm")
                except ImportError as error:
                    if error.name is not None and error.name.partition(".")[0] != "litellm":
                        raise
                    raise MissingExtraError("litellm", "litellm") from error
                litellm.suppress_debug_info = True  # else each failure prints a request for help
                self._litellm = litellm
                self._learn(litellm)
                self._import_client(litellm)
                self.is_loaded = True

    def _import_client(self, litellm: Any) -> None:
        """Import what the first call would: OpenAI's client has some 500 modules of its own."""
        with contextlib.suppress(Exception):  # the call itself says what is wrong
            provider = litellm.get_llm_provider(model=self.model)[1]
            if provider in ("openai", "azure", *litellm.openai_compatible_providers):
                imports.load("openai.resources.chat.completions")

    def _learn(self, litellm: Any) -> None:
        models = (self.model, *self.fallbacks)
        listed = {model: _listed_price(litellm, model) for model in models}
        self._listed = {model: price for model, price in listed.items() if price is not None}
        own = listed[self.model] or self.fallback_price
        # The given price is the judge's: with that of a free one a fallback would seem free.
        prices = [own, *(listed[model] for model in self.fallbacks)]
        known = [price for price in prices if price is not None]
        if len(known) == len(models):
            self.price = Price(
                input_usd=max(each.input_usd for each in known),
                output_usd=max(each.output_usd for each in known),
            )
        supported = _supported_parameters(litellm, self.model)
        self._parameters = {"temperature": 0}
        self._takes_forms = "response_format" in supported
        if _thinks(litellm, self.model):
            self._support.thinks = True
            if "reasoning_effort" in supported:
                self._parameters["reasoning_effort"] = "low"
        if self.api_key is None:
            self.api_key = self._key_of(self.model, self.api_base)

    def _forgoes(self, error: Exception, form: Form, sent: Mapping[str, Any]) -> bool:
        """Return whether a dispensable parameter made the call fail; it is not sent again."""
        # Where all of a chain failed, litellm raises an error of no status.
        if not self.fallbacks and getattr(error, "status_code", None) not in (400, 422):
            return False
        message = str(error).lower()
        refused = [
            name
            for name, signs in _REFUSABLE.items()
            if name in sent and any(sign in message for sign in signs)
        ]
        self._support.rejected.update(
            form if name == "response_format" else name for name in refused
        )
        return bool(refused)

    def _completion(self, response: Any, asked: _Asked, *, form: Form, calls: int) -> Completion:
        choice = response.choices[0] if getattr(response, "choices", None) else None
        message = getattr(choice, "message", None)
        text = getattr(message, "content", None) or ""
        is_cut = getattr(choice, "finish_reason", None) == "length"
        model = self._replying(response)
        completion = Completion(
            text=text,
            model=model,
            form=form,
            is_cut=is_cut,
            usage=self._counted(response, asked, calls, text, model),
        )
        if len(text) > asked.max_characters:
            raise ProviderError(
                f"a reply of {len(text):,} characters, where {asked.room:,} tokens were asked for",
                kind="refused",
                unread=completion,
            )
        if is_cut and ("<think>" in text or getattr(message, "reasoning_content", None)):
            self._support.thinks = True
        return completion

    def _replying(self, response: Any) -> str:
        hidden = getattr(response, "_hidden_params", None) or {}
        failed = (hidden.get("additional_headers") or {}).get("x-litellm-attempted-fallbacks", 0)
        return (self.model, *self.fallbacks)[int(failed)]

    def _counted(
        self, response: Any, asked: _Asked, calls: int, text: str, model: str
    ) -> JudgeUsage:
        """Return what the provider says that the reply took, as far as it can be so.

        A count below 0 would fill the budget up, one beyond all sense would empty it for good.
        """
        used = getattr(response, "usage", None)
        inputs, input_is_so = _count(getattr(used, "prompt_tokens", None), asked.max_inputs)
        max_outputs = asked.max_outputs + _n_bytes(text)
        outputs, output_is_so = _count(getattr(used, "completion_tokens", None), max_outputs)
        is_so = input_is_so and output_is_so
        if not is_so:
            record_problem(
                "judge",
                f"{self.model} counts tokens that its reply cannot have taken; counted as what it "
                "may have taken at most, or estimated",
            )
        return JudgeUsage(
            calls=calls,
            input_tokens=inputs,
            output_tokens=outputs,
            cost_usd=self._cost(response if is_so else None, model, inputs, outputs),
        )

    def _cost(self, response: Any, model: str, inputs: int, outputs: int) -> float:
        listed = self._listed.get(model)
        price = listed or self.fallback_price
        plain = 0.0 if price is None else price.of(inputs, outputs)
        if listed is not None and response is not None:
            # It knows of cached tokens and tiers.
            with contextlib.suppress(Exception), unheard():
                cost = float(
                    self._litellm.completion_cost(completion_response=response, model=model)
                )
                if 0 <= cost <= _MAX_PRICE_FACTOR * plain:
                    return cost
        return plain

    def _described(self, error: Exception) -> ProviderError:
        status = getattr(error, "status_code", None)
        names = {kind.__name__ for kind in type(error).__mro__}
        detail = f"{type(error).__name__}: {self._one_line(str(error))}"
        if names & {"APITimeoutError", "TimeoutError"} or status == 408:
            return ProviderError(detail, kind="timeout")
        if status in _TRANSIENT or "APIConnectionError" in names:
            return ProviderError(
                detail,
                kind="transient",
                retry_after_s=_retry_after_s(error),
                may_be_billed=_broke_off(error),
            )
        kind: Literal["refused", "permanent"] = (
            "refused" if status in _OF_THE_REQUEST else "permanent"
        )
        return ProviderError(detail, kind=kind)

    def _one_line(self, text: str) -> str:
        text = scrubbed(text, key=self.api_key, address=self.api_base)[:_MAX_ERROR_CHARACTERS]
        text = _PREFIXES.sub("", " ".join(text.split()), count=1)
        return text if len(text) <= _MAX_DETAIL_CHARACTERS else f"{text[:_MAX_DETAIL_CHARACTERS]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The most tokens and characters that one call can have taken."""

    messages: Sequence[Message]
    room: int
    """Tokens that the reply was given room for."""

    @property
    def max_characters(self) -> int:
        return longest_reply(self.room)

    @property
    def max_inputs(self) -> int:
        # No tokenizer makes more than one token of a byte.
        texts = (message["content"] for message in self.messages)
        return _FRAMING_TOKENS + sum(map(_n_bytes, texts))

    @property
    def max_outputs(self) -> int:
        return _FRAMING_TOKENS + _MAX_OVERRUN * self.room


def _n_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def longest_reply(room: int) -> int:
    """Return how many characters a reply may have that was given room for so many tokens."""
    return _FREE_CHARACTERS + _CHARACTERS_PER_TOKEN * room


def _count(value: object, max_count: int) -> tuple[int, bool]:
    """Return a provider's count as far as it can be so, and whether it can; 0: it says nothing."""
    if value is None:
        return 0, True
    # A bool is an int to Python, and no count to anybody.
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
        return 0, False
    return (int(value), True) if value <= max_count else (max_count, False)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Call litellm without logs or callbacks of the application's.

    Marked as its own call, in versions that know such, it leaves its logging worker alone. There
    is one for the whole process, bound to the application's loop: each call from ours would move
    it here and leave the application's pending callbacks without a loop.
    """
    internal: Any = sys.modules.get("litellm._internal_context")
    mark: Any = getattr(internal, "is_internal_call", None)
    token = None if mark is None else mark.set(True)
    try:
        with silenced(LOGGERS):
            yield
    finally:
        if token is not None:
            mark.reset(token)


def _listed_price(litellm: Any, model: str) -> Price | None:
    try:
        # Few tokens: some prices rise with the length of the prompt.
        inputs, outputs = litellm.cost_per_token(
            model=model, prompt_tokens=1000, completion_tokens=1000
        )
    except Exception:  # noqa: BLE001 - it raises many kinds for a model it does not know
        return None
    return Price(input_usd=inputs / 1000, output_usd=outputs / 1000)


def _supported_parameters(litellm: Any, model: str) -> frozenset[str]:
    try:
        return frozenset(litellm.get_supported_openai_params(model=model) or ())
    except Exception:  # noqa: BLE001 - for a model it cannot place
        return frozenset()


def _thinks(litellm: Any, model: str) -> bool:
    try:
        return bool(litellm.supports_reasoning(model=model))
    except Exception:  # noqa: BLE001 - for a model it cannot place
        return False


def _lacks_key(litellm: Any, model: str) -> bool:
    try:
        environment = litellm.validate_environment(model=model)
    except Exception:  # noqa: BLE001 - for a model it cannot place
        return False
    return bool(environment.get("missing_keys"))


def _broke_off(error: BaseException | None) -> bool:
    """Return whether a reply had begun when the connection ended.

    A connection that was never made, or that ended without a reply, is another error.
    """
    while error is not None:
        kind = type(error)
        if (
            kind.__name__ == "ClientPayloadError"  # aiohttp's
            or (kind.__name__ == "ReadError" and kind.__module__.startswith("httpcore"))
            or (kind.__name__ == "RemoteProtocolError" and "complete message body" in str(error))
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def _retry_after_s(error: Exception) -> float | None:
    """Return the seconds of a `Retry-After` header, in either of its forms; None: there is none."""
    for headers in (
        getattr(getattr(error, "response", None), "headers", None),
        getattr(error, "litellm_response_headers", None),
        getattr(error, "headers", None),
    ):
        value = headers.get("retry-after") if headers is not None else None
        if value is None:
            continue
        with contextlib.suppress(ValueError):
            return max(0.0, float(value))
        with contextlib.suppress(ValueError, TypeError):
            return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    return None
