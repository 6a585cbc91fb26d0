"""Takes people's feedback by HTTP: one POST each, from a service or from a page of a front end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from email.message import Message
from typing import Any, Final

from pydantic import SecretStr

from ragmonitor.export.server import Reply, json_reply
from ragmonitor.export.view import Access
from ragmonitor.runtime.errors import FeedbackError
from ragmonitor.runtime.feedback import Feedback, feedback_of

PATH: Final = "/ragmonitor/feedback"


class FeedbackIntake:
    """Answers the requests at `PATH`.

    Without a token whoever is on this machine may speak; a website may not through its visitor's
    browser, which names its origin. With one, whoever shows it may.
    """

    def __init__(
        self,
        take: Callable[[Feedback], bool],
        *,
        token: SecretStr | None = None,
    ) -> None:
        """Begin.

        Args:
            take: Takes feedback without waiting; False: there is too much of it.
            token: What a client must send as a bearer token; None: none.
        """
        self._take = take
        self._access = Access(token)

    def __call__(self, target: str, headers: Message, body: bytes) -> Reply:
        """Return the reply: 202 if the feedback was taken."""
        if target.partition("?")[0].rstrip("/") != PATH:
            return _said(404, "there is no such page")
        if headers.get("Origin") and not self._access.needs_token:
            return _said(403, "websites send feedback only with server.token")
        refusal = self._access.refusal(headers)
        if refusal is not None:
            error = refusal.body.decode().partition("\n")[0]
            return replace(_said(refusal.status, error), headers=refusal.headers)
        if headers.get_content_type() != "application/json":
            return _said(415, "feedback is application/json")
        try:
            feedback = self._read(body)
        except FeedbackError as error:
            return _said(400, str(error))
        if not self._take(feedback):
            return _said(503, "too much feedback is waiting; try again later")
        return json_reply({"accepted": True}, status=202)

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
            at_s=time.time(),
        )


def _said(status: int, text: str) -> Reply:
    return json_reply({"error": text}, status=status)
