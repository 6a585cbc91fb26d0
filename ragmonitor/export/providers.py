"""Where spans and log events go: to the application's provider, else to a collector, or nowhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry import _logs, trace

from ragmonitor.export import otel_environment as environment
from ragmonitor.export.batcher import Lost
from ragmonitor.export.otel_environment import Signal
from ragmonitor.export.spans import ApplicationProvider
from ragmonitor.runtime import apart
from ragmonitor.runtime.guard import logger, shielded

if TYPE_CHECKING:
    from ragmonitor.export.otlp import OtlpSender


class Destination:
    """Finds where one signal goes, at every emission: an application may set a provider late.

    Called from one thread.
    """

    def __init__(
        self,
        signal: Signal,
        resource: Callable[[], dict[str, str]],
        lost: Lost | None,
    ) -> None:
        """Look for nothing yet.

        Args:
            signal: Spans or log events.
            resource: Returns the attributes of our own resource.
            lost: Counts what our own sender could not deliver, by reason, from any thread. Of the
                application's providers nobody knows.
        """
        self._signal: Signal = signal
        self._resource = resource
        self._lost = lost
        self._has_looked = False
        self._own: OtlpSender | None = None
        self._application: ApplicationProvider | None = None

    def provider(self) -> Any:
        """Return the application's provider; None: it has set none."""
        is_traces = self._signal == "TRACES"
        current = trace.get_tracer_provider if is_traces else _logs.get_logger_provider
        provider = current()
        # By name: the API keeps the type that stands in for an unset logger provider to itself.
        is_placeholder = type(provider).__name__.startswith(("Proxy", "NoOp"))
        return None if is_placeholder else provider

    def find(self) -> ApplicationProvider | OtlpSender | None:
        """Return what emits; None: there is nowhere to send this signal."""
        provider = self.provider()
        if provider is None:
            return self._sender()
        if self._application is None or self._application.provider is not provider:
            self._application = ApplicationProvider(provider)
        return self._application

    def _sender(self) -> OtlpSender | None:
        """Return our own sender, made at the first look if the environment asks for one."""
        if not self._has_looked:
            protocol = environment.otlp_protocol(self._signal)
            if protocol == environment.HTTP:
                from ragmonitor.export.otlp import OtlpSender

                self._own = OtlpSender(self._signal, self._resource(), self._lost)
            elif protocol is not None:
                logger.error(
                    "ragmonitor: OTLP by %r is for providers of the application's, so %s are not "
                    "exported; set a provider, or OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf "
                    "and the address of a collector's port for it (4318)",
                    protocol,
                    self._signal.lower(),
                )
            self._has_looked = True
        return self._own

    def flush(self, timeout_s: float) -> bool:
        """Send what is held, by the application's provider too; return whether all left in time."""
        deadline = time.monotonic() + timeout_s
        provider, flushed = self.provider(), True
        # Only the SDK's providers know this method; those of other vendors may not.
        if hasattr(provider, "force_flush"):
            millis, results = max(1, int(timeout_s * 1000)), list[object]()
            with shielded("export"):
                # Apart: the SDK's own takes a timeout and does not keep it (1.45).
                apart.within(timeout_s, lambda: results.append(provider.force_flush(millis)))
            flushed = any(results)
        if self._own is not None:
            left_s = max(0.1, deadline - time.monotonic())
            flushed = self._own.batches.flush(left_s) and flushed
        return flushed

    def close(self) -> None:
        """Shut down what is ours; the application's provider stays as it is."""
        if self._own is not None:
            self._own.close()
