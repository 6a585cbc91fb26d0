"""Providers of spans and log events: the application's, else our own, else none."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, Literal

from opentelemetry import _logs, trace

from ragmonitor.export.batcher import Batcher, DeliveryError, Limits, Lost
from ragmonitor.export.content import Content, package_version
from ragmonitor.runtime import apart
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import MissingExtraError
from ragmonitor.runtime.guard import logger, shielded, silenced
from ragmonitor.semconv.conventions import OI_PROJECT_NAME, OTEL_SERVICE_VERSION, SCOPE

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

Signal = Literal["TRACES", "LOGS"]

CLOSE_TIMEOUT_S: Final = 5.0
LOOK_AGAIN_S: Final = 10.0
"""Seconds between two checks for a collector at the default address."""
CONNECT_S: Final = 0.25
LIMITS: Final = Limits(max_items=4_096, max_bytes=32 * 2**20, max_batch_items=256)

_EXPORTERS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
"""The entry point of OpenTelemetry's own exporter, by protocol."""


def otlp_protocol(signal: Signal) -> str | None:
    """Return the OTLP protocol that the environment sets for this signal; None: it sets none.

    The only reader of `OTEL_*`, by the rules of
    https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/: an empty
    variable is an unset one. Addresses, headers and so on are read by the OTLP exporters.
    """
    exporters = _variable(f"{signal}_EXPORTER")
    if _variable("SDK_DISABLED").lower() == "true" or not otlp_address(signal):
        return None
    if exporters and not any(name.strip().startswith("otlp") for name in exporters.split(",")):
        return None
    return _protocol(signal)


def otlp_address(signal: Signal) -> str:
    """Return the address that the environment sets for this signal; empty: none."""
    return _variable(f"EXPORTER_OTLP_{signal}_ENDPOINT") or _variable("EXPORTER_OTLP_ENDPOINT")


def _protocol(signal: Signal) -> str:
    return (
        _variable(f"EXPORTER_OTLP_{signal}_PROTOCOL")
        or _variable("EXPORTER_OTLP_PROTOCOL")
        or "http/protobuf"
    )


def captured_content(signal: Signal) -> Content:
    """Return whether OpenTelemetry's own setting wants texts in spans, or in log events.

    By the GenAI conventions: `SPAN_ONLY`, `EVENT_ONLY`, `SPAN_AND_EVENT`, or `true` as it was.
    """
    wanted = _variable("INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").upper()
    word = "SPAN" if signal == "TRACES" else "EVENT"
    return "all" if wanted == "TRUE" or word in wanted.split("_") else "none"


def _variable(name: str) -> str:
    return os.environ.get(f"OTEL_{name}", "").strip()


class _Source:
    """Finds the provider of one signal: the application's, else our own.

    Our own is built at the first look that finds none; the SDK is not imported before.
    """

    def __init__(self, signal: Signal, given: Any, build: Callable[[Any], Any]) -> None:
        self.signal: Signal = signal
        self.own: Any = None
        self.outbox: _Outbox | None = None
        self._given = given
        self._build = build
        self._has_looked = False
        self._looked_s, self._listens, self._has_warned = -math.inf, False, False

    def applications(self) -> Any:
        """Return the application's provider; None: it has set none."""
        is_traces = self.signal == "TRACES"
        current = trace.get_tracer_provider if is_traces else _logs.get_logger_provider
        provider = self._given or current()
        # By name: the API keeps the type that stands in for an unset logger provider to itself.
        is_placeholder = type(provider).__name__.startswith(("Proxy", "NoOp"))
        return None if is_placeholder else provider

    def provider(self, lost: Lost | None) -> Any:
        """Return the provider; None: there is nowhere to send."""
        provider = self.applications()
        if provider is not None:
            return provider if self._given or self._has_collector() else None
        if not self._has_looked:
            try:
                exporter = _exporter(self.signal)
                if exporter is not None:
                    self.outbox = _Outbox(exporter, lost)
                    self.own = self._build(self.outbox)
            finally:
                # Not before: a child that is forked meanwhile would believe that there is none.
                self._has_looked = True
        return self.own

    def _has_collector(self) -> bool:
        """Return whether a collector listens, or the environment names an address.

        `opentelemetry-instrument` exports by OTLP where the environment sets nothing. Without a
        collector its exporters retry for ten seconds at the application's exit, with an error for
        each try, for spans that are ours alone.
        """
        names = [name.strip() for name in _variable(f"{self.signal}_EXPORTER").split(",")]
        if otlp_address(self.signal) or not all(name.startswith("otlp") for name in names):
            return True
        if time.monotonic() - self._looked_s < LOOK_AGAIN_S:
            return self._listens
        self._looked_s = time.monotonic()
        port = 4317 if _protocol(self.signal) == "grpc" else 4318
        try:
            with socket.create_connection(("localhost", port), timeout=CONNECT_S):
                self._listens = True
        except OSError:
            self._listens = False
        if not (self._listens or self._has_warned):
            self._has_warned = True
            logger.warning(
                "ragmonitor: no collector listens at localhost:%d, so no %s are sent until one "
                "does; set OTEL_EXPORTER_OTLP_ENDPOINT to its address, or OTEL_%s_EXPORTER to none",
                *(port, self.signal.lower(), self.signal),
            )
        return self._listens


