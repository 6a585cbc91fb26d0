"""Real servers behind a gate that fails on command, as networks and servers do.

```python
with Endpoints() as servers:
    servers.gates["otlp"].fault = "reset"      # from now on; None: works again
    ...
    assert servers.arrived("otlp") == 100
```
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Literal, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.openai_server import OpenAiServer
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.scoring_server import FakeLangfuse, FakePhoenix

Fault = Literal["refused", "slow", "hang", "deaf", "reset", "garbage", "full", "read-only"]
NETWORK_FAULTS: Final[tuple[Fault, ...]] = (
    "refused",
    "slow",
    "hang",
    "reset",
    "garbage",
    "full",
    "read-only",
)
SLOW_S: Final = 0.5
"""Before each piece of a reply."""
_STATUS: Final = {
    "full": b"HTTP/1.1 507 Insufficient Storage\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    "read-only": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
}
_RESET: Final = struct.pack("ii", 1, 0)
_PUBLIC, _SECRET = "pk-lf-chaos", "sk-lf-chaos"


class Gate:
    """A loopback port in front of a server; passes bytes on, or fails as `fault` says."""

    def __init__(self, upstream: int) -> None:
        """Listen in front of the port `upstream`."""
        self._upstream = upstream
        self._fault: Fault | None = None
        self._open: set[socket.socket] = set()
        self._closed = False
        self._listener = self._listening(0)
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def fault(self) -> Fault | None:
        """How it fails; None: it does not."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault | None) -> None:
        before, self._fault = self._fault, fault
        if fault == "refused" and before != "refused":
            self._end(self._listener)
            self._hang_up()
        elif before == "refused" and fault != "refused":
            self._listener = self._listening(self.port)
        elif fault not in (before, "deaf"):  # which what is open becomes, too
            self._hang_up()

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        self._end(self._listener)
        self._hang_up()

    def _listening(self, port: int) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket()
        self._open |= {client, server}
        try:
            self._pass_on(client, server)
        except OSError:  # one of the two has hung up
            pass
        finally:
            for each in (client, server):
                self._end(each)
                self._open.discard(each)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        is_connected = False
        while data := client.recv(65_536):
            match self._fault:
                case "hang":
                    continue
                case "reset":
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    client.close()
                    return
                case "garbage":
                    client.sendall(os.urandom(512))
                    return
                case "full" | "read-only" as status:
                    client.sendall(_STATUS[status])
                    return
            if not is_connected:
                server.connect(("127.0.0.1", self._upstream))
                is_connected = True
                threading.Thread(target=self._return, args=(server, client), daemon=True).start()
            server.sendall(data)

    def _return(self, server: socket.socket, client: socket.socket) -> None:
        slowly = threading.Event()
        with contextlib.suppress(OSError):
            while data := server.recv(65_536):
                if self._fault == "deaf":  # what was asked for was done, and nobody hears of it
                    continue
                if self._fault == "slow":
                    slowly.wait(SLOW_S)
                client.sendall(data)
            self._end(client)

    def _hang_up(self) -> None:
        for each in list(self._open):
            self._end(each)

    @staticmethod
    def _end(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()


class Endpoints:
    """A collector, a judge's provider, Phoenix and Langfuse, each behind a gate."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._arrived: defaultdict[str, set[object]] = defaultdict(set)
        self.gates: dict[str, Gate] = {}

    def __enter__(self) -> Self:
        enter = self._stack.enter_context
        self._otlp: OtlpReceiver = enter(otlp_receiver())
        self._judge = enter(OpenAiServer())
        self._phoenix = enter(FakePhoenix())
        self._langfuse = enter(FakeLangfuse(_PUBLIC, _SECRET))
        for name, url in (
            ("otlp", self._otlp.url),
            ("judge", self._judge.api_base.removesuffix("/v1")),
            ("phoenix", self._phoenix.url),
            ("langfuse", self._langfuse.url),
        ):
            self.gates[name] = Gate(int(url.rpartition(":")[2]))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for gate in self.gates.values():
            gate.close()
        self._stack.close()

    def variables(self, *names: str) -> dict[str, str]:
        """Return the environment of an application that uses these endpoints."""
        found = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        exporters = []
        if "otlp" in names or "phoenix" in names or "langfuse" in names:
            found["OTEL_EXPORTER_OTLP_ENDPOINT"] = self.gates["otlp"].url
        if "judge" in names:
            found |= {
                "RAGMONITOR_JUDGE": "openai/judge",
                "RAGMONITOR_JUDGE__API_BASE": f"{self.gates['judge'].url}/v1",
                "OPENAI_API_KEY": "sk-none",
            }
        if "phoenix" in names:
            exporters.append(f"phoenix:{self.gates['phoenix'].url}")
        if "langfuse" in names:
            exporters.append(f"langfuse:{self.gates['langfuse'].url}")
            found |= {"LANGFUSE_PUBLIC_KEY": _PUBLIC, "LANGFUSE_SECRET_KEY": _SECRET}
        return found | ({"RAGMONITOR_EXPORTERS": ",".join(exporters)} if exporters else {})

    def arrived(self, name: str) -> int:
        """Return how many different spans, annotations or scores have arrived.

        Of what was counted only its identity is kept, until `forget`.
        """
        match name:
            case "otlp":
                requests, self._otlp.trace_requests[:] = self._otlp.trace_requests[:], []
                found: Iterable[object] = (s.span_id for each in requests for s in spans_of(each))
            case "phoenix":
                found = list(self._phoenix.annotations)
            case _:
                found = list(self._langfuse.scores)
        self._arrived[name].update(found)
        return len(self._arrived[name])

    def forget(self) -> None:
        """Let go of all that has arrived: the servers keep it for ever."""
        self._arrived.clear()
        for kept in (
            self._otlp.trace_requests,
            self._otlp.log_requests,
            self._otlp.headers,
            self._judge.requests,
            self._phoenix.requests,
            self._phoenix.annotations,
            self._langfuse.requests,
            self._langfuse.scores,
            self._langfuse.seen,
        ):
            kept.clear()


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    """Yield the spans of an OTLP request."""
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans
