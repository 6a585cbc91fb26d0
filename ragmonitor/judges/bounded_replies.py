"""Replies of a bounded size, however much a provider sends or a compressed one unpacks to.

litellm reads a reply whole before anybody can look at it, but takes the session through which it
is read from the caller, call by call. Ours counts.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import warnings
import zlib
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final

MAX_REPLY_BYTES: Final = 4 * 2**20
"""Limit of a reply's body, unpacked. An honest one has a few thousand bytes."""

_refusals: ContextVar[list[str] | None] = ContextVar("ragmonitor_refused_replies", default=None)


class _ReplyRefusedError(Exception):
    """A reply was too large. A client library may turn it into anything; see `noted_refusals`."""


@contextlib.contextmanager
def noted_refusals() -> Iterator[list[str]]:
    """Yield a list to which the reasons of refused replies are added in this context."""
    noted: list[str] = []
    token = _refusals.set(noted)
    try:
        yield noted
    finally:
        _refusals.reset(token)


_open: dict[tuple[asyncio.AbstractEventLoop, int], Any] = {}
"""The sessions by loop and limit. All who ask on a loop share one: litellm keeps a client with the
session that it was first given, and a client whose session is closed opens another, unlimited."""


def bounded_session(max_bytes: int = MAX_REPLY_BYTES) -> Any | None:
    """Return the running loop's session whose replies have at most so many bytes; None: no aiohttp.

    It is closed by `close_sessions`, or let go of some time after its loop has ended.
    """
    loop = asyncio.get_running_loop()
    known = _open.get((loop, max_bytes))
    if known is not None and not known.closed:
        return known
    for key in [key for key in _open if key[0].is_closed()]:
        _let_go(key[0], _open.pop(key))
    session = _opened(max_bytes)
    if session is not None:
        _open[loop, max_bytes] = session
    return session


async def close_sessions() -> None:
    """Close the running loop's sessions."""
    loop = asyncio.get_running_loop()
    for key in [key for key in _open if key[0] is loop]:
        with contextlib.suppress(Exception):
            await _open.pop(key).close()


def _let_go(loop: asyncio.AbstractEventLoop, session: Any) -> None:
    """Let go of a session without its loop: left alone it would complain on standard error."""
    connector = session.connector
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.detach()
        if loop.is_closed():  # else its connections may be another process's, before a fork
            # There is no loop to await it on, and so nothing to wait for: one step ends it.
            next(connector.close().__await__())


@atexit.register
def _let_go_of_all() -> None:
    while _open:
        (loop, _), session = _open.popitem()
        _let_go(loop, session)


def _opened(max_bytes: int) -> Any | None:
    """Return a new session; TLS is set up as litellm does it."""
    try:
        aiohttp: Any = import_module("aiohttp")
        handler: Any = import_module("litellm.llms.custom_httpx.http_handler")
    except ImportError:
        return None
    ssl: Any = True
    with contextlib.suppress(Exception):  # moved, in another release: aiohttp's own then
        ssl = handler.get_ssl_configuration()

    class Reply(aiohttp.ClientResponse):  # type: ignore[misc]
        @property
        def headers(self) -> Any:
            if not isinstance(self.content, _Content):
                return self._headers
            # What that unpacks, nobody else is to.
            plain = self._headers.copy()
            plain.pop("Content-Encoding", None)
            return plain

        async def start(self, connection: Any) -> Any:
            reply = await super().start(connection)
            if _refusals.get() is None:  # an application's own call, by the client that it shares
                return reply
            encoding = self._headers.get("Content-Encoding", "").strip().lower()
            content: Any = self.content
            self.content: Any = _Content(content, self, encoding, max_bytes)
            return reply

    async def ask_for_gzip(_session: Any, _context: Any, asked: Any) -> None:
        # What else the client knows to unpack it would unpack at once, to any size.
        if _refusals.get() is not None:
            asked.headers["Accept-Encoding"] = "gzip"

    tracing = aiohttp.TraceConfig()
    tracing.on_request_start.append(ask_for_gzip)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=ssl),
        response_class=Reply,
        trace_configs=[tracing],
    )


class _Content:
    """The body of a reply; reading it raises where it is too large."""

    def __init__(self, content: Any, reply: Any, encoding: str, max_bytes: int) -> None:
        self._content = content
        self._reply = reply
        self._encoding = encoding
        self._max_bytes = max_bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, n: int) -> AsyncIterator[bytes]:
        """Yield pieces of the body, unpacked; of `n` bytes as they came."""
        if self._encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise self._refused(f"the reply is packed as {self._encoding[:20]!r}, not as asked for")
        unpacking = None
        if self._encoding not in ("", "identity"):
            unpacking = zlib.decompressobj(wbits=47)  # gzip or zlib, as it says itself
        n_bytes = 0
        async for came in self._content.iter_chunked(n):
            piece = came
            if unpacking is not None:
                try:
                    piece = unpacking.decompress(came, self._max_bytes - n_bytes + 1)
                except zlib.error:
                    raise self._refused("the reply cannot be unpacked") from None
            n_bytes += len(piece)
            if n_bytes > self._max_bytes:
                raise self._refused(f"the reply is larger than {self._max_bytes:,} bytes")
            yield piece

    def _refused(self, why: str) -> _ReplyRefusedError:
        noted = _refusals.get()
        if noted is not None:
            noted.append(why)
        self._reply.close()
        return _ReplyRefusedError(why)