class SpanIds:
    """Makes the ids of our own provider's spans: random ones, or the same ones again.

    What a process may emit that takes another's work over is emitted under the same ids: a backend
    then has it once.
    """

    def __init__(self) -> None:
        self._of, self._n = "", 0

    def begin(self, of: str) -> None:
        """Derive the next ids from a name, in turn; empty: make them random."""
        self._of, self._n = of, 0

    def generate_span_id(self) -> int:
        """Return 8 bytes that are not all 0."""
        return self._next(8)

    def generate_trace_id(self) -> int:
        """Return 16 bytes that are not all 0."""
        return self._next(16)

    def is_trace_id_random(self) -> bool:
        """Return True: a sampler may go by them."""
        return True

    def _next(self, size: int) -> int:
        self._n += 1
        named = hashlib.blake2b(f"{self._of} {self._n}".encode(), digest_size=size).digest()
        return int.from_bytes(named if self._of else secrets.token_bytes(size), "big") or 1


class Providers:
    """Finds the provider of each signal at every emission: applications may set theirs at any time.

    Called from one thread.
    """

    def __init__(
        self,
        service: str,
        *,
        version: str = "",
        tracer_provider: trace.TracerProvider | None = None,
        logger_provider: _logs.LoggerProvider | None = None,
        lost: Lost | None = None,
    ) -> None:
        """Look for none yet.

        Args:
            service: `service.name` of our own, unless `OTEL_*` variables name another.
            version: `service.version`, likewise; empty: none.
            tracer_provider: Instead of the application's global one.
            logger_provider: Instead of the application's global one.
            lost: Counts spans and log events that our own providers could not deliver, by reason,
                from any thread. Of the application's providers nobody knows.
        """
        resource = partial(_resource, service, version)
        self.ids = SpanIds()
        """The ids of spans of our own provider; an application's provider makes its own."""
        self._lost = lost
        self._tracer: tuple[trace.TracerProvider, trace.Tracer] | None = None
        """The last one, and the provider that it is of."""
        self._traces = _Source("TRACES", tracer_provider, partial(_tracers, resource, self.ids))
        self._logs = _Source("LOGS", logger_provider, partial(_loggers, resource))

    def tracer(self) -> trace.Tracer | None:
        """Return the tracer; None: there is nowhere to send traces."""
        provider: trace.TracerProvider | None = self._traces.provider(self._lost)
        if provider is None:
            return None
        if self._tracer is None or self._tracer[0] is not provider:
            self._tracer = provider, provider.get_tracer(SCOPE, package_version())
        return self._tracer[1]

    def logger(self) -> _logs.Logger | None:
        """Return the logger; None: there is nowhere to send log events."""
        provider: _logs.LoggerProvider | None = self._logs.provider(self._lost)
        return None if provider is None else provider.get_logger(SCOPE, package_version())

    @property
    def is_applications(self) -> bool:
        """Whether the application has set a provider, of traces or of log events."""
        return any(each.applications() is not None for each in (self._traces, self._logs))

    def destination(self) -> str:
        """Say where traces go, without secrets; empty: nowhere."""
        if self._traces.applications() is not None:
            return "the application's tracer provider"
        return "" if otlp_protocol("TRACES") is None else shown(otlp_address("TRACES"))

    def flush(self, timeout_s: float) -> bool:
        """Send what the providers hold, the application's too; return whether all left in time."""
        deadline = time.monotonic() + timeout_s
        given = [each.applications() for each in (self._traces, self._logs)]
        # Only the SDK's providers know this method; those of other vendors may not.
        calls = [each.force_flush for each in given if hasattr(each, "force_flush")]
        flushed = True
        if calls:
            millis = max(1, int(timeout_s * 1000))
            flushed = within(timeout_s, lambda: min(call(millis) for call in calls))
        for each in (self._traces, self._logs):
            if each.outbox is not None:
                left_s = max(0.1, deadline - time.monotonic())
                flushed = each.outbox.batches.flush(left_s) and flushed
        return flushed

    def close(self) -> None:
        """Shut down what is ours; the application's providers stay as they are."""
        for each in (self._traces, self._logs):
            each.own, outbox = None, each.outbox
            if outbox is not None:
                outbox.batches.close()
                within(CLOSE_TIMEOUT_S, outbox.shutdown)
        self._tracer = None


