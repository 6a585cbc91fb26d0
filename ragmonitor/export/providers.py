"""Providers of spans and log events: the application's, else our own, else none."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry import _logs, trace

from ragmonitor import apart
from ragmonitor.addresses import shown
from ragmonitor.conventions import OI_PROJECT_NAME, OTEL_SERVICE_VERSION, SCOPE
from ragmonitor.errors import MissingExtraError
from ragmonitor.export.content import package_version
from ragmonitor.guard import logger, record_problem, shielded, silenced

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import LoggerProvider as SdkLoggerProvider
    from opentelemetry.sdk._logs import ReadWriteLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

Signal = Literal["TRACES", "LOGS"]
Lost = Callable[[str, int], None]
"""Takes why spans or log events were lost (`otlp_failed`) and how many."""

CLOSE_TIMEOUT_S = 5.0
HOPELESS_TIMEOUT_S = 0.3
"""For closing after a flush that was not done in its time: the collector does not answer."""
LOOK_AGAIN_S = 10.0
"""Seconds between two checks for a collector at the default address."""
CONNECT_S = 0.25

_EXPORTERS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
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


def default_port(signal: Signal) -> int | None:
    """Return the local port at which OTLP expects a collector by default.

    `opentelemetry-instrument` exports by OTLP where the environment sets nothing. None: the
    environment names an address, or does not ask for OTLP and nothing else.
    """
    names = [name.strip() for name in _variable(f"{signal}_EXPORTER").split(",")]
    if otlp_address(signal) or not all(name.startswith("otlp") for name in names):
        return None
    return 4317 if _protocol(signal) == "grpc" else 4318


def otlp_address(signal: Signal) -> str:
    """Return the address that the environment sets for this signal; empty: none."""
    return _variable(f"EXPORTER_OTLP_{signal}_ENDPOINT") or _variable("EXPORTER_OTLP_ENDPOINT")


def _protocol(signal: Signal) -> str:
    return (
        _variable(f"EXPORTER_OTLP_{signal}_PROTOCOL")
        or _variable("EXPORTER_OTLP_PROTOCOL")
        or "http/protobuf"
    )


def _variable(name: str) -> str:
    return os.environ.get(f"OTEL_{name}", "").strip()


class _Collector:
    """Finds out whether a collector listens at the default address.

    Where there is none, OpenTelemetry's exporters retry for ten seconds at the application's exit,
    with an error for each try, for spans that are ours alone.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[float, bool]] = {}
        self._has_warned = False

    def takes(self, signal: Signal) -> bool:
        """Return whether a collector listens, or the environment names an address."""
        port = default_port(signal)
        if port is None:
            return True
        at_s, is_there = self._found.get(port, (-math.inf, False))
        if time.monotonic() - at_s >= LOOK_AGAIN_S:
            is_there = _listens(port)
            self._found[port] = (time.monotonic(), is_there)
        if not is_there and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "ragmonitor: no collector listens at localhost:%d, so no traces are sent until one "
                "does; set OTEL_EXPORTER_OTLP_ENDPOINT to its address, or OTEL_TRACES_EXPORTER and "
                "OTEL_LOGS_EXPORTER to none",
                port,
            )
        return is_there


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("localhost", port), timeout=CONNECT_S):
            return True
    except OSError:
        return False


