"""Calls a model, and its fallbacks, or a model of embeddings through litellm as it is.

What a model refuses (a form of reply, a parameter) is left out from then on. litellm takes seconds
to import: it is imported on first use, in a thread, and whatever we want of it is said per call.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, Protocol

from ragmonitor.judges.judge_prompts import Prompt
from ragmonitor.judges.scrubbing import one_line_of
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import Cause, JudgeUsage
from ragmonitor.runtime.apart import apart, run
from ragmonitor.runtime.errors import JudgeError, MissingExtraError
from ragmonitor.runtime.guard import silenced
from ragmonitor.runtime.prices import Price, litellm_entry, litellm_price

LOGGERS: Final = ("LiteLLM", "LiteLLM Router", "httpx", "openai._base_client")
"""The loggers that tell of each call with its texts, and of each failure in several lines."""
_OF_THE_REQUEST: Final = frozenset({400, 413, 422})
"""Status codes of a provider that works and will not process this request."""
_TRANSIENT: Final = frozenset({409, 425, 429, 500, 502, 503, 504, 529})
_MAX_TOKENS: Final = 1_000_000
"""A provider that counts more for one call is not believed."""
_THINKING_TOKENS: Final = 4096
"""Room for a model's thoughts, in tokens; they count as output."""
_MAX_REPLY_BYTES: Final = 4_000_000
"""A reply that says that it is longer is not read."""

Kind = Literal["timeout", "transient", "permanent", "refused", "filtered", "down"]
"""`transient`: the same call may succeed soon; `permanent`: no call will; `refused`: this one
will not, others may; `filtered`: so too, by the model or its provider because of what the texts
say; `down`: it was not made."""
_CAUSES: Final[Mapping[str, Cause]] = {
    "timeout": Cause.JUDGE_TIMEOUT,
    "down": Cause.JUDGE_DOWN,
    "filtered": Cause.JUDGE_REFUSED,
}

