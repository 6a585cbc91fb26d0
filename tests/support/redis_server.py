"""A real Redis on loopback, from the system's packages."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.certificates import Certificates
from tests.support.prometheus_server import free_port, require_binary
from tests.support.waiting import until


class RedisServer:
    """A running server."""

    def __init__(
        self, port: int, process: subprocess.Popen[bytes], password: str, tls: Certificates | None
    ) -> None:
        self.process = process
        credentials = f":{quote(password, safe='')}@" if password else ""
        self.url = f"redis://{credentials}127.0.0.1:{port}/0"
        if tls is not None:
            self.url = f"rediss{self.url[5:]}?ssl_ca_certs={tls.authority}"

    def client(self) -> Any:
        """Return a client of its own."""
        import redis

        return redis.Redis.from_url(self.url)

    def pause(self) -> None:
        """Have it answer nobody, as behind a broken network."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have it answer again."""
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def running_redis(
    folder: Path,
    *,
    password: str = "",
    port: int = 0,
    fsync: str = "always",
    tls: Certificates | None = None,
) -> Iterator[RedisServer]:
    """Start a server that stores every write at once in the folder; end it afterwards."""
    binary = require_binary("redis-server")
    port = port or free_port()
    options = {
        "bind": "127.0.0.1",
        "port": str(0 if tls else port),
        "dir": str(folder),
        "save": "",
        "appendonly": "yes",
        "appendfsync": fsync,
        "maxmemory-policy": "noeviction",
    } | ({"requirepass": password} if password else {})
    if tls is not None:
        options |= {
            "tls-port": str(port),
            "tls-cert-file": str(tls.own),
            "tls-key-file": str(tls.key),
            "tls-auth-clients": "no",
        }
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen([binary, *arguments], stdout=log, stderr=log, env=os.environ)
    server = RedisServer(port, process, password, tls)
    try:
        with server.client() as client:
            until("redis-server answers", client.ping)
        yield server
    finally:
        server.resume()
        process.kill()
        process.wait(10)
