"""The logger that litellm calls, and how it comes to be called.

litellm tells of a call in several places: before the request in the caller's thread or task, after
it on a thread of its own (synchronous calls and streams) or in a task of the application's event
loop (asynchronous ones). Everything here notes references and returns; `calls.py` reads them behind
the request path.

What belongs to one call is tied together by litellm itself: every hook is given the same dict, and
a token of ours lies in it. litellm tells nothing when a stream is closed early, when a call is
cancelled, or when it gives up trying again; but it lets go of the dict then, and so of the token.
"""

# ruff: noqa: ARG002 - litellm's signatures

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import litellm
from litellm.integrations.custom_logger import CustomLogger
from opentelemetry import context, trace

from ragmonitor import Monitor, RagMonitorError, error_text, record_error, shielded
from ragmonitor_litellm.calls import (
    REDACTED,
    Attempt,
    Call,
    FinishedCall,
    Reply,
    Status,
    first_marked,
    metadata_of,
    reply_in,
)

if TYPE_CHECKING:
    from ragmonitor_litellm.extracting import Extractor

RETRY_WAIT_MOST_S: Final = 65.0
"""litellm waits for up to 60 s before it tries again; a failure that is older is final."""
SETTLE_MOST_S: Final = 1.0
"""litellm tells of a call a moment after it has returned; a flush waits that long for it."""
FAILED_MOST: Final = 10_000

TOLD: Final[tuple[str, ...]] = (
    "call_type",
    "custom_llm_provider",
    "litellm_call_id",
    "litellm_params",
    "litellm_trace_id",
    "model",
    "optional_params",
    "stream",
    "user",
)
"""What of litellm's dict is kept for extractors, and `metadata`. The whole of it also holds the
request as it was sent and the reply as it came."""

_CHATS = frozenset({"completion", "acompletion"})
_RETRIES = ("attempted_retries", "attempted_fallbacks", "previous_models")
_SUPPRESSED = "suppress_instrumentation"
_STAGE = "capture"
_UNSEEN: Any = object()


class _Token:
    """Lies in litellm's dict of a call; when it goes, nothing more will be heard of the call."""

    __slots__ = ("_gone", "call")

    def __init__(self, call: Call, gone: Callable[[Call], None]) -> None:
        self.call = call
        self._gone = gone

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> _Token:
        return self  # a copy that goes earlier than the call must not end it

    __copy__ = __deepcopy__

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Anywhere: garbage is collected in whatever code happens to run, and at the very end there
        # are no globals left to look at.
        if not is_finalizing():
            self._gone(self.call)


