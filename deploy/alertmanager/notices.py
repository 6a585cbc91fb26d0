# ruff: noqa: INP001 - a script, run by its path
"""Takes Alertmanager's notices by HTTP and appends them to a file: a receiver that needs no key.

    python deploy/alertmanager/notices.py alerts.jsonl [--host 127.0.0.1] [--port 9095]

One JSON object a line: when, which receiver (the path of the webhook), whether it fires or is
resolved, and of each alert its name, labels, texts and links. GET shows the newest. It needs
nothing but Python, and is for one machine: whoever reaches the port may write to the file. At
`MAX_FILE_BYTES` the file is moved aside, so that it takes twice that at most.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MAX_REQUEST_BYTES = 1 << 20
MAX_FILE_BYTES = 10 << 20
SHOWN_BYTES = 16_384
"""Of the end of the file, by GET."""
TIMEOUT_S = 10


def line_of(receiver: str, notice: dict[str, Any]) -> str:
    """Return what is written of one notice (Alertmanager's webhook, version 4)."""
    kept = ("status", "labels", "annotations", "startsAt", "endsAt", "generatorURL")
    alerts = [{name: alert.get(name) for name in kept} for alert in notice["alerts"]]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    told = {"time": now, "receiver": receiver, "status": notice["status"], "alerts": alerts}
    return json.dumps(told, ensure_ascii=False)


class Notices(ThreadingHTTPServer):
    """Appends what is posted to one file."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], file: Path) -> None:
        """Listen; nothing is answered before `serve_forever`."""
        self.file = file
        self._writing = threading.Lock()
        super().__init__(address, _Handler)

    def append(self, line: str) -> None:
        """Append one line. Raises `OSError`."""
        with self._writing:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.file.exists() and self.file.stat().st_size > MAX_FILE_BYTES:
                self.file.replace(f"{self.file}.1")
            descriptor = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(line + "\n")
        print(line, flush=True)  # noqa: T201 - for `docker compose logs`

    def newest(self) -> bytes:
        """Return the end of the file, from the beginning of a line on."""
        if not self.file.exists():
            return b""
        with self.file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - SHOWN_BYTES))
            text = file.read()
        return text if size <= SHOWN_BYTES else text.partition(b"\n")[2]


class _Handler(BaseHTTPRequestHandler):
    server: Notices
    timeout = TIMEOUT_S

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_REQUEST_BYTES:
            self.send_error(413)
            return
        try:
            line = line_of(self.path.strip("/"), json.loads(self.rfile.read(int(length))))
        except (ValueError, KeyError, TypeError, AttributeError):
            self.send_error(400)
            return
        try:
            self.server.append(line)
        except OSError as error:  # Alertmanager tries again, and logs that it had to
            self.send_error(507, str(error.strerror))
            return
        self._send(b"")

    def do_GET(self) -> None:
        self._send(self.server.newest())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the library
        """Log nothing: the notices themselves are printed."""


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9095)
    given = parser.parse_args()
    with Notices((given.host, given.port), given.file) as server, suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
