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

HTTP_TIMEOUT_S: Final = 10.0
METRICS: Final = "/metrics"
STATE: Final = "/metrics.json"
PAGE: Final = "/ragmonitor/"
_LOCAL: Final = re.compile(r"localhost|127(\.\d+){3}|::1")
_DEFAULT_PORT: Final = 7247
_HINTS: Final[Mapping[int, str]] = {
    401: "the page needs its token: set RAGMONITOR_SERVER__TOKEN",
    403: "a monitor that listens on 127.0.0.1 must be asked under that name, or localhost",
    404: "give the address that the monitor itself serves; its page needs server.ui=true",
}


def address(host_or_url: str | None, path: str = STATE) -> str:
    """Return the address of the state, from that of /metrics or from a host and a port.

    Args:
        host_or_url: As a user gives it; None: the address in the settings.
        path: Of what is wanted there.

    Raises:
        InputError: It is not an HTTP address.
        SettingsError: None is given, and the settings cannot be read.
    """
    if host_or_url is None:
        server = Settings.load().server
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
    prefix = parts.path.rstrip("/").removesuffix(".json").removesuffix(METRICS)
    prefix = prefix.removesuffix("/ragmonitor")
    return urlunsplit(parts._replace(path=f"{prefix}{path}", query="", fragment=""))


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


def fetched(url: str, *, timeout_s: float = HTTP_TIMEOUT_S) -> list[dict[str, Any]]:
    """Return the records of the services whose state is served at an address.

    Raises:
        InputError: Nothing answers, or the reply is not the state of a monitor.
    """
    try:
        return list(json.loads(served(url, timeout_s=timeout_s))["services"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{shown(url)} serves no state of a monitor of ragmonitor") from error


def why_no_numbers(record: Mapping[str, Any]) -> str:
    """Return why a service's record has no numbers; empty: it has them."""
    if not record.get("is_elsewhere"):
        return ""
    return "puts its answers on a stream: `ragmonitor worker` keeps the numbers"


def numbers(url: str) -> list[dict[str, Any]]:
    """Return the records of the services whose numbers are served at an address.

    Raises:
        InputError: Nothing answers, or the reply has no numbers of a monitor.
    """
    records = fetched(url)
    kept = [record for record in records if not why_no_numbers(record)]
    if records and not kept:
        raise InputError(f"{shown(url)}: this process {why_no_numbers(records[0])}")
    return kept


def served(url: str, *, token: str = "", timeout_s: float = HTTP_TIMEOUT_S) -> bytes:
    """Return what a monitor serves at an address.

    Args:
        url: The address.
        token: Of the page; empty: none is sent.
        timeout_s: Of connecting, and of each reading.

    Raises:
        InputError: Nothing answers, or not as a monitor does.
    """
    import urllib3

    named = shown(url.partition("?")[0])
    # Without a proxy on this machine: it would ask itself, not the monitor.
    is_local = _LOCAL.fullmatch(urlsplit(url).hostname or "")
    pool = urllib3.PoolManager() if is_local else http_pool(url)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        # Without redirects: the token would be sent there, too.
        reply = pool.request(
            "GET", url, headers=headers, timeout=timeout_s, retries=False, redirect=False
        )
    except urllib3.exceptions.HTTPError as error:
        reason = str(error).rpartition(": ")[2]
        raise InputError(
            f"nothing answers at {named} ({reason}); is the monitored application running?"
        ) from error
    if reply.status != 200:
        hint = _HINTS.get(reply.status, "is it a monitor?")
        raise InputError(f"{named} answers with status {reply.status}; {hint}")
    return bytes(reply.data)


class Page:
    """The page of a running monitor."""

    def __init__(self, host_or_url: str | None, token: str | None = None) -> None:
        """Read nothing yet.

        Args:
            host_or_url: As a user gives it; None: the address in the settings.
            token: Of the page; None: the token in the settings; empty: none is sent.
        """
        self.url, self._state_url = address(host_or_url, PAGE), address(host_or_url, STATE)
        if token is None:
            secret = Settings.load().server.token
            token = "" if secret is None else secret.get_secret_value()
        self._token = token

    def text(self, name: str) -> str:
        """Return one file of the page.

        Raises:
            InputError: Nothing answers, or no page is served there.
        """
        try:
            return served(self.url + name, token=self._token).decode("utf-8", "replace")
        except InputError:
            numbers(self._state_url)  # says it where another process has numbers and page
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
            raise InputError(f"{shown(self.url)} serves no {name.partition('?')[0]} of ragmonitor")
        return state

    def answers(self, **query: str | int) -> dict[str, Any]:
        """Return the answers that match a query, the worst first.

        Raises:
            InputError: Nothing answers, or no page is served there.
        """
        return self.json(f"answers.json?{urlencode(query)}", "answers", "found")