class RagMonitorLogger(CustomLogger):
    """Observes the calls that litellm tells it of.

    `instrument` is the usual way to get one. In the proxy, `callbacks` names an instance of it.
    """

    def __init__(self, monitor: Monitor | None = None, *, extract: Extractor | None = None) -> None:
        """Begin to listen as soon as litellm is given it.

        Args:
            monitor: Where interactions go; None: one that is built from the settings
                (`RAGMONITOR_*`, `ragmonitor.toml`) when the first call is seen.
            extract: Reads question and chunks out of a call that says nothing in its metadata.
        """
        super().__init__()
        self.extract = extract
        self.is_on = True
        # Also what tells two of them apart: litellm adds a logger only if no other one of the same
        # class has the same plain attributes.
        self.key = f"ragmonitor-{id(self):x}"
        self._monitor: Monitor | None = None
        self._building = threading.Lock()
        self._open: dict[int, Call] = {}
        self._failed: dict[int, Call] = {}
        """Failed, and litellm may try again; oldest first."""
        self._failed_in: dict[str, dict[int, Call]] = {}
        """The same, by litellm's trace id."""
        if monitor is not None:
            self._report_to(monitor)

    def _report_to(self, monitor: Monitor) -> None:
        self._monitor = monitor
        monitor.register_source(self)

    # --- what litellm calls ---------------------------------------------------------------------

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None:
        """Note that a request is about to leave; in the caller's own thread or task."""
        try:
            token = kwargs.get(self.key, _UNSEEN)
            if token is _UNSEEN:
                self._begin(kwargs, messages)
            elif token is not None and token.call.ticket:
                self._try_again(token.call)
            elif token is not None and token.call.is_gathered:
                self._begin(kwargs, messages)  # in a block each try is a model call of its own
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error(_STAGE, error)

    def log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Note the reply; on a thread of litellm's."""
        self._succeeded(kwargs, response_obj, start_time, end_time)

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Note the reply; in a task of the application's loop."""
        self._succeeded(kwargs, response_obj, start_time, end_time)

    def log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Note a failure; in the caller's thread."""
        self._failure(kwargs, start_time, end_time)

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Note a failure; in the caller's task."""
        self._failure(kwargs, start_time, end_time)

    async def async_post_call_failure_hook(
        self,
        request_data: Any,
        original_exception: Any,
        user_api_key_dict: Any,
        traceback_str: Any = None,
    ) -> None:
        """Take a failure as final: the proxy is about to tell its client."""
        try:
            call_id = request_data.get("litellm_call_id")
            for call in (*self._failed.copy().values(), *self._open.copy().values()):
                if call_id is not None and call.told.get("litellm_call_id") == call_id:
                    if not call.error:  # litellm tells only of a call's first failure
                        call.error = error_text(original_exception)
                        call.ended_ns = time.time_ns()
                    self._end(call, "error", None)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error(_STAGE, error)

    # --- beginnings -----------------------------------------------------------------------------

    def _begin(self, kwargs: dict[str, Any], messages: Any, start_time: Any = None) -> Call | None:
        if not self.is_on or kwargs.get("call_type") not in _CHATS:
            return None
        kwargs[self.key] = None  # of no concern to us, unless the contrary is found
        params = kwargs.get("litellm_params") or {}
        current = context.get_current()
        # A judge's own call is no traffic. What must not be logged, must not be by us either.
        if (current and context.get_value(_SUPPRESSED, current)) or (
            params.get("no-log") and not getattr(litellm, "global_disable_no_log_param", False)
        ):
            return None
        monitor = self._monitor or self._build()
        if monitor is None:
            return None
        metadata = metadata_of(params)
        said = first_marked(metadata)
        if said is False:
            return None
        part = object()
        block = monitor.joined(part)
        if block is None and said is None and self.extract is None:
            return None
        now_ns = time.time_ns()
        began_ns = _nanoseconds(start_time, now_ns)
        told: dict[str, Any] = {name: kwargs[name] for name in TOLD if name in kwargs}
        told["metadata"] = next((each for each in metadata if isinstance(each, Mapping)), {})
        span = trace.get_current_span(current).get_span_context() if current else None
        is_redacted = bool(getattr(litellm, "turn_off_message_logging", False))
        call = Call(
            # Copied: applications append to the list, and some put the next context into the same
            # message. The texts themselves nobody can change.
            messages=()
            if is_redacted or not isinstance(messages, list)
            else tuple(dict(m) if type(m) is dict else m for m in messages),
            told=told,
            extract=self.extract,
            caller=span if span is not None and span.is_valid else None,
            trace_id=kwargs.get("litellm_trace_id") or "",
            model=kwargs.get("model") or "",
            provider=_provider(kwargs, params),
            started_ns=began_ns,
            began_ns=began_ns,
            streams=bool(kwargs.get("stream")),
            is_redacted=is_redacted,
            block=None if block is None else (block, part),
            is_gathered=block is not None,
            is_routed=any("model_group" in each for each in metadata if isinstance(each, Mapping)),
        )
        if block is None and any(each.get(name) for each in metadata if each for name in _RETRIES):
            self._go_on_with(call)
        if len(self._open) >= monitor.settings.capture.max_open_runs:
            oldest = _first(self._open)
            if oldest is not None:
                monitor.dropped("too_many_open")
                self._abandon(oldest)
        self._open[id(call)] = call
        kwargs[self.key] = _Token(call, self._gone)
        return call

    def _build(self) -> Monitor | None:
        with self._building:
            if self._monitor is None and self.is_on:
                try:
                    self._report_to(Monitor())
                except RagMonitorError as error:
                    self.is_on = False  # said once, and the application runs on without us
                    record_error("start", error)
            return self._monitor

    def _try_again(self, call: Call) -> None:
        """Note that litellm tries the same call again."""
        if call.error:
            self._forget_failure(call)
            call.attempts.append(_attempt(call))
            call.error = ""
        call.began_ns = time.time_ns()
        self._open[id(call)] = call

    def _go_on_with(self, call: Call) -> None:
        """Note that a router tries again: a call of its own, which goes on with one that failed."""
        failed = list(self._failed_in.get(call.trace_id, {}).copy().values())
        if not failed:
            return
        # Several calls of one trace may have failed; a fallback may have messages of its own.
        earlier = next((c for c in failed if c.messages == call.messages), failed[0])
        self._forget_failure(earlier)
        if earlier.ends():
            call.id = earlier.id
            call.started_ns = earlier.started_ns
            call.caller = earlier.caller
            call.attempts = [*earlier.attempts, _attempt(earlier)]
            call.was_seen = earlier.was_seen

    # --- ends -----------------------------------------------------------------------------------

    def _succeeded(self, kwargs: Any, response: Any, start_time: Any, end_time: Any) -> None:
        try:
            token = kwargs.get(self.key, _UNSEEN)
            if token is None:
                return
            if token is _UNSEEN:
                # Out of a cache: no request was about to leave.
                messages = kwargs.get("messages")
                call = self._begin(kwargs, messages, start_time)
            else:
                call = token.call
            if call is None:
                return
            reply = reply_in(response, call.model)
            if reply is not None and call.is_redacted:
                reply = Reply(
                    text=REDACTED, is_answer=reply.is_answer, model=reply.model, usage=reply.usage
                )
            call.ended_ns = max(_nanoseconds(end_time, time.time_ns()), call.began_ns)
            self._end(call, "ok", reply, cached=kwargs.get("cache_hit") is True)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error(_STAGE, error)

    def _failure(self, kwargs: Any, start_time: Any, end_time: Any) -> None:
        try:
            token = kwargs.get(self.key, _UNSEEN)
            if token is None:
                return
            if token is _UNSEEN:
                call = self._begin(kwargs, kwargs.get("messages"), start_time)
            else:
                call = token.call
            if call is None or not call.ticket:
                return
            failure = kwargs.get("exception")
            # Text only: an exception holds its frames, and with them the whole request.
            call.error = error_text(failure)
            call.ended_ns = max(_nanoseconds(end_time, time.time_ns()), call.began_ns)
            if call.streams and kwargs.get("completion_start_time") is not None:
                call.was_seen = True
            if call.block is not None:
                self._end(call, "error", None)
                return
            self._hold(call)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error(_STAGE, error)

    def _hold(self, call: Call) -> None:
        """Keep a call that has failed, for as long as litellm may try again."""
        self._open.pop(id(call), None)
        if len(self._failed) >= FAILED_MOST and (oldest := _first(self._failed)) is not None:
            self._end(oldest, "error", None)
        self._failed[id(call)] = call
        self._failed_in.setdefault(call.trace_id, {})[id(call)] = call

    def _gone(self, call: Call) -> None:
        """Take what is known of a call of which nothing more will be heard."""
        try:
            if not call.ticket:
                return
            if not self.is_on or (
                call.streams and getattr(litellm, "disable_streaming_logging", False)
            ):
                self._give_up(call)
            elif not call.is_routed or not (call.error or call.attempts):
                self._abandon(call)
            elif not call.error:
                self._fail_as_before(call)
                self._hold(call)  # a router lets go of one try and goes on with the next
        except Exception as error:  # noqa: BLE001 - nobody could catch it here
            record_error(_STAGE, error)

    def _abandon(self, call: Call) -> None:
        """End a call of which litellm tells nothing more."""
        if not call.error:
            self._fail_as_before(call)
        status: Status = "partial" if call.streams else "cancelled"
        self._end(call, "error" if call.error else status, None)

    @staticmethod
    def _fail_as_before(call: Call) -> None:
        """End a call; if it has failed before, it did so again: litellm tells that only once."""
        call.ended_ns = time.time_ns()
        if call.attempts:
            call.error = call.attempts.pop().error

    def _end(
        self, call: Call, status: Status, reply: Reply | None, *, cached: bool = False
    ) -> None:
        self._forget_failure(call)
        self._open.pop(id(call), None)
        if not call.ends() or self._monitor is None:
            return
        finished = FinishedCall(call, status, reply, cached=cached)
        if call.block is not None:
            (block, part), call.block = call.block, None
            block.leaves(part, finished)
        elif status != "ok" or (reply is not None and reply.is_answer):
            self._monitor.take(finished)

    def _give_up(self, call: Call) -> None:
        self._forget_failure(call)
        self._open.pop(id(call), None)
        if call.ends() and call.block is not None:
            (block, part), call.block = call.block, None
            block.leaves(part)

    def _forget_failure(self, call: Call) -> None:
        if self._failed.pop(id(call), None) is not None:
            others = self._failed_in.get(call.trace_id, {})
            others.pop(id(call), None)
            if not others:
                self._failed_in.pop(call.trace_id, None)

    # --- what the monitor calls -----------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many calls are open, or have failed and may be tried again."""
        return len(self._open) + len(self._failed)

    def __bool__(self) -> bool:
        """Return True: an idle logger is a logger."""
        return True

    def sweep(self) -> None:
        """Take failures as final that litellm has not followed up, and give up what is too old."""
        now_ns = time.time_ns()
        for call in self._failed.copy().values():
            if call.ended_ns < now_ns - int(RETRY_WAIT_MOST_S * 1e9):
                self._end(call, "error", None)
        age_s = self._monitor.settings.capture.open_run_age_s if self._monitor is not None else 0.0
        for call in self._open.copy().values():
            if call.began_ns < now_ns - int(age_s * 1e9):
                self._abandon(call)

    def settle(self, timeout_s: float) -> None:
        """Wait for calls that litellm is about to tell of; take every failure as final."""
        deadline = time.monotonic() + min(timeout_s, SETTLE_MOST_S)
        while self._open and time.monotonic() < deadline:
            time.sleep(0.005)
        for call in self._failed.copy().values():
            self._end(call, "error", None)

    def clear(self) -> None:
        """Forget every open call; for a forked child, whose parent keeps them."""
        self._failed.clear()
        self._failed_in.clear()
        self._open.clear()


def instrument(monitor: Monitor, *, extract: Extractor | None = None) -> RagMonitorLogger:
    """Observe every chat completion of this process from now on; return the logger.

    Nothing is patched: the logger is added to `litellm.callbacks`, once per monitor. Called again
    for the same monitor, it changes the extractor.

    Args:
        monitor: Where interactions go.
        extract: Reads question and chunks out of a call: `tagged`, `from_template`,
            `tool_messages`, or your own. None: only calls are observed that say them in their
            metadata, and those within a `monitor.interaction` block.
    """
    with _lock:
        logger = _loggers.get(id(monitor))
        if logger is None:
            logger = _loggers[id(monitor)] = RagMonitorLogger(monitor)
        logger.extract = extract
        logger.is_on = True
        if not any(each is logger for each in litellm.callbacks):
            litellm.callbacks.append(logger)
        return logger


def uninstrument() -> None:
    """Stop observing; calls that are under way are not recorded."""
    with _lock:
        for logger in tuple(_loggers.values()):
            with shielded("start"):
                _remove(logger)


def _remove(logger: RagMonitorLogger) -> None:
    logger.settle(0.0)
    logger.is_on = False
    for name in (
        "callbacks",
        "input_callback",
        "success_callback",
        "failure_callback",
        "_async_input_callback",
        "_async_success_callback",
        "_async_failure_callback",
    ):
        # litellm copies a callback into each of its lists at the next call. In place: others hold
        # the lists too.
        listed = getattr(litellm, name, None)
        if isinstance(listed, list):
            listed[:] = [each for each in listed if each is not logger]


_lock = threading.Lock()
_loggers: WeakValueDictionary[int, RagMonitorLogger] = WeakValueDictionary()
"""By the monitor's id. A logger holds its monitor, so no id here can have been used again."""


def _first(calls: Mapping[int, Call]) -> Call | None:
    try:
        return next(iter(calls.values()), None)
    except RuntimeError:  # another thread began a call meanwhile; the next one tries again
        return None


def _attempt(call: Call) -> Attempt:
    return Attempt(
        model=call.model,
        provider=call.provider,
        started_ns=call.began_ns,
        ended_ns=call.ended_ns or call.began_ns,
        error=call.error,
    )


def _provider(kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> str:
    return kwargs.get("custom_llm_provider") or params.get("custom_llm_provider") or ""


def _nanoseconds(moment: Any, now_ns: int) -> int:
    """Return litellm's time, which is local and has no zone: as a distance from now."""
    if not isinstance(moment, datetime):
        return now_ns
    now = datetime.now(moment.tzinfo)
    return now_ns - max(0, int((now - moment).total_seconds() * 1e9))
