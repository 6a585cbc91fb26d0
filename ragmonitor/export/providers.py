"""Providers of spans and log events: the application's, else our own, else none."""

from __future__ import annotations

import importlib
import math
import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast

from opentelemetry import _logs, trace

from ragmonitor import apart
from ragmonitor.addresses import shown
from ragmonitor.conventions import OI_PROJECT_NAME, SCOPE
from ragmonitor.errors import MissingExtraError
from ragmonitor.export.content import package_version
from ragmonitor.guard import logger, shielded
from ragmonitor.protocols import Clock

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import LoggerProvider as SdkLoggerProvider
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

Signal = Literal["TRACES", "LOGS"]

CLOSE_TIMEOUT_S = 5.0
LOOK_AGAIN_S = 10.0
"""Seconds between two checks for a collector at the default address."""
CONNECT_S = 0.25

_EXPORTERS = {
    ("TRACES", "http/protobuf"): (
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        "OTLPSpanExporter",
    ),
    ("TRACES", "grpc"): (
        "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
        "OTLPSpanExporter",
    ),
    ("LOGS", "http/protobuf"): (
        "opentelemetry.exporter.otlp.proto.http._log_exporter",
        "OTLPLogExporter",
    ),
    ("LOGS", "grpc"): (
        "opentelemetry.exporter.otlp.proto.grpc._log_exporter",
        "OTLPLogExporter",
    ),
}


def otlp_protocol(signal: Signal) -> str | None:
    """Return the OTLP protocol that the environment sets for this signal; None: it sets none.

    The only reader of `OTEL_*`, by the rules of
    https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/: an empty
    variable is an unset one. Addresses, headers and so on are read by the OTLP exporters.
    """
    exporters = _variable(f"{signal}_EXPORTER")
    if _variable("SDK_DISABLED").lower() == "true" or not _address(signal):
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
    if _address(signal) or not all(name.startswith("otlp") for name in names):
        return None
    return 4317 if _protocol(signal) == "grpc" else 4318


def _address(signal: Signal) -> str:
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

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[int, tuple[float, bool]] = {}
        self._has_warned = False

    def takes(self, signal: Signal) -> bool:
        """Return whether a collector listens, or the environment names an address."""
        port = default_port(signal)
        if port is None:
            return True
        at_s, is_there = self._found.get(port, (-math.inf, False))
        if self._clock() - at_s >= LOOK_AGAIN_S:
            is_there = _listens(port)
            self._found[port] = (self._clock(), is_there)
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


class Providers:
    """Finds the provider of each signal at every emission: applications may set theirs at any time.

    Our own are built at the first emission that finds none; the SDK is not imported before. Called
    from one thread.
    """

    def __init__(
        self,
        service: str,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        logger_provider: _logs.LoggerProvider | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._service = service
        self._collector = _Collector(clock)
        self._tracer_provider = tracer_provider
        self._logger_provider = logger_provider
        self._own_tracers: SdkTracerProvider | None = None
        self._own_loggers: SdkLoggerProvider | None = None
        self._looked: set[Signal] = set()

    def tracer(self) -> trace.Tracer | None:
        """Return the tracer; None: there is nowhere to send traces."""
        provider = self._tracers()
        return None if provider is None else provider.get_tracer(SCOPE, package_version())

    def logger(self) -> _logs.Logger | None:
        """Return the logger; None: there is nowhere to send log events."""
        provider = self._loggers()
        return None if provider is None else provider.get_logger(SCOPE, package_version())

    def destination(self) -> str:
        """Say where traces go, without secrets."""
        if self._applications_tracers() is not None:
            return "the application's tracer provider"
        if otlp_protocol("TRACES") is None:
            return "nowhere (set OTEL_EXPORTER_OTLP_ENDPOINT)"
        return shown(_address("TRACES"))

    def flush(self, timeout_s: float) -> bool:
        """Send what the providers hold, the application's too; return whether all left in time."""
        providers: list[object] = [
            self._applications_tracers(),
            self._applications_loggers(),
            self._own_tracers,
            self._own_loggers,
        ]
        # Only the SDK's providers know this method; those of other vendors may not.
        calls: list[Callable[[int], bool]] = [
            provider.force_flush for provider in providers if hasattr(provider, "force_flush")
        ]
        millis = max(1, int(timeout_s * 1000))

        def flush_each() -> bool:
            flushed = [call(millis) for call in calls]
            return all(flushed)

        return not calls or within(timeout_s, flush_each)

    def close(self) -> None:
        """Shut down what is ours; the application's providers stay as they are."""
        owned = [p for p in (self._own_tracers, self._own_loggers) if p is not None]
        self._own_tracers = self._own_loggers = None

        def shut_down() -> bool:
            for provider in owned:
                provider.shutdown()
            return True

        if owned:
            within(CLOSE_TIMEOUT_S, shut_down)

    def _tracers(self) -> trace.TracerProvider | None:
        provider = self._applications_tracers()
        if provider is not None:
            return provider if self._tracer_provider or self._collector.takes("TRACES") else None
        if "TRACES" not in self._looked:
            self._looked.add("TRACES")
            self._own_tracers = self._build_tracers()
        return self._own_tracers

    def _loggers(self) -> _logs.LoggerProvider | None:
        provider = self._applications_loggers()
        if provider is not None:
            return provider if self._logger_provider or self._collector.takes("LOGS") else None
        if "LOGS" not in self._looked:
            self._looked.add("LOGS")
            self._own_loggers = self._build_loggers()
        return self._own_loggers

    def _applications_tracers(self) -> trace.TracerProvider | None:
        provider = self._tracer_provider or trace.get_tracer_provider()
        return None if _is_placeholder(provider) else provider

    def _applications_loggers(self) -> _logs.LoggerProvider | None:
        provider = self._logger_provider or _logs.get_logger_provider()
        return None if _is_placeholder(provider) else provider

    def _build_tracers(self) -> SdkTracerProvider | None:
        exporter = cast("SpanExporter | None", _exporter("TRACES"))
        if exporter is None:
            return None
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=_resource(self._service))
        provider.add_span_processor(BatchSpanProcessor(exporter))
        return provider

    def _build_loggers(self) -> SdkLoggerProvider | None:
        exporter = cast("LogRecordExporter | None", _exporter("LOGS"))
        if exporter is None:
            return None
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

        provider = LoggerProvider(resource=_resource(self._service))
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
        return provider


def _is_placeholder(provider: object) -> bool:
    """Return whether the application has set no provider.

    By name: the API keeps the type that stands in for an unset logger provider to itself.
    """
    return type(provider).__name__.startswith(("Proxy", "NoOp"))


def _exporter(signal: Signal) -> object | None:
    protocol = otlp_protocol(signal)
    if protocol is None:
        return None
    place = _EXPORTERS.get((signal, protocol))
    if place is None:
        logger.error(
            "ragmonitor: OTLP protocol %r is not supported, %s are not exported; "
            "set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf or grpc",
            protocol,
            signal.lower(),
        )
        return None
    try:
        return cast("object", getattr(importlib.import_module(place[0]), place[1])())
    except ImportError:
        error = MissingExtraError("the OTLP exporter for gRPC", "otlp-grpc")
        logger.error("ragmonitor: %s are not exported: %s", signal.lower(), error)
        return None


def _resource(service: str) -> Resource:
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
