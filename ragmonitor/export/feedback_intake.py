"""Takes people's feedback by HTTP: one POST each, from a service or from a page of a front end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from email.message import Message
from typing import Any, Final

from ragmonitor.errors import FeedbackError
from ragmonitor.export.content import compact_json
from ragmonitor.export.server import Reply
from ragmonitor.export.view import Access
from ragmonitor.feedback import Feedback, feedback_of

PATH: Final = "/ragmonitor/feedback"
_PREFLIGHT: Final = (
    ("Access-Control-Allow-Methods", "POST"),
    ("Access-Control-Allow-Headers", "authorization, content-type"),
    ("Access-Control-Max-Age", "600"),
)


class FeedbackIntake:
    """Answers the requests at `PATH`.

    Without a token whoever is on this machine may speak; a website may not through its visitor's
    browser, unless it is among the origins: its request is JSON, for which a browser asks first.
    """

    def __init__(
        self,
        take: Callable[[Feedback], bool],
        *,
        token: str | None = None,
        origins: Collection[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin.

        Args:
            take: Takes feedback without waiting; False: there is too much of it.
            token: What a client must send as a bearer token; None: none.
            origins: Websites whose pages may send it, in lower case.
            now: Seconds since the epoch.
        """
        self._take = take
        self._access = Access(token)
        self._origins = frozenset(origins)
        self._now = now

    def __call__(self, method: str, target: str, headers: Message, body: bytes) -> Reply:
        """Return the reply: 202 if the feedback was taken."""
        if target.partition("?")[0].rstrip("/") != PATH:
            return _said(404, "there is no such page")
        origin = headers.get("Origin", "")
        if origin and origin.lower() not in self._origins:
            return _said(403, "server.feedback_origins does not name this website")
        allowed: tuple[tuple[str, str], ...] = (("Vary", "Origin"),)
        if origin:
            allowed += (("Access-Control-Allow-Origin", origin),)
        if method == "OPTIONS":
            return Reply(status=204, headers=(*allowed, *_PREFLIGHT))
        reply = self._received(headers, body)
        return replace(reply, headers=(*allowed, *reply.headers))

    def _received(self, headers: Message, body: bytes) -> Reply:
        refusal = self._access.refusal(headers)
        if refusal is not None:
            return _said(401 if refusal == "token" else 403, f"refused: {refusal}")
        if headers.get_content_type() != "application/json":
            return _said(415, "feedback is application/json")
        try:
            feedback = self._read(body)
        except FeedbackError as error:
            return _said(400, str(error))
        if not self._take(feedback):
            return _said(503, "too much feedback is waiting; try again later")
        return Reply(status=202, content_type="application/json", body=b'{"accepted":true}')

    def _read(self, body: bytes) -> Feedback:
        """Return the feedback in a body. Raises `FeedbackError`."""
        try:
            fields: Any = json.loads(body)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or "value" not in fields:
            raise FeedbackError(
                'feedback is an object such as {"id": "...", "value": true, "comment": "..."}'
            )
        return feedback_of(
            fields.get("id", fields.get("run_id")),
            fields["value"],
            comment=fields.get("comment") or "",
            kind=fields.get("kind", "thumbs"),
            at_s=self._now(),
        )


def _said(status: int, text: str) -> Reply:
    body = compact_json({"error": text}).encode()
    headers = (("WWW-Authenticate", "Bearer"),) if status == 401 else ()
    return Reply(status=status, content_type="application/json", body=body, headers=headers)
