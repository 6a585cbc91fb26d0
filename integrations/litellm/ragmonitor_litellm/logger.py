"""The logger that litellm calls, and how it comes to be called.

litellm tells of a call before the request, in the caller's thread or task, and after it on a thread
of its own (synchronous calls and streams) or in a task of the application's event loop
(asynchronous ones). Everything here reports references to the recorder and returns; `calls.py`
reads them behind the request path.

Each request is a call of its own: a router's, or the library's, next try is another one. Of a call
that is cancelled, or whose stream is closed early, litellm tells no end; it is given up in time.
"""

# ruff: noqa: ARG002 - litellm's signatures

from __future__ import annotations

import time
import uuid
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal

import litellm
from litellm.integrations.custom_logger import CustomLogger

from ragmonitor import Monitor
from ragmonitor.integration import ForkSafeLock, Recorder, error_text, record_error, shielded
from ragmonitor_litellm.calls import Call, LiteLLMTranslator, metadata_of, reply_in
from ragmonitor_litellm.extracting import METADATA_KEY, Extractor

REDACTED: Final = "redacted-by-litellm"
"""litellm puts this in the place of texts that its callbacks must not see."""

MAX_DRAIN_S: Final = 1.0
"""litellm tells of a call a moment after it has returned; a flush waits that long for it."""

KEPT_INFO: Final[tuple[str, ...]] = (
    "custom_llm_provider",
    "litellm_call_id",
    "litellm_params",
    "model",
    "optional_params",
    "user",
)
"""The keys of litellm's dict that are kept for extractors, beside `metadata`. The whole of it also
holds the request as it was sent and the reply as it came."""

_CHATS = frozenset({"completion", "acompletion"})
_UNSEEN: Any = object()
_capture = shielded("capture")


