"""Calls a model, and its fallbacks, through litellm as it is.

What a model refuses (a form of reply, a parameter) is left out from then on. litellm takes seconds
to import: it is imported on first use, in a thread, and whatever we want of it is said per call.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal, Protocol

from ragmonitor.judges.judge_prompts import Prompt
from ragmonitor.judges.scrubbing import scrubbed
from ragmonitor.records import Cause, JudgeUsage
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.errors import MissingExtraError, RagMonitorError
from ragmonitor.runtime.guard import silenced

LOGGERS: Final = ("LiteLLM", "LiteLLM Router", "httpx", "openai._base_client")
"""The loggers that tell of each call with its texts, and of each failure in several lines."""
_OF_THE_REQUEST: Final = frozenset({400, 413, 422})
"""Status codes of a provider that works and will not process this request."""
_BROKE_OFF: Final = ("ClientPayloadError", "ReadError", "RemoteProtocolError")
_TRANSIENT: Final = frozenset({409, 425, 429, 500, 502, 503, 504, 529})
_MAX_DETAIL_CHARACTERS: Final = 240
_MAX_TOKENS: Final = 1_000_000
"""A provider that counts more for one call is not believed."""
_THINKING_TOKENS: Final = 4096
"""Room for a model's thoughts, in tokens; they count as output."""
_MAX_REPLY_BYTES: Final = 4_000_000
"""A reply that says that it is longer is not read."""
_sessions: Final[dict[asyncio.AbstractEventLoop, Any]] = {}
"""Connections by event loop, for all models."""


class RefusedReplyError(Exception):
    """A reply was not read: it sends the request elsewhere, or is too long."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model's tokens, in US dollars per token."""

    input_usd: float
    output_usd: float

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Return the cost in US dollars."""
        return input_tokens * self.input_usd + output_tokens * self.output_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply."""

    text: str
    model: str
    """Who replied: the model that was asked, or one of its fallbacks."""
    is_cut: bool
    """The provider stopped at the room that it was given."""
    usage: JudgeUsage


