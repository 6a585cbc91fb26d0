"""OTLP over gRPC: the method `Export` of the trace service.

https://opentelemetry.io/docs/specs/otlp/#otlpgrpc
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from ragmonitor.export.server import REQUEST_TIMEOUT_S
from ragmonitor.receive.otlp_bodies import PROTOBUF, UnreadableBodyError, request_of
from ragmonitor.receive.span_intake import FullError, SpanIntake

SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"
MAX_CALLS: Final = 16
"""At once; further ones are told to try again."""
_READ_AT_ONCE: Final = 2
"""Messages; the threads of the other calls wait for theirs."""
_AGAIN_S: Final = 1
_IDLE_MS: Final = 300_000
_STOPPING_S: Final = 2.0


class GrpcReceiver:
    """Listens for spans on one address, until it is closed."""

    protocol = "OTLP over gRPC"

    def __init__(
        self,
        intake: SpanIntake,
        host: str,
        port: int,
        *,
        max_bytes: int,
        certificates: tuple[bytes, bytes, bytes | None] | None = None,
    ) -> None:
        """Listen.

        Args:
            intake: Takes the requests.
            host: Address to listen on.
            port: 0: any free one.
            max_bytes: Of one request, as it comes and unpacked.
            certificates: Key, certificate and those whose certificates a sender must have one of
                (None: it needs none), as PEM; None: connections are not encrypted.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._intake = intake
        self._max_bytes = max_bytes
        self._free = threading.BoundedSemaphore(MAX_CALLS)
        """Taken as a call comes, and released at its end."""
        self._reading = threading.BoundedSemaphore(_READ_AT_ONCE)
        # For senders it is a call with one message. As a call with one, gRPC would wait for it on a
        # thread of ours before we are asked, and for ever.
        handler = grpc.stream_unary_rpc_method_handler(self._export)
        self._server = grpc.server(
            # One more than there are calls: a refusal waits for none of them. gRPC's own bound of
            # calls refuses without RetryInfo, and a sender then drops its spans.
            ThreadPoolExecutor(MAX_CALLS + 1, thread_name_prefix="ragmonitor-otlp-grpc"),
            handlers=[grpc.method_handlers_generic_handler(SERVICE, {"Export": handler})],
            interceptors=[_Doorkeeper(intake, self._free)],
            options=[
                ("grpc.max_receive_message_length", max_bytes),
                ("grpc.max_connection_idle_ms", _IDLE_MS),
                ("grpc.max_concurrent_streams", MAX_CALLS),
                ("grpc.so_reuseport", 0),
            ],
        )
        shown = f"[{host}]" if ":" in host else host
        place = f"{shown}:{port}"
        try:
            if certificates is None:
                bound = self._server.add_insecure_port(place)
            else:
                key, chain, authority = certificates
                bound = self._server.add_secure_port(
                    place,
                    grpc.ssl_server_credentials(
                        [(key, chain)], authority, require_client_auth=authority is not None
                    ),
                )
        except RuntimeError:
            bound = 0
        if not bound:
            raise OSError(0, "the address cannot be bound")
        scheme = "http" if certificates is None else "https"
        self.url = f"{scheme}://{shown}:{bound}"
        """The address at which it listens, as OTEL_EXPORTER_OTLP_ENDPOINT wants it."""
        self._server.start()

    def close(self) -> None:
        """Stop listening; what is being answered gets its answer."""
        self._server.stop(_STOPPING_S).wait()

    def _export(self, messages: Iterator[bytes], context: Any) -> bytes:
        try:
            body = self._message(messages, context)
            with self._reading:
                request = request_of(
                    body, content_type=PROTOBUF, encoding="", max_bytes=self._max_bytes
                )
                reply: bytes = self._intake.take(request).SerializeToString()
            return reply
        except UnreadableBodyError as error:
            if error.status == 413:  # without RetryInfo: it is not to be sent again
                self._intake.count("too_large")
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            self._intake.count("malformed")
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except FullError as error:
            _ask_to_try_again(context, str(error), error.retry_after_s)
        finally:
            self._free.release()
        return b""  # not reached: to abort raises

    def _message(self, messages: Iterator[bytes], context: Any) -> bytes:
        """Return the message of a call; one that does not send it in time is ended.

        Raises:
            UnreadableBodyError: The call ended, or broke off, without one.
        """
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            context.cancel()

        timer = threading.Timer(REQUEST_TIMEOUT_S, end)
        timer.daemon = True
        timer.start()
        try:
            return next(messages)
        except (StopIteration, grpc.RpcError):  # an ended call is told as either
            if is_late.is_set():
                self._intake.count("too_slow")
                context.abort(grpc.StatusCode.CANCELLED, "no message came in time")
            raise UnreadableBodyError(400, "the call has no message") from None
        finally:
            timer.cancel()


def _ask_to_try_again(context: Any, why: str, retry_after_s: int) -> None:
    """End a call so that its sender tries again: only with `RetryInfo` may it do so."""
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    status = Status(code=code.value[0], message=why)
    retry = RetryInfo()
    retry.retry_delay.FromSeconds(retry_after_s)
    status.details.add().Pack(retry)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, why)


class _Doorkeeper(grpc.ServerInterceptor):  # type: ignore[misc]  # the library has no types
    """Refuses calls that show no token, or come while there are too many, and reads none of them.

    It is asked on gRPC's own thread, before any thread of ours is taken.
    """

    def __init__(self, intake: SpanIntake, free: threading.Semaphore) -> None:
        self._intake = intake
        self._free = free
        self._unauthorized = grpc.stream_unary_rpc_method_handler(_refuse_unauthorized)
        self._too_many = grpc.stream_unary_rpc_method_handler(_refuse_too_many)

    def intercept_service(self, continuation: Callable[[Any], Any], call: Any) -> Any:
        shown = next((v for k, v in call.invocation_metadata if k == "authorization"), "")
        if not self._intake.is_authorized(shown):
            self._intake.count("unauthorized")
            return self._unauthorized
        handler = continuation(call)
        if handler is not None and not self._free.acquire(blocking=False):
            self._intake.count("too_many")
            return self._too_many
        return handler  # None: there is no such method


def _refuse_unauthorized(_messages: Iterator[bytes], context: Any) -> bytes:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is needed")
    return b""  # not reached: to abort raises


def _refuse_too_many(_messages: Iterator[bytes], context: Any) -> bytes:
    _ask_to_try_again(context, "there are too many calls at once; try again later", _AGAIN_S)
    return b""  # not reached: to abort raises