class _Outbox:
    """An exporter that has a batcher send what it gets, by OpenTelemetry's own exporter.

    That one tries again itself. It logs each attempt and each batch, for as long as a collector is
    away; we say it once.
    """

    def __init__(self, exporter: Any, lost: Lost | None) -> None:
        self._exporter = exporter
        self.batches: Batcher[Any] = Batcher("OTLP", self._send, lost=lost, limits=LIMITS)

    def export(self, batch: Sequence[Any]) -> None:
        """Take spans or log records."""
        for each in batch:
            attributes = getattr(each, "log_record", each).attributes or {}
            self.batches.put(each, 256 + sum([_size(value) for value in attributes.values()]))

    def _send(self, batch: Sequence[Any], _timeout_s: float) -> None:
        known = [*logging.root.manager.loggerDict]
        theirs = [name for name in known if name.startswith("opentelemetry.exporter.otlp")]
        message = ""
        with silenced(theirs) as withheld:
            result = self._exporter.export(batch)
        if result.name != "SUCCESS":
            with contextlib.suppress(Exception):  # its arguments do not fit its text
                message = withheld[-1].getMessage().partition("\n")[0] if withheld else ""
            raise DeliveryError(
                f"OTLP: what is sent does not arrive ({message[:200]}); spans and events are lost "
                "until it does, counted as otlp_failed; see OTEL_EXPORTER_OTLP_ENDPOINT",
                why="failed",
            )

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what waits."""
        return self.batches.flush(timeout_millis / 1_000)

    def shutdown(self) -> None:
        """Count what still waits as lost, and end the exporter."""
        self.batches.close()
        self._exporter.shutdown()


def _size(value: Any) -> int:
    """Return about how many bytes an attribute takes."""
    return len(value) + 32 if isinstance(value, str) else 40


def _tracers(resource: Callable[[], Resource], ids: Any, outbox: Any) -> Any:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    # Ours to close, after what waits was sent: at the interpreter's exit the SDK would come first.
    provider = TracerProvider(resource=resource(), shutdown_on_exit=False, id_generator=ids)
    provider.add_span_processor(SimpleSpanProcessor(outbox))
    return provider


def _loggers(resource: Callable[[], Resource], outbox: Any) -> Any:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor

    provider = LoggerProvider(resource=resource(), shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(outbox))
    return provider


def _session() -> Any:
    """Return a session for the exporters by HTTP that follows no redirect: texts go along."""
    import requests

    class Session(requests.Session):
        def get_redirect_target(self, resp: requests.Response) -> None:
            if resp.is_redirect:
                resp.close()
                raise requests.TooManyRedirects("it has moved elsewhere")

    return Session()


def _exporter(signal: Signal) -> Any:
    protocol = otlp_protocol(signal)
    if protocol is None:
        return None
    if protocol not in _EXPORTERS:
        logger.error(
            "ragmonitor: OTLP protocol %r is not supported, %s are not exported; "
            "set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf or grpc",
            protocol,
            signal.lower(),
        )
        return None
    group = f"opentelemetry_{signal.lower()}_exporter"
    options = {"session": _session()} if protocol == "http/protobuf" else {}
    try:
        for entry in metadata.entry_points(group=group, name=_EXPORTERS[protocol]):
            return entry.load()(**options)
        raise MissingExtraError("the OTLP exporter for gRPC", "otlp-grpc")
    except (ImportError, MissingExtraError) as error:
        logger.error("ragmonitor: %s are not exported: %s", signal.lower(), error)
        return None


def _resource(service: str, version: str) -> Resource:
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource

    try:
        resource = Resource.create()
    except RuntimeError:  # the interpreter is going down: detectors run in threads
        resource = OTELResourceDetector().detect()
    own: dict[str, str] = {}
    named = str(resource.attributes.get(SERVICE_NAME, ""))
    if not named or named.startswith("unknown_service"):
        own[SERVICE_NAME] = named = service
    if OI_PROJECT_NAME not in resource.attributes:
        own[OI_PROJECT_NAME] = named
    if version and OTEL_SERVICE_VERSION not in resource.attributes:
        own[OTEL_SERVICE_VERSION] = version
    return resource.merge(Resource(own))


def within(timeout_s: float, call: Callable[[], object]) -> bool:
    """Return the call's result; False if it fails or is late.

    The SDK's own `force_flush` takes a timeout and does not keep it (1.45).
    """
    answers: list[bool] = []

    def answer() -> None:
        with shielded("export"):
            answers.append(bool(call()))

    with shielded("export"):
        apart.within(timeout_s, answer)
    return bool(answers and answers[0])