class RagMonitorLogger(CustomLogger):
    """Observes the calls that litellm tells it of.

    `instrument` is the usual way to get one. In the proxy, `callbacks` names an instance of it.
    """

    def __init__(self, monitor: Monitor | None = None, *, extract: Extractor | None = None) -> None:
        """Begin to listen as soon as litellm is given it.

        Args:
            monitor: Where interactions go; None: one that is built now from the settings
                (`RAGMONITOR_*`, `ragmonitor.toml`). Where these are wrong the log says so, and
                nothing is observed.
            extract: Reads question and chunks out of a call that says nothing in its metadata.
        """
        super().__init__()
        self.extract = extract
        self.is_on = True
        # Also what tells two of them apart: litellm adds a logger only if no other one of the same
        # class has the same plain attributes.
        self.key = f"ragmonitor-{id(self):x}"
        self.monitor: Monitor | None = None
        self._recorder: Recorder  # if it is on
        try:
            # Now, and not with the first call: that one waits on the proxy's event loop.
            self.monitor = Monitor() if monitor is None else monitor
            self._recorder = self.monitor.recorder(LiteLLMTranslator(), drain_s=MAX_DRAIN_S)
        except Exception as error:  # noqa: BLE001 - the application runs on without us
            self.is_on = False
            record_error("start", error)

    # --- what litellm calls ---------------------------------------------------------------------

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None:
        """Note that a request is about to leave; in the caller's own thread or task."""
        with _capture:
            earlier = kwargs.get(self.key, _UNSEEN)
            if earlier is _UNSEEN or (earlier and self._recorder.run(earlier.run_id) is None):
                self._begin(kwargs, messages)

    def log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Note the reply; on a thread of litellm's."""
        self._end(kwargs, start_time, end_time, response_obj)

    async def async_log_success_event(self, *event: Any, **named: Any) -> None:
        """Note the reply; in a task of the application's loop."""
        self.log_success_event(*event, **named)

    def log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        """Note a failure; in the caller's thread."""
        # Text only: an exception holds its frames, and with them the whole request.
        self._end(kwargs, start_time, end_time, error=error_text(kwargs.get("exception")))

    async def async_log_failure_event(self, *event: Any, **named: Any) -> None:
        """Note a failure; in the caller's task."""
        self.log_failure_event(*event, **named)

    # --- what it notes --------------------------------------------------------------------------

    def _begin(self, kwargs: dict[str, Any], messages: Any, start_time: Any = None) -> Call | None:
        if not self.is_on or kwargs.get("call_type") not in _CHATS:
            return None
        kwargs[self.key] = None  # of no concern to us, unless the contrary is found
        params = kwargs.get("litellm_params") or {}
        # What must not be logged, must not be by us either.
        if litellm.turn_off_message_logging or (
            params.get("no-log") and not getattr(litellm, "global_disable_no_log_param", False)
        ):
            return None
        metadata, recorder = metadata_of(params), self._recorder
        is_in_scope, own = recorder.scope() is not None, metadata.get(METADATA_KEY)
        if own is False or (own is None and not is_in_scope and self.extract is None):
            return None
        call = Call(
            run_id=uuid.uuid4().hex,
            # Copied: applications append to the list, and some put the next context into the same
            # message. The texts themselves nobody can change.
            messages=tuple(dict(m) if type(m) is dict else m for m in messages or ()),
            info={name: kwargs[name] for name in KEPT_INFO if name in kwargs}
            | {"metadata": metadata},
            extract=self.extract,
            is_in_scope=is_in_scope,
        )
        at_ns, retrieval = _nanoseconds(start_time), (call.run_id, "retrieval")
        recorder.started(call.run_id, None, "chain", "", None, call, asked=True, at_ns=at_ns)
        if recorder.run(call.run_id) is None:
            return None  # instrumentation is suppressed: a judge's own call is no traffic
        # What was retrieved stands in the call: a retrieval that took no time.
        recorder.started(retrieval, call.run_id, "retriever", "", None, call, at_ns=at_ns)
        recorder.ended(retrieval, at_ns=at_ns)
        model = call.run_id, "request"
        recorder.started(model, call.run_id, "model", "", call, call, at_ns=at_ns)
        kwargs[self.key] = call
        return call

    def _end(
        self,
        kwargs: dict[str, Any],
        start_time: Any,
        end_time: Any,
        response: Any = None,
        *,
        error: str = "",
    ) -> None:
        with _capture:
            call: Call | None = kwargs.get(self.key, _UNSEEN)
            if call is _UNSEEN:  # out of a cache: no request was about to leave
                call = self._begin(kwargs, kwargs.get("messages"), start_time)
            if call is None:
                return
            is_cached = kwargs.get("cache_hit") is True
            reply = None if error else reply_in(response, is_cached=is_cached)
            is_streamed = kwargs.get("stream") and not (error or is_cached)
            began = kwargs.get("completion_start_time") if is_streamed else None
            status: Literal["ok", "error"] = "error" if error else "ok"
            at_ns, first_ns = _nanoseconds(end_time), _nanoseconds(began) if began else 0
            end = partial(self._recorder.ended, status=status, error=error, at_ns=at_ns)
            end((call.run_id, "request"), reply, first_piece_ns=first_ns)
            is_told = error or call.is_in_scope or (reply and reply.is_answer)
            if not (self.is_on and is_told) or (reply and reply.text == REDACTED):
                # Its texts must not be seen, or it asked for a tool.
                self._recorder.forget(call.run_id)
            else:
                end(call.run_id, reply)


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
        known = (
            each for each in (*_made, *litellm.callbacks) if isinstance(each, RagMonitorLogger)
        )
        logger = next((each for each in known if each.monitor is monitor), None)
        if logger is None:
            logger = RagMonitorLogger(monitor)
            _made.append(logger)
        logger.extract = extract
        if not any(each is logger for each in litellm.callbacks):
            litellm.callbacks.append(logger)
        return logger


def uninstrument() -> None:
    """Stop observing; calls that are under way are not recorded."""
    with _lock, shielded("start"):
        # litellm copies what stands in the first list into the others at the next call.
        events = ("input_callback", "success_callback", "failure_callback")
        for logger in _made:
            logger.is_on = False
            for name in ("callbacks", *events, *(f"_async_{event}" for event in events)):
                if isinstance(listed := getattr(litellm, name, None), list):
                    listed[:] = [each for each in listed if each is not logger]
        _made.clear()


_lock = ForkSafeLock()
_made: list[RagMonitorLogger] = []
"""By `instrument`; others the application takes off."""


def _nanoseconds(moment: Any) -> int:
    """Return litellm's time, which is local and has no zone: as a distance from now."""
    now_ns = time.time_ns()
    if not isinstance(moment, datetime):
        return now_ns
    now = datetime.now(moment.tzinfo)
    return now_ns - max(0, int((now - moment).total_seconds() * 1e9))
