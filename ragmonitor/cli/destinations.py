"""Says for people where traces go, and whether somebody listens there."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from ragmonitor.export.otel_environment import HTTP, Signal, otlp_address, otlp_protocol
from ragmonitor.runtime.addresses import shown

CONNECT_TIMEOUT_S = 2.0
_PORTS = {"http": 80, "https": 443}
_OTLP_GRPC_PORT = 4317


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """An OTLP endpoint."""

    protocol: str
    address: str
    """Without what of it is secret."""
    host: str
    port: int

    @property
    def fault(self) -> str:
        """Why nothing is sent there, though somebody listens; empty: it is."""
        if self.protocol != HTTP:
            return f"without a tracer provider of yours traces leave by {HTTP} only"
        if self.address.startswith(("http://", "https://")):
            return ""
        return "an address begins with http:// or https://, else nothing is sent"

    @property
    def doubt(self) -> str:
        """Why what is sent there may not be understood; empty: nothing speaks against it."""
        if self.port != _OTLP_GRPC_PORT:
            return ""
        return f"port {_OTLP_GRPC_PORT} is most collectors' for grpc, and 4318 for {self.protocol}"

    def reachable(self) -> str:
        """Return an empty text if a TCP connection can be made, else why not."""
        try:
            with socket.create_connection((self.host, self.port), CONNECT_TIMEOUT_S):
                return ""
        except OSError as error:
            return error.strerror or str(error) or type(error).__name__


def destination(signal: Signal) -> Destination | None:
    """Return where the environment sends a signal; None: nowhere."""
    protocol = otlp_protocol(signal)
    if protocol is None:
        return None
    address = otlp_address(signal)
    absolute = address if "://" in address else f"//{address}"
    parts = urlsplit(absolute)
    try:
        port = parts.port
    except ValueError:
        port = None
    return Destination(
        protocol=protocol,
        address=shown(absolute).removeprefix("//"),
        host=parts.hostname or "localhost",
        port=port or _PORTS.get(parts.scheme, 4318),
    )


def is_free(host: str, port: int) -> bool:
    """Return whether we could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As HTTP servers do: what only lingers in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True
