"""How commands ask a running monitor."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ragmonitor.cli.monitor_client import served
from ragmonitor.runtime.errors import InputError


class _Moved(BaseHTTPRequestHandler):
    asked: list[tuple[str, str]]

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        self.send_response(int(self.path.strip("/")) if self.path != "/elsewhere" else 200)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args):
        pass


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_so_that_the_token_goes_nowhere_else(status):
    """The token of the page is sent to the address that the user named, and to no other."""
    handler = type("Handler", (_Moved,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(InputError, match=f"status {status}"):
            served(f"http://127.0.0.1:{server.server_port}/{status}", token="t" * 20)
    finally:
        server.shutdown()
        server.server_close()
    assert handler.asked == [(f"/{status}", "Bearer " + "t" * 20)]