@dataclass(slots=True)
class _Source:
    """Finds the provider of one signal: the application's, else our own.

    Our own is built at the first look that finds none; the SDK is not imported before.
    """

    signal: Signal
    given: Any
    build: Callable[[Any], Any]
    """From an exporter to a provider of our own."""
    collector: _Collector
    has_looked: bool = False
    own: Any = None

    def applications(self) -> Any:
        """Return the application's provider; None: it has set none."""
        is_traces = self.signal == "TRACES"
        current = trace.get_tracer_provider if is_traces else _logs.get_logger_provider
        provider = self.given or current()
        return None if _is_placeholder(provider) else provider

    def provider(self) -> Any:
        """Return the provider; None: there is nowhere to send."""
        provider = self.applications()
        if provider is not None:
            return provider if self.given or self.collector.takes(self.signal) else None
        if not self.has_looked:
            try:
                exporter = _exporter(self.signal)
                self.own = None if exporter is None else self.build(exporter)
            finally:
                # Not before: a child that is forked meanwhile would believe that there is none.
                self.has_looked = True
        return self.own


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
        collector = _Collector()
        resource = partial(_resource, service, version)
        deliveries = partial(self._delivering, lost or _uncounted)
        self.ids = SpanIds()
        """The ids of spans of our own provider; an application's provider makes its own."""
        tracers = partial(_tracers, resource, deliveries, self.ids)
        loggers = partial(_loggers, resource, deliveries)
        self._tracer: tuple[trace.TracerProvider, trace.Tracer] | None = None
        """The last one, and the provider that it is of."""
        self._deliveries: list[_Deliveries] = []
        self._flushes = True
        """Whether the last flush sent everything in time."""
        self._traces = _Source("TRACES", tracer_provider, tracers, collector)
        self._logs = _Source("LOGS", logger_provider, loggers, collector)

    def _delivering(self, lost: Lost, exporter: Any, batching: str) -> Any:
        self._deliveries.append(_Deliveries(exporter, lost, batching=batching))
        return self._deliveries[-1]

    def tracer(self) -> trace.Tracer | None:
        """Return the tracer; None: there is nowhere to send traces."""
        provider: trace.TracerProvider | None = self._traces.provider()
        if provider is None:
            return None
        if self._tracer is None or self._tracer[0] is not provider:
            self._tracer = provider, provider.get_tracer(SCOPE, package_version())
        return self._tracer[1]

    def logger(self) -> _logs.Logger | None:
        """Return the logger; None: there is nowhere to send log events."""
        provider: _logs.LoggerProvider | None = self._logs.provider()
        return None if provider is None else provider.get_logger(SCOPE, package_version())

    @property
    def is_applications(self) -> bool:
        """Whether the application has set a provider, of traces or of log events."""
        return any(each.applications() is not None for each in (self._traces, self._logs))

    def destination(self) -> str:
        """Say where traces go, without secrets."""
        if self._traces.applications() is not None:
            return "the application's tracer provider"
        if otlp_protocol("TRACES") is None:
            return "nowhere (set OTEL_EXPORTER_OTLP_ENDPOINT)"
        return shown(otlp_address("TRACES"))

    def flush(self, timeout_s: float) -> bool:
        """Send what the providers hold, the application's too; return whether all left in time."""
        sources = (self._traces, self._logs)
        providers = [source.applications() for source in sources] + [each.own for each in sources]
        # Only the SDK's providers know this method; those of other vendors may not.
        calls: list[Callable[[int], bool]] = [
            provider.force_flush for provider in providers if hasattr(provider, "force_flush")
        ]
        millis = max(1, int(timeout_s * 1000))

        def flush_each() -> bool:
            flushed = [call(millis) for call in calls]
            return all(flushed)

        self._flushes = not calls or within(timeout_s, flush_each)
        return self._flushes

    def close(self) -> None:
        """Shut down what is ours; the application's providers stay as they are."""
        owned = [each.own for each in (self._traces, self._logs) if each.own is not None]
        self._traces.own = self._logs.own = self._tracer = None

        def shut_down() -> bool:
            for provider in owned:
                provider.shutdown()
            return True

        if owned:
            within(CLOSE_TIMEOUT_S if self._flushes else HOPELESS_TIMEOUT_S, shut_down)
        for each in self._deliveries:
            each.give_up()


def _otlp_loggers() -> list[str]:
    """Return the loggers of the SDK's exporters that there are by now.

    They log each attempt and each batch, for as long as a collector is away. We say it once.
    """
    known = [*logging.root.manager.loggerDict]
    return [name for name in known if name.startswith("opentelemetry.exporter.otlp")]


class _Deliveries:
    """Stands before an OTLP exporter and counts what it does not deliver.

    The SDK's batching says in its log only that it drops what is too much, and that an endpoint
    fails. What was taken is delivered, has failed, or waits; what is missing was dropped.
    """

    def __init__(self, exporter: Any, lost: Lost, *, batching: str) -> None:
        """Stand before an exporter.

        Args:
            exporter: OpenTelemetry's own.
            lost: Takes why, and how many.
            batching: Where the environment says how many may wait: `BSP` or `BLRP`.
        """
        self._exporter = exporter
        self._lost = lost
        self._most_waiting = _size(f"{batching}_MAX_QUEUE_SIZE", 2048) + _size(
            f"{batching}_MAX_EXPORT_BATCH_SIZE", 512
        )
        self._lock = threading.Lock()
        self._waiting = 0

    def taken(self) -> None:
        """Note one span or event; with too many waiting, the oldest was dropped for it."""
        with self._lock:
            dropped = self._waiting >= self._most_waiting
            self._waiting += not dropped
        if dropped:
            self._lost("otlp_full", 1)

    def export(self, batch: Sequence[Any]) -> Any:
        """Pass a batch on."""
        result, message = None, ""
        try:
            with silenced(_otlp_loggers()) as withheld:
                result = self._exporter.export(batch)
            with contextlib.suppress(Exception):  # its arguments do not fit its text
                message = withheld[-1].getMessage() if withheld else ""
        finally:
            if result is None or result.name != "SUCCESS":
                self._failed(len(batch), message)
            with self._lock:
                self._waiting = max(0, self._waiting - len(batch))
        return result

    def _failed(self, n: int, message: str) -> None:
        with self._lock:
            n = min(n, self._waiting)  # at the end they are given up, and counted, before
        if n:
            with shielded("export"):
                self._lost("otlp_failed", n)
                first_line = message.partition("\n")[0][:200]
                record_problem(
                    "export",
                    f"OTLP: what is sent does not arrive ({first_line}); spans and events are lost "
                    "until it does, counted as otlp_failed; see OTEL_EXPORTER_OTLP_ENDPOINT",
                    about="otlp",
                )

    def give_up(self) -> None:
        """Count what still waits: nothing will send it."""
        with self._lock:
            left, self._waiting = self._waiting, 0
        if left:
            with shielded("export"):
                self._lost("otlp_closed", left)

    def shutdown(self) -> None:
        """End it."""
        self.give_up()
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Have the exporter send what it holds itself."""
        return bool(self._exporter.force_flush(timeout_millis))


def _size(name: str, default: int) -> int:
    """Return a number of the environment; what is none counts as not set, as in the SDK."""
    text = _variable(name)
    return int(text) if text.isdecimal() else default


def _uncounted(_reason: str, _n: int) -> None:
    """Count nothing."""


_Delivering = Callable[[Any, str], Any]
"""From an exporter, and where the environment says how many may wait, to what counts."""


def _tracers(
    resource: Callable[[], Resource], delivering: _Delivering, ids: Any, exporter: SpanExporter
) -> SdkTracerProvider:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    deliveries = delivering(exporter, "BSP")

    class Processor(BatchSpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            if span.context is not None and span.context.trace_flags.sampled:
                deliveries.taken()
            super().on_end(span)

    # Ours to close, after what waits was sent: at the interpreter's exit the SDK would come first.
    provider = TracerProvider(resource=resource(), shutdown_on_exit=False, id_generator=ids)
    provider.add_span_processor(Processor(deliveries))
    return provider


def _loggers(
    resource: Callable[[], Resource], delivering: _Delivering, exporter: LogRecordExporter
) -> SdkLoggerProvider:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    deliveries = delivering(exporter, "BLRP")

    class Processor(BatchLogRecordProcessor):
        def on_emit(self, log_record: ReadWriteLogRecord) -> None:
            deliveries.taken()
            super().on_emit(log_record)

    provider = LoggerProvider(resource=resource(), shutdown_on_exit=False)
    provider.add_log_record_processor(Processor(deliveries))
    return provider


def _is_placeholder(provider: object) -> bool:
    """Return whether the application has set no provider.

    By name: the API keeps the type that stands in for an unset logger provider to itself.
    """
    return type(provider).__name__.startswith(("Proxy", "NoOp"))


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
    try:
        for entry in metadata.entry_points(group=group, name=_EXPORTERS[protocol]):
            return entry.load()()
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


def within(timeout_s: float, call: Callable[[], bool]) -> bool:
    """Return the call's result; False if it fails or is late.

    The SDK's own `force_flush` takes a timeout and does not keep it (1.45).
    """
    answers: list[bool] = []

    def answer() -> None:
        with shielded("export"):
            answers.append(call())

    with shielded("export"):
        apart.within(timeout_s, answer)
    return bool(answers and answers[0])