class ProviderError(RagMonitorError):
    """A call gave no reply."""

    def __init__(
        self,
        detail: str,
        *,
        kind: Literal["timeout", "transient", "permanent", "refused", "filtered", "down"],
        retry_after_s: float | None = None,
        may_be_billed: bool = False,
        unread: Completion | None = None,
    ) -> None:
        """Describe one failed call.

        Args:
            detail: What happened, in one line, without keys.
            kind: `transient`: the same call may succeed soon; `permanent`: no call will;
                `refused`: this one will not, others may; `filtered`: so too, by the model or its
                provider because of what the texts say; `down`: it was not made.
            retry_after_s: When the provider wants to be asked again, if it said so.
            may_be_billed: The provider may have read the prompt and begun to reply, and told
                nobody how many tokens that took. A timeout always may be.
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
        causes: dict[str, Cause] = {
            "timeout": Cause.JUDGE_TIMEOUT,
            "down": Cause.JUDGE_DOWN,
            "filtered": Cause.JUDGE_REFUSED,
        }
        return causes.get(self.kind, Cause.JUDGE_ERROR)


class Completer(Protocol):
    """Replies to prompts: a model behind litellm, or a function, which needs no loading."""

    price: Price | None = None
    """None: unknown, or not loaded yet."""
    thinking_tokens: int = 0
    """The tokens of a reply beyond the room that is asked for."""
    is_loaded: bool = True
    """Whether it can reply, and the price is known if it ever will be."""

    async def load(self) -> None:
        """Make ready, without blocking the loop. Raises `MissingExtraError`."""
        return  # for mypy, which would find it abstract

    async def close(self) -> None:
        """Close the connections of the running loop."""
        return

    async def complete(self, prompt: Prompt, *, max_tokens: int, within_s: float) -> Completion:
        """Return the reply to one call. `load` first. Raises `ProviderError`."""
        ...


class Provider(Completer):
    """Calls one model, or where it fails its fallbacks in turn.

    The chain is walked here: litellm's own raises, where all of it failed, an error without status
    and `Retry-After`.
    """

    def __init__(
        self,
        model: str,
        *,
        timeout_s: float,
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
        self._api_base = api_base
        self._chain = {model: api_base, **(fallbacks or {})}
        self._given_price = given_price
        self._prices: dict[str, Price | None] = {}
        self.is_loaded = False
        self._litellm: Any = None
        self._refused: dict[str, set[str]] = {name: set() for name in self._chain}

    async def load(self) -> None:
        """Import litellm and learn the prices, without blocking the loop.

        Raises:
            MissingExtraError: litellm is not installed.
        """
        if not self.is_loaded:
            await apart(self._load)

    def _load(self) -> None:
        try:
            litellm: Any = import_module("litellm")
        except ImportError as error:
            if error.name is not None and error.name.partition(".")[0] != "litellm":
                raise
            raise MissingExtraError("litellm", "litellm") from error
        litellm.suppress_debug_info = True  # else each failure prints a request for help
        self._prices = {model: _listed_price(litellm, model) for model in self._chain}
        # The given price is the judge's: with that of a free one a fallback would seem free.
        self._prices[self.model] = self._prices[self.model] or self._given_price
        prices = [price for price in self._prices.values() if price is not None]
        if len(prices) == len(self._prices):
            # The highest of the models that may reply; unknown of one, it is unknown.
            self.price = Price(
                input_usd=max(each.input_usd for each in prices),
                output_usd=max(each.output_usd for each in prices),
            )
        with contextlib.suppress(Exception):  # a model that it cannot place
            if litellm.supports_reasoning(model=self.model):
                self.thinking_tokens = _THINKING_TOKENS
        self._litellm, self.is_loaded = litellm, True

    async def complete(self, prompt: Prompt, *, max_tokens: int, within_s: float) -> Completion:
        """Return the model's reply to one call. `load` first.

        Args:
            prompt: Its messages.
            max_tokens: Room for the reply, without a model's thoughts.
            within_s: Time for the call, where that is less than its own limit.

        Raises:
            ProviderError: There is none.
        """
        within_s = min(within_s, self._timeout_s)
        failures: list[ProviderError] = []
        try:
            async with asyncio.timeout(within_s):
                for model in self._chain:
                    try:
                        return await self._ask(model, prompt, max_tokens, 1 + len(failures))
                    except ProviderError as error:
                        if error.unread is not None or error.kind == "timeout":
                            raise  # it was billed, or there is no time left
                        failures.append(error)
        except TimeoutError:
            raise ProviderError(f"no reply within {within_s:.3g} s", kind="timeout") from None
        # The judge's own failure says what to do next.
        raise ProviderError(
            "; ".join(map(str, failures)),
            kind=failures[0].kind,
            retry_after_s=failures[0].retry_after_s,
            may_be_billed=any(failure.may_be_billed for failure in failures),
        )

    async def _ask(self, model: str, prompt: Prompt, max_tokens: int, calls: int) -> Completion:
        room = max_tokens + self.thinking_tokens
        while True:
            options = self._options(model, room)
            try:
                with _unheard():
                    response = await self._litellm.acompletion(
                        model=model,
                        messages=[dict(message) for message in prompt],
                        **self._address(model),
                        shared_session=await session_of(self._litellm),
                        # Later than ours, so that ours decides; and always the same, since litellm
                        # keeps one connection pool for each value.
                        timeout=self._timeout_s + 1.0,
                        num_retries=0,
                        max_retries=0,
                        drop_params=True,
                        caching=False,
                        # Where the application has litellm log, our calls are none of its own.
                        metadata={"ragmonitor": False},
                        **{"no-log": True},
                        **options,
                    )
            except Exception as error:  # noqa: BLE001 - whatever litellm raises
                if self._forgoes(model, error, options):
                    calls += 1
                    continue
                # Not `from error`: what litellm raises may quote the key, and logs show it.
                raise self._described(error) from None
            return self._completion(response, model, calls)

    async def close(self) -> None:
        """Close the connections that were opened on the running loop, before it ends."""
        session = _sessions.pop(asyncio.get_running_loop(), None)
        for client in _forget_clients(self._litellm):
            with contextlib.suppress(Exception):
                await client.close()
        if session is not None:
            await session.close()

    def _address(self, model: str) -> dict[str, Any]:
        api_base = self._chain[model]
        key = self._api_key if model == self.model else None
        if key is None and api_base is not None and _lacks_key(self._litellm, model):
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

    def _completion(self, response: Any, model: str, calls: int) -> Completion:
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
        inputs = _count(getattr(used, "prompt_tokens", None))
        outputs = _count(getattr(used, "completion_tokens", None))
        price = self._prices[model]
        usage = JudgeUsage(
            calls=calls,
            input_tokens=inputs,
            output_tokens=outputs,
            cost_usd=0.0 if price is None else price.of(inputs, outputs),
        )
        completion = Completion(text=text, model=model, is_cut=is_cut, usage=usage)
        refusal = _refusal(message)
        if finish == "content_filter" or refusal:
            problem = f"the model refused (refusal): {self._one_line(refusal)}"
            if not refusal:
                problem = "the provider filtered the reply (content_filter)"
            raise ProviderError(problem, kind="filtered", unread=completion)
        return completion

    def _described(self, error: Exception) -> ProviderError:
        status = getattr(error, "status_code", None)
        names = {kind.__name__ for kind in type(error).__mro__}
        detail = f"{type(error).__name__}: {self._one_line(str(error))}"
        causes = [*_causes(error)]
        for cause in causes:
            if isinstance(cause, RefusedReplyError):
                return ProviderError(str(cause), kind="permanent", may_be_billed=True)
        if names & {"APITimeoutError", "TimeoutError"} or status == 408:
            return ProviderError(detail, kind="timeout")
        if status in _TRANSIENT or "APIConnectionError" in names:
            return ProviderError(
                detail,
                kind="transient",
                retry_after_s=_retry_after_s(error),
                # It broke off after the request was sent: the provider has read the prompt.
                may_be_billed=any(type(cause).__name__ in _BROKE_OFF for cause in causes),
            )
        return ProviderError(detail, kind="refused" if status in _OF_THE_REQUEST else "permanent")

    def _one_line(self, text: str) -> str:
        text = " ".join(scrubbed(text, key=self._api_key, address=self._api_base).split())
        return text if len(text) <= _MAX_DETAIL_CHARACTERS else f"{text[:_MAX_DETAIL_CHARACTERS]}…"


async def session_of(litellm: Any) -> Any:
    """Return the connections of the running loop, which follow no redirect.

    litellm hands them to its aiohttp transport, its default. What it keeps for this loop it
    forgets first: it would go on with connections of its own.
    """
    loop = asyncio.get_running_loop()
    if loop not in _sessions:
        await _close_leftovers()
        _forget_clients(litellm)
        aiohttp: Any = import_module("aiohttp")
        _sessions[loop] = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), raise_for_status=_check_reply
        )
    return _sessions[loop]


async def _close_leftovers() -> None:
    """Close the connections of loops that ended without `close`: aiohttp would complain of them."""
    for loop in [*_sessions]:
        # Another thread's loop may look at the same time.
        if loop.is_closed() and (session := _sessions.pop(loop, None)) is not None:
            await session.close()


@atexit.register
def _close_at_exit() -> None:
    if _sessions:
        asyncio.run(_close_leftovers())


async def _check_reply(response: Any) -> None:
    if 300 <= response.status < 400:
        raise RefusedReplyError(f"the server redirects ({response.status}); this is not followed")
    if (response.content_length or 0) > _MAX_REPLY_BYTES:
        raise RefusedReplyError(f"a reply of {response.content_length:,} bytes is not read")


def _forget_clients(litellm: Any) -> list[Any]:
    """Return the clients that litellm keeps for the running loop, by its id, out of its cache."""
    pool: Any = getattr(litellm, "in_memory_llm_clients_cache", None)
    clients: dict[str, Any] = getattr(pool, "cache_dict", {})
    keys = [key for key in clients if key.endswith(f"-{id(asyncio.get_running_loop())}")]
    forgotten = [clients[key] for key in keys]
    for key in keys:
        pool.delete_cache(key)
    return forgotten


def _refusal(message: Any) -> str:
    """Return the words of a model that refuses in OpenAI's own field; empty: it does not."""
    extra = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or extra.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _count(value: object) -> int:
    """Return a provider's count of tokens; 0: it says nothing that can be."""
    return value if type(value) is int and 0 < value <= _MAX_TOKENS else 0


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Call litellm without logs and callbacks of the application's.

    Its logging worker is one for the process, bound to the application's loop: a call that is not
    marked as litellm's own would move it here, and the application's pending callbacks be lost.
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


def _lacks_key(litellm: Any, model: str) -> bool:
    try:
        return bool(litellm.validate_environment(model=model).get("missing_keys"))
    except Exception:  # noqa: BLE001 - for a model it cannot place
        return False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, and what it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _retry_after_s(error: Exception) -> float | None:
    """Return the seconds of a `Retry-After` header; None: there is none, or it names a date."""
    for headers in (
        getattr(getattr(error, "response", None), "headers", None),
        getattr(error, "litellm_response_headers", None),
    ):
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            return max(0.0, float(headers.get("retry-after")))  # type: ignore[union-attr]
    return None
