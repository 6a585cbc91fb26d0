"""Reads what a running monitor serves: its state beside /metrics, and its page."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.http_pool import http_pool
from ragmonitor.settings import Settings

TIMEOUT_S: Final = 10.0
_LOCAL: Final = re.compile(r"localhost|127(\.\d+){3}|::1")
_DEFAULT_PORT: Final = 7247
_HINTS: Final[Mapping[int, str]] = {
    401: "the page needs its token: set RAGMONITOR_SERVER__TOKEN",
    403: "a monitor that listens on 127.0.0.1 must be asked under that name, or localhost",
    404: "give the address that the monitor itself serves; its page needs server.ui=true",
}


def is_free(host: str, port: int) -> bool:
    """Return whether this process could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As HTTP servers do: a connection in TIME_WAIT does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


class RunningMonitor:
    """A running monitor, as it is served: its numbers beside /metrics, and its page."""

    def __init__(self, host_or_url: str | None) -> None:
        """Read nothing yet.

        Args:
            host_or_url: As a user gives it: an address of /metrics or of the page, or a host and a
                port; None: the address in the settings. The page's token is theirs, too.

        Raises:
            InputError: It is not an HTTP address.
            SettingsError: The settings cannot be read.
        """
        server = Settings.load().server
        if host_or_url is None:
            update = {"enabled": True, "port": server.port or _DEFAULT_PORT}
            host_or_url = server.model_copy(update=update).metrics_url()
        absolute = host_or_url if "://" in host_or_url else f"http://{host_or_url}"
        try:
            parts = urlsplit(absolute)
            is_http = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_http = False
        if not is_http:
            raise InputError(
                f"{shown(absolute)!r} is not an HTTP address, such as http://127.0.0.1:7247/metrics"
            )
        prefix = parts.path.rstrip("/").removesuffix(".json").removesuffix("/metrics")
        prefix = prefix.removesuffix("/ragmonitor")
        base = urlunsplit(parts._replace(path=prefix, query="", fragment=""))
        self.url, self.page_url = f"{base}/metrics.json", f"{base}/ragmonitor/"
        token = server.token
        self._headers = {"Authorization": f"Bearer {token.get_secret_value()}"} if token else {}

    def records(self) -> list[dict[str, Any]]:
        """Return the records of the services whose state is served.

        Raises:
            InputError: Nothing answers, or the reply is not the state of a monitor.
        """
        try:
            return list(json.loads(self._served(self.url))["services"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            problem = f"{shown(self.url)} serves no state of a monitor of ragmonitor"
            raise InputError(problem) from error

    def numbers(self) -> list[dict[str, Any]]:
        """Return the records of the services whose numbers are served.

        Raises:
            InputError: Nothing answers, or the reply has no numbers of a monitor.
        """
        records = self.records()
        kept = [record for record in records if not record.get("is_elsewhere")]
        if records and not kept:
            raise InputError(
                f"{shown(self.url)}: this process puts its answers on a stream: "
                "`ragmonitor worker` keeps the numbers"
            )
        return kept

    def text(self, name: str) -> str:
        """Return one file of the page.

        Raises:
            InputError: Nothing answers, or no page is served there.
        """
        try:
            return self._served(self.page_url + name).decode("utf-8", "replace")
        except InputError:
            self.numbers()  # says it where another process has numbers and page
            raise

    def json(self, name: str, *members: str) -> dict[str, Any]:
        """Return one file of the page that holds an object with these members.

        Raises:
            InputError: Nothing answers, or no such file is served there.
        """
        text = self.text(name)
        try:
            state = dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            state = {}
        if not state.keys() >= {*members}:
            raise InputError(
                f"{shown(self.page_url)} serves no {name.partition('?')[0]} of ragmonitor"
            )
        return state

    def answers(self, **query: str | int) -> dict[str, Any]:
        """Return the answers that match a query, the worst first.

        Raises:
            InputError: Nothing answers, or no page is served there.
        """
        return self.json(f"answers.json?{urlencode(query)}", "answers", "found")

    def _served(self, url: str) -> bytes:
        """Return what is served at an address. Raises `InputError`."""
        import urllib3

        named = shown(url.partition("?")[0])
        # Without a proxy on this machine: it would ask itself, not the monitor.
        is_local = _LOCAL.fullmatch(urlsplit(url).hostname or "")
        pool = urllib3.PoolManager() if is_local else http_pool(url)
        once: Any = {"retries": False, "redirect": False, "timeout": TIMEOUT_S}
        try:
            # Without redirects: the token would be sent there, too.
            reply = pool.request("GET", url, headers=self._headers, **once)
        except urllib3.exceptions.HTTPError as error:
            reason = str(error).rpartition(": ")[2]
            raise InputError(
                f"nothing answers at {named} ({reason}); is the monitored application running?"
            ) from error
        if reply.status != 200:
            hint = _HINTS.get(reply.status, "is it a monitor?")
            raise InputError(f"{named} answers with status {reply.status}; {hint}")
        return bytes(reply.data)
