"""Providers of spans and log events: the application's, else our own, else none."""

from __future__ import annotations

import hashlib
import math
import secrets
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import _logs, trace

from ragmonitor.export import otel_environment as environment
from ragmonitor.export.batcher import Lost
from ragmonitor.export.content import package_version
from ragmonitor.export.otel_environment import Signal
from ragmonitor.runtime import apart
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.guard import logger, shielded
from ragmonitor.semconv.conventions import SCOPE

if TYPE_CHECKING:
    from ragmonitor.export.otlp import OtlpLogger, OtlpTracer, Outbox

    Tracer = trace.Tracer | OtlpTracer
    Logger = _logs.Logger | OtlpLogger

LOOK_AGAIN_S: Final = 10.0
"""Seconds between two checks for a collector at the default address."""
CONNECT_S: Final = 0.25


class _Source:
    """Finds the provider of one signal: the application's, else an outbox of our own."""

    def __init__(self, signal: Signal, given: Any) -> None:
        self.signal: Signal = signal
        self.outbox: Outbox | None = None
        self._given = given
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

    def takes(self) -> bool:
        """Return whether what is emitted to the application's provider may arrive anywhere."""
        return bool(self._given) or self._has_collector()

    def own(self, resource: Callable[[], dict[str, str]], lost: Lost | None) -> Outbox | None:
        """Return our own outbox, made at the first look; None: there is nowhere to send."""
        if not self._has_looked:
            protocol = environment.otlp_protocol(self.signal)
            if protocol == environment.HTTP:
                from ragmonitor.export.otlp import Outbox

                self.outbox = Outbox(self.signal, resource(), lost)
            elif protocol is not None:
                logger.error(
                    "ragmonitor: OTLP by %r is for providers of the application's, so %s are not "
                    "exported; set a provider, or OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf "
                    "and the address of a collector's port for it (4318)",
                    protocol,
                    self.signal.lower(),
                )
            self._has_looked = True
        return self.outbox

    def _has_collector(self) -> bool:
        """Return whether a collector listens, or the environment names an address.

        `opentelemetry-instrument` exports by OTLP where the environment sets nothing. Without a
        collector its exporters retry for ten seconds at the application's exit, with an error for
        each try, for spans that are ours alone.
        """
        exporters = environment.variable(f"{self.signal}_EXPORTER").split(",")
        is_otlp = all(name.strip().startswith("otlp") for name in exporters)
        if environment.otlp_address(self.signal) or not is_otlp:
            return True
        if time.monotonic() - self._looked_s < LOOK_AGAIN_S:
            return self._listens
        self._looked_s = time.monotonic()
        port = 4317 if environment.protocol(self.signal) == "grpc" else 4318
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

    def next(self, size: int) -> int:
        """Return an id of so many bytes that are not all 0."""
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
        self._resource = partial(environment.resource, service, version)
        self.ids = SpanIds()
        """The ids of spans of our own provider; an application's provider makes its own."""
        self._lost = lost
        self._tracer: tuple[object, Tracer] | None = None
        """The last one, and the provider that it is of."""
        self._traces = _Source("TRACES", tracer_provider)
        self._logs = _Source("LOGS", logger_provider)

    def tracer(self) -> Tracer | None:
        """Return the tracer; None: there is nowhere to send traces."""
        provider = self._traces.applications()
        if provider is not None and not self._traces.takes():
            return None
        source = provider or self._traces.own(self._resource, self._lost)
        if source is None:
            return None
        if self._tracer is None or self._tracer[0] is not source:
            if provider is not None:
                self._tracer = source, provider.get_tracer(SCOPE, package_version())
            else:
                self._tracer = source, source.tracer(self.ids.next)
        return self._tracer[1]

    def logger(self) -> Logger | None:
        """Return the logger; None: there is nowhere to send log events."""
        provider = self._logs.applications()
        if provider is not None:
            is_taken = self._logs.takes()
            return provider.get_logger(SCOPE, package_version()) if is_taken else None
        outbox = self._logs.own(self._resource, self._lost)
        return None if outbox is None else outbox.logger()

    @property
    def is_applications(self) -> bool:
        """Whether the application has set a provider, of traces or of log events."""
        return any(each.applications() is not None for each in (self._traces, self._logs))

    def destination(self) -> str:
        """Say where traces go, without secrets; empty: nowhere."""
        if self._traces.applications() is not None:
            return "the application's tracer provider"
        if environment.otlp_protocol("TRACES") != environment.HTTP:
            return ""
        return shown(environment.otlp_address("TRACES"))

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
            if each.outbox is not None:
                each.outbox.close()


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