_ONE_CALL: Final = JudgeUsage(calls=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply."""

    text: str
    model: str
    """Who replied: the model that was asked, or one of its fallbacks."""
    is_cut: bool
    """The provider stopped at the room that it was given."""
    usage: JudgeUsage


class ProviderError(JudgeError):
    """A call gave no reply."""

    retry_after_s: float | None = None
    """When the provider wants to be asked again, if it said so."""
    may_be_billed = False
    """The provider may have read the prompt and begun to reply, and told nobody how many tokens
    that took."""

    def __init__(
        self, judge: str, problem: str, *, kind: Kind, usage: JudgeUsage = _ONE_CALL
    ) -> None:
        super().__init__(
            judge,
            problem,
            cause=_CAUSES.get(kind, Cause.JUDGE_ERROR),
            retryable=kind in ("timeout", "transient", "down"),
            usage=usage,
        )
        self.kind = kind


class Completer(Protocol):
    """Replies to prompts: a model behind litellm, or a function, which needs no loading."""

    price: Price | None = None
    """None: unknown."""
    thinking_tokens: int = 0
    """The tokens of a reply beyond the room that is asked for."""

    async def load(self) -> None:
        """Make ready, without blocking the loop. Raises `MissingExtraError`."""
        return  # for mypy, which would find it abstract

    async def close(self) -> None:
        """Close the connections of the running loop."""
        return

    async def complete(self, prompt: Prompt, *, max_tokens: int) -> Completion:
        """Return the reply to one call. `load` first. Raises `ProviderError`.

        Args:
            prompt: Its messages.
            max_tokens: Room for the reply, without a model's thoughts.
        """
        ...


def charged(
    prompt: Prompt, outputs: float, price: Price | None, usage: JudgeUsage = _ONE_CALL
) -> JudgeUsage:
    """Return what a call cost; what its provider does not count is estimated.

    Args:
        prompt: What was sent.
        outputs: The tokens of the reply, estimated.
        price: None: it costs nothing, or nobody knows what.
        usage: The calls, and the tokens that were counted.
    """
    inputs = usage.input_tokens or round(prompt_tokens(prompt))
    outputs = usage.output_tokens or round(outputs)
    cost_usd = 0.0 if price is None else price.of(inputs, outputs)
    return replace(usage, input_tokens=inputs, output_tokens=outputs, cost_usd=cost_usd)


def prompt_tokens(prompt: Prompt) -> float:
    """Return an upper estimate of the tokens of a prompt."""
    return sum(estimate_tokens(message["content"]) for message in prompt)


class Provider(Completer):
    """Calls one model, or where it fails its fallbacks in turn.

    The chain is walked here: litellm's own raises, where all of it failed, an error without status
    and `Retry-After`.
    """

    def __init__(
        self,
        model: str,
        *,
        timeout_s: float = 15.0,
        api_base: str | None = None,
        api_key: str | None = None,
        fallbacks: Mapping[str, str | None] | None = None,
        given_price: Price | None = None,
    ) -> None:
        """Import and call nothing yet.

        Args:
            model: The name by which litellm knows it: `openai/gpt-4o-mini`.
            timeout_s: For one call, over all its fallbacks.
            api_base: The address of an OpenAI-compatible server.
            api_key: The provider's; None: litellm finds it in the environment.
            fallbacks: Models with the addresses of their servers; None: litellm knows it.
            given_price: Taken where litellm knows no price of the model itself.
        """
        self.model = model
        self._timeout_s = timeout_s
        self._api_key = api_key
        self._chain = {model: api_base, **(fallbacks or {})}
        self._prices = {name: litellm_price(name) for name in self._chain}
        # The given price is the judge's: with that of a free one a fallback would seem free.
        self._prices[model] = self._prices[model] or given_price
        prices = [price for price in self._prices.values() if price is not None]
        if len(prices) == len(self._prices):
            # The highest of the models that may reply; unknown of one, it is unknown.
            self.price = Price(*map(max, zip(*prices, strict=True)))
        if litellm_entry(model).get("supports_reasoning"):
            self.thinking_tokens = _THINKING_TOKENS
        self._litellm: Any = None
        self._refused: dict[str, set[str]] = {name: set() for name in self._chain}

    async def load(self) -> None:
        """Import litellm, without blocking the loop.

        Raises:
            MissingExtraError: litellm is not installed.
        """
        if self._litellm is None:
            await apart(self._load)

    def _load(self) -> None:
        try:
            litellm: Any = import_module("litellm")
        except ImportError as error:
            if error.name is not None and error.name.partition(".")[0] != "litellm":
                raise
            raise MissingExtraError("litellm", "litellm") from error
        litellm.suppress_debug_info = True  # else each failure prints a request for help
        _watch(litellm)
        self._litellm = litellm

    async def complete(self, prompt: Prompt, *, max_tokens: int) -> Completion:
        """Return the reply of the model, or of the first fallback that gives one.

        Raises:
            ProviderError: There is none; the judge's own failure says what to do next.
        """
        room, messages = max_tokens + self.thinking_tokens, [dict(message) for message in prompt]
        spent, failures = JudgeUsage(), list[ProviderError]()
        for model in self._chain:
            try:
                response, calls = await self._call(
                    "acompletion", model, room, messages=messages, num_retries=0, max_retries=0
                )
                completion = self._completion(response, model, prompt, calls)
            except ProviderError as error:
                error.usage = spent = spent + error.usage
                failures.append(error)
                if error.kind in ("timeout", "filtered"):
                    raise  # it was billed, or there is no time left
            else:
                return replace(completion, usage=spent + completion.usage)
        problem = "; ".join(failure.problem for failure in failures)
        failed = ProviderError(self.model, problem, kind=failures[0].kind, usage=spent)
        failed.retry_after_s = failures[0].retry_after_s
        failed.may_be_billed = any(failure.may_be_billed for failure in failures)
        raise failed

    async def _call(
        self, name: str, model: str, room: int | None, **arguments: Any
    ) -> tuple[Any, int]:
        """Return what one of litellm's functions returns, and how many calls that took.

        Args:
            name: Of the function.
            model: That is asked.
            room: Tokens of the reply; None: it is no text.
            arguments: Others of the function.

        Raises:
            ProviderError: It fails, and would without the options that the model may refuse.
        """
        calls = 0
        while True:
            calls += 1
            options = {} if room is None else self._options(model, room)
            with _ours() as heard:
                try:
                    response = await getattr(self._litellm, name)(
                        model=model,
                        **self._address(model),
                        # Later than ours, so that ours decides; and always the same, since litellm
                        # keeps one connection pool for each value.
                        timeout=self._timeout_s + 1.0,
                        caching=False,
                        # Where the application has litellm log, our calls are none of its own.
                        metadata={"ragmonitor": False},
                        **{"no-log": True, "drop_params": True},
                        **options,
                        **arguments,
                    )
                    return response, calls
                except Exception as error:  # noqa: BLE001 - whatever litellm raises
                    if not self._forgoes(model, error, options):
                        # Not `from error`: it may quote the key, and logs show it.
                        raise self._described(error, heard, calls) from None

    async def close(self) -> None:
        """Close the connections that were opened on the running loop, before it ends."""
        clients: Any = getattr(self._litellm, "in_memory_llm_clients_cache", None)
        of_this_loop = f"-{id(asyncio.get_running_loop())}"
        for key in [*getattr(clients, "cache_dict", {})]:
            if key.endswith(of_this_loop):
                client = clients.cache_dict[key]
                clients.delete_cache(key)
                with contextlib.suppress(Exception):
                    await client.close()

    def _address(self, model: str) -> dict[str, Any]:
        api_base = self._chain[model]
        key = self._api_key if model == self.model else None
        if key is None and api_base is not None:
            with contextlib.suppress(Exception):  # of a model that it cannot place
                if self._litellm.validate_environment(model=model).get("missing_keys"):
                    key = "none"  # local servers want no key; the client library wants some
        return {"api_base": api_base, "api_key": key}

    def _options(self, model: str, room: int) -> dict[str, Any]:
        refused = self._refused[model]
        room_name = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        options: dict[str, Any] = {room_name: room, "temperature": 0}
        options["response_format"] = {"type": "json_object"}
        if self.thinking_tokens:
            options["reasoning_effort"] = "low"
        return {name: value for name, value in options.items() if name not in refused}

    def _forgoes(self, model: str, error: Exception, sent: Mapping[str, Any]) -> bool:
        """Return whether an option that was sent made the call fail; it is not sent again."""
        if getattr(error, "status_code", None) not in (400, 422):
            return False
        message = str(error).lower().replace(" ", "_")
        refused = {name for name in sent if name in message}
        if "json_object" in message or "json_mode" in message:
            refused |= {"response_format"} & sent.keys()
        self._refused[model] |= refused
        return bool(refused)

    def _completion(self, response: Any, model: str, prompt: Prompt, calls: int) -> Completion:
        choice = response.choices[0] if getattr(response, "choices", None) else None
        message = getattr(choice, "message", None)
        finish = getattr(choice, "finish_reason", None)
        thoughts = getattr(message, "reasoning_content", None) or ""
        text = getattr(message, "content", None) or ""
        is_cut = finish == "length"
        if is_cut and ("<think>" in text or thoughts):
            self.thinking_tokens = _THINKING_TOKENS
        elif not text:
            text = thoughts  # a server that takes all of a reply for its thoughts
        used = getattr(response, "usage", None)
        counted = JudgeUsage(
            calls=calls,
            input_tokens=_count(getattr(used, "prompt_tokens", None)),
            output_tokens=_count(getattr(used, "completion_tokens", None)),
        )
        usage = charged(prompt, estimate_tokens(text), self._prices[model], counted)
        # The words of a model that refuses, in OpenAI's own field.
        extra = getattr(message, "provider_specific_fields", None) or {}
        refusal = getattr(message, "refusal", None) or extra.get("refusal")
        is_refused = isinstance(refusal, str) and refusal
        if finish == "content_filter" or is_refused:
            problem = "the provider filtered the reply (content_filter)"
            if is_refused:
                problem = f"the model refused (refusal): {one_line_of(refusal, key=self._api_key)}"
            raise ProviderError(self.model, problem, kind="filtered", usage=usage)
        return Completion(text=text, model=model, is_cut=is_cut, usage=usage)

    def _described(self, error: Exception, heard: _Heard, calls: int) -> ProviderError:
        status = getattr(error, "status_code", None)
        names = {kind.__name__ for kind in type(error).__mro__}
        detail = f"{type(error).__name__}: {one_line_of(error, key=self._api_key)}"
        kind: Kind = "refused" if status in _OF_THE_REQUEST else "permanent"
        if heard.refused:
            detail, kind = heard.refused, "permanent"
        elif names & {"APITimeoutError", "TimeoutError"} or status == 408:
            kind = "timeout"
        elif status in _TRANSIENT or "APIConnectionError" in names:
            kind = "transient"
        described = ProviderError(self.model, detail, kind=kind, usage=JudgeUsage(calls=calls))
        described.retry_after_s = heard.retry_after_s
        # It was too slow, broke off within its reply, or that is not read: the prompt was.
        described.may_be_billed = kind == "timeout" or heard.has_begun
        return described


class LitellmEmbedding(Provider):
    """Embeds texts by a model as litellm names it: `openai/text-embedding-3-small`.

    It makes one call for all the texts of one score. No budget counts what it costs.
    """

    def __call__(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Return one vector per text, in order; shape (n_texts, n_dimensions). Waits for it.

        Raises:
            JudgeError: There is none.
            MissingExtraError: litellm is not installed.
        """
        # A thread and a loop of its own: this may be called on a loop, and litellm's blocking call
        # leaves a loop and a connection open behind it.
        return run(self._embed(list(texts)))

    async def _embed(self, texts: list[str]) -> list[Sequence[float]]:
        await self.load()
        try:
            async with asyncio.timeout(self._timeout_s):
                response, _ = await self._call(
                    "aembedding", self.model, None, input=texts, max_retries=1
                )
        except TimeoutError:
            late = f"no vectors within {self._timeout_s:.3g} s"
            raise ProviderError(self.model, late, kind="timeout") from None
        finally:
            await self.close()
        rows = sorted(response.data, key=lambda row: int(row["index"]))
        if len(rows) != len(texts):
            problem = f"{len(rows)} vectors for {len(texts)} texts"
            raise ProviderError(self.model, problem, kind="permanent")
        return [row["embedding"] for row in rows]


class RefusedReplyError(Exception):
    """A reply was not read: it sends the request elsewhere, or is too long."""


@dataclass(slots=True)
class _Heard:
    """What has come of one call."""

    has_begun: bool = False
    """The head of a reply has come that tells of no error."""
    refused: str = ""
    """Why the reply is not read."""
    retry_after_s: float | None = None
    """When the provider wants to be asked again, if it said so, and in seconds."""


_heard: ContextVar[_Heard | None] = ContextVar("ragmonitor_heard", default=None)
"""Of the call under way; None: it is none of ours."""


async def _look_at(response: Any) -> None:
    """Refuse a reply to a call of ours that goes elsewhere, or is too long, before it is read."""
    heard = _heard.get()
    if heard is None:
        return
    heard.has_begun = response.status_code < 400
    with contextlib.suppress(ValueError):
        heard.retry_after_s = max(0.0, float(response.headers.get("retry-after", "")))
    length = response.headers.get("content-length", "")
    if 300 <= response.status_code < 400:
        heard.refused = f"the server redirects ({response.status_code}); this is not followed"
    elif length.isdecimal() and int(length) > _MAX_REPLY_BYTES:
        heard.refused = f"a reply of {int(length):,} bytes is not read"
    if heard.refused:
        raise RefusedReplyError(heard.refused)


@cache
def _watch(litellm: Any) -> None:
    """Have all HTTP clients of litellm, also those that it makes later, show us the replies.

    It makes them for each provider in another way, follows redirects with all of them, and keeps
    them all in one cache before it uses them.
    """
    clients = litellm.in_memory_llm_clients_cache
    keep = clients.set_cache

    def set_cache(key: str, value: Any, **options: Any) -> Any:
        _show(value)
        return keep(key, value, **options)

    for value in [*clients.cache_dict.values()]:
        _show(value)
    clients.set_cache = set_cache


def _show(client: Any) -> None:
    http: Any = getattr(client, "client", None) or getattr(client, "_client", None)
    if hasattr(http, "event_hooks") and hasattr(http, "aclose"):
        hooks = http.event_hooks
        if _look_at not in hooks["response"]:
            hooks["response"].append(_look_at)
        if hasattr(client, "event_hooks"):  # of the client that it makes to ask once more
            client.event_hooks = hooks


def _count(value: object) -> int:
    """Return a provider's count of tokens; 0: it says nothing that can be."""
    return value if type(value) is int and 0 < value <= _MAX_TOKENS else 0


@contextlib.contextmanager
def _ours() -> Iterator[_Heard]:
    """Call litellm without logs and callbacks of the application's; yields what is heard of it.

    Its logging worker is one for the process, bound to the application's loop: a call that is not
    marked as litellm's own would move it here, and the application's pending callbacks be lost.
    """
    internal: Any = sys.modules.get("litellm._internal_context")
    mark: Any = getattr(internal, "is_internal_call", None)
    token = None if mark is None else mark.set(True)
    heard = _Heard()
    ours = _heard.set(heard)
    try:
        with silenced(LOGGERS):
            yield heard
    finally:
        _heard.reset(ours)
        if token is not None:
            mark.reset(token)
