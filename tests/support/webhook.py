"""A webhook on loopback that keeps what Alertmanager tells it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of Alertmanager's."""

    receiver: str
    """The last part of the path it was posted to."""
    at_s: float
    """Seconds on the monotonic clock."""
    content: Mapping[str, Any]
    """Version 4 of the format."""

    def alerts(self, name: str, status: str) -> list[Mapping[str, Any]]:
        """Return those of an alert's name that are `firing` or `resolved`."""
        return [
            alert
            for alert in self.content["alerts"]
            if alert["status"] == status and alert["labels"]["alertname"] == name
        ]


@dataclass(slots=True)
class Webhook:
    """Keeps what is posted."""

    url: str
    messages: list[Message] = field(default_factory=list)

    def find(self, name: str, status: str) -> Message | None:
        """Return the first message that has an alert of that name in that state."""
        return next((m for m in tuple(self.messages) if m.alerts(name, status)), None)


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Run one until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            content = json.loads(self.rfile.read(length))
            receiver = self.path.rpartition("/")[2]
            found.messages.append(
                Message(receiver=receiver, at_s=time.monotonic(), content=content)
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing on standard error."""

    with _serving(Handler) as url:
        found = Webhook(url)
        yield found


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
