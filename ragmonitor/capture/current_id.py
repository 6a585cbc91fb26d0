"""The id of the newest interaction of a thread or task, for an application to show or to keep.

Nothing of OpenTelemetry's context is touched: these are two context variables of our own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, Final

HEADER: Final = "x-ragmonitor-interaction"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Request:
    """The newest interaction of one request; its threads and tasks share this object."""

    id = ""


_newest: ContextVar[str] = ContextVar("ragmonitor_newest_id", default="")
_request: ContextVar[_Request | None] = ContextVar("ragmonitor_request", default=None)


def current_id() -> str:
    """Return the id of the newest interaction of this thread or task; empty: there was none."""
    request = _request.get()
    return _newest.get() or ("" if request is None else request.id)


def make_current(identity: str) -> str:
    """Make an interaction the newest of this thread or task; return the one before."""
    before = _newest.get()
    _newest.set(identity)
    request = _request.get()
    if request is not None:
        request.id = identity
    return before


class InteractionIdMiddleware:
    """ASGI middleware that names the interaction of a request in a header of the response.

    `app.add_middleware(InteractionIdMiddleware)` in FastAPI and Starlette. The front end sends it
    back with the person's feedback. The header is missing where no interaction had begun when the
    response did: of a streamed response it has to begin before the stream.
    """

    def __init__(self, app: App, *, header: str = HEADER) -> None:
        """Wrap an application.

        Args:
            app: The ASGI application.
            header: The header's name. Browsers show it to pages of other origins only if the
                application's CORS settings expose it.
        """
        self._app = app
        self._header = header.lower().encode("latin-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request()
        _request.set(request)
        _newest.set("")  # of an earlier request on this connection

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start" and request.id.isprintable():
                value = request.id.encode("latin-1", "ignore")
                if value:
                    headers = [*message.get("headers", ()), (self._header, value)]
                    message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, named)
