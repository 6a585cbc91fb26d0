"""TLS and SASL/PLAIN before a Kafka cluster that speaks neither: librdkafka's mock of one.

What a client sends is decrypted, its credentials are looked at, and all else goes on to the
cluster. In replies the cluster's address is replaced by the one in front of it. The messages are
those of Kafka's protocol guide: ApiVersions (18), SaslHandshake (17) and SaslAuthenticate (36).
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.support.certificates import Certificates

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
SASL_AUTHENTICATION_FAILED = 58


@dataclass
class SecuredKafka:
    """A running front: where it listens, and what clients said."""

    brokers: str = ""
    credentials: list[bytes] = field(default_factory=list)
    """As they were sent, `NUL user NUL password`; those that were refused, too."""
    connections: int = 0
    """Those of which the handshake of TLS was completed."""


@contextmanager
def secured(
    brokers: str, files: Certificates, *, password: str | None = None, clients: bool = False
) -> Iterator[SecuredKafka]:
    """Listen in front of a cluster of one broker; end afterwards.

    Args:
        brokers: The cluster's address, `host:port`.
        files: The certificate to show, and the authority of clients' certificates.
        password: The one of the user `user`, asked of every client; None: none is asked.
        clients: Whether a client must show a certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.own, files.key)
    if clients:
        context.load_verify_locations(files.authority)
        context.verify_mode = ssl.CERT_REQUIRED
    front = _Front(brokers, password)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    start = asyncio.start_server(front.serve, "127.0.0.1", 0, ssl=context)
    server = asyncio.run_coroutine_threadsafe(start, loop).result(10)
    front.port = server.sockets[0].getsockname()[1]
    front.seen.brokers = f"127.0.0.1:{front.port}"
    try:
        yield front.seen
    finally:
        asyncio.run_coroutine_threadsafe(front.end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


class _Front:
    def __init__(self, brokers: str, password: str | None) -> None:
        self.host, _, port = brokers.rpartition(":")
        self.behind = int(port)
        self.password = password
        self.port = 0
        self.seen = SecuredKafka()
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it, or the cluster, goes."""
        self.seen.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        ahead = writer
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            behind, ahead = await asyncio.open_connection(self.host, self.behind)
            versions: set[int] = set()
            replies = asyncio.ensure_future(self._replies(behind, writer, versions))
            try:
                await self._requests(reader, writer, ahead, versions)
            finally:
                replies.cancel()
        ahead.close()
        writer.close()
        self.tasks.discard(task)

    async def end(self, server: asyncio.Server) -> None:
        """Cut every connection."""
        server.close()
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ahead: asyncio.StreamWriter,
        versions: set[int],
    ) -> None:
        is_known = self.password is None
        while True:
            message = await _message(reader)
            key, version, number = struct.unpack(">hhi", message[:8])
            if key == SASL_HANDSHAKE:
                _send(writer, struct.pack(">ihih5s", number, 0, 1, 5, b"PLAIN"))
                continue
            if key == SASL_AUTHENTICATE:
                client = struct.unpack(">h", message[8:10])[0]
                said = message[10 + max(0, client) + 4 :]
                self.seen.credentials.append(said)
                is_known = said == f"\0user\0{self.password}".encode()
                error = 0 if is_known else SASL_AUTHENTICATION_FAILED
                _send(writer, struct.pack(">ihhi", number, error, -1, 0))
                continue
            if key == API_VERSIONS:
                if version == 0:  # the cluster refuses any later one, and the client asks again
                    versions.add(number)
            elif not is_known:
                return
            _send(ahead, message)

    async def _replies(
        self, behind: asyncio.StreamReader, writer: asyncio.StreamWriter, versions: set[int]
    ) -> None:
        place = self.host.encode() + struct.pack(">i", self.behind)
        own = self.host.encode() + struct.pack(">i", self.port)
        while True:
            message = await _message(behind)
            number = struct.unpack(">i", message[:4])[0]
            if number in versions:
                versions.discard(number)
                if self.password is not None:
                    message = _with_sasl(message)
            _send(writer, message.replace(place, own))


def _with_sasl(message: bytes) -> bytes:
    """Return a reply to ApiVersions of version 0 that has SASL's two messages, too.

    After the number of the request and the error come the count of entries, and of each its key,
    its lowest and its highest version.
    """
    count = struct.unpack(">i", message[6:10])[0]
    more = struct.pack(">6h", SASL_HANDSHAKE, 0, 1, SASL_AUTHENTICATE, 0, 0)
    return message[:6] + struct.pack(">i", count + 2) + more + message[10:]


async def _message(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(struct.pack(">i", len(message)) + message)
