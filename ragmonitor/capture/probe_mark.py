"""The mark of golden questions: what an application answers to them is no traffic.

The mark is a member of the OpenTelemetry baggage. So it is there in the threads and tasks that
inherit the context, and in services to which the W3C header `baggage` is propagated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from opentelemetry import baggage, context

from ragmonitor.capture.current_id import App, Receive, Scope, Send
from ragmonitor.records import Interaction
from ragmonitor.runtime.guard import shielded
from ragmonitor.semconv.conventions import PROBE_BAGGAGE, PROBE_HEADER

MAX_MARK_CHARACTERS = 200


def current_mark(within: context.Context | None = None) -> str:
    """Return the id of the golden question that is being answered here; empty: none is.

    Args:
        within: Where to look; None: the current context.
    """
    value = baggage.get_baggage(PROBE_BAGGAGE, within)
    return value[:MAX_MARK_CHARACTERS] if isinstance(value, str) else ""


def is_probe(interaction: Interaction) -> bool:
    """Return whether a record answers a golden question: by its probe, an attribute or a tag."""
    held: tuple[Any, ...] = (interaction.attributes, interaction.tags)
    with shielded("capture"):  # the application's own record; what cannot be read marks nothing
        return interaction.probe is not None or any(
            isinstance(each, Mapping | tuple | list) and PROBE_BAGGAGE in each for each in held
        )
    return False


@contextmanager
def marked(golden: str) -> Iterator[None]:
    """Mark what is done within the block, and what inherits its context."""
    token = context.attach(baggage.set_baggage(PROBE_BAGGAGE, golden))
    try:
        yield
    finally:
        context.detach(token)


class ProbeMiddleware:
    """An ASGI middleware that heeds the header `x-ragmonitor-probe`: FastAPI, Starlette and others.

    `app.add_middleware(ProbeMiddleware)` in the service that is probed. It is not needed where
    OpenTelemetry's instrumentation of the framework is, which reads the header `baggage`.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Mark a request that has the header, and pass all on."""
        header = dict(scope.get("headers") or ()).get(PROBE_HEADER.encode(), b"")
        golden = unquote(header.decode("latin-1"))[:MAX_MARK_CHARACTERS]
        if scope.get("type") != "http" or not golden:
            await self._app(scope, receive, send)
            return
        with marked(golden):
            await self._app(scope, receive, send)
