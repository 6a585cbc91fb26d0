"""Reads what a running monitor serves: its state beside /metrics, and its page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit, urlunsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import InputError
from ragmonitor.settings import Settings

HTTP_TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 64 * 1024 * 1024
METRICS: Final = "/metrics"
STATE: Final = "/metrics.json"
PAGE: Final = "/ragmonitor/"
_LOCAL: Final = re.compile(r"localhost|127(\.\d+){3}|::1")
_DEFAULT_PORT: Final = 7247
_HINT: Final = (
    "the monitor serves it with server.ui=true, to whoever has its token, from the first scored "
    "answer on"
)


def address(host_or_url: str | None, path: str = STATE) -> str:
    """Return the address of the state, from that of /metrics or from a host and a port.

    Args:
        host_or_url: As a user gives it; None: as the settings say.
        path: Of what is wanted there.

    Raises:
        InputError: It is no address of HTTP.
        SettingsError: None is given, and the settings cannot be read.
    """
    if host_or_url is None:
        server = Settings.load().server
        found = server.model_copy(update={"enabled": True, "port": server.port or _DEFAULT_PORT})
        host_or_url = found.metrics_url()
    absolute = host_or_url if "://" in host_or_url else f"http://{host_or_url}"
    try:
        parts = urlsplit(absolute)
        is_http = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_http = False
    if not is_http:
        raise InputError(
            f"{shown(absolute)!r} is no address of HTTP, such as http://127.0.0.1:7247/metrics"
        )
    prefix = parts.path.rstrip("/").removesuffix(".json").removesuffix(METRICS)
    prefix = prefix.removesuffix("/ragmonitor")
    return urlunsplit(parts._replace(path=f"{prefix}{path}", query="", fragment=""))


def fetched(url: str, *, timeout_s: float = HTTP_TIMEOUT_S) -> list[dict[str, Any]]:
    """Return the records of the services whose state is served at an address.

    Raises:
        InputError: Nothing answers, or not with the state of a monitor.
    """
    try:
        return list(json.loads(served(url, timeout_s=timeout_s))["services"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{shown(url)} serves no state of a monitor of ragmonitor") from error


def why_no_numbers(record: Mapping[str, Any]) -> str:
    """Say why a service's record has no numbers, and who has them; empty: it has them.

    Args:
        record: One of those that `fetched` returns.
    """
    if not (isinstance(record, Mapping) and record.get("is_elsewhere")):
        return ""
    return (
        "a process that puts answers on a stream, which keeps no numbers of answers; "
        "`ragmonitor worker` keeps them"
    )


def numbers(url: str, *, timeout_s: float = HTTP_TIMEOUT_S) -> list[dict[str, Any]]:
    """Return the records of the services whose numbers are served at an address.

    Raises:
        InputError: Nothing answers, or not with the numbers of a monitor.
    """
    records = fetched(url, timeout_s=timeout_s)
    reasons = [why_no_numbers(record) for record in records]
    if reasons and all(reasons):
        raise InputError(f"{shown(url)}: {reasons[0]}")
    return [record for record, reason in zip(records, reasons, strict=True) if not reason]


def served(url: str, *, token: str = "", timeout_s: float = HTTP_TIMEOUT_S) -> bytes:
    """Return what a monitor serves at an address.

    Args:
        url: The address.
        token: The page's; empty: none is sent.
        timeout_s: Of connecting, and of each reading.

    Raises:
        InputError: Nothing answers, or not as a monitor does.
    """
    named = shown(url.partition("?")[0])
    request = Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310 - `address` has looked
    try:
        with _opener(url).open(request, timeout=timeout_s) as reply:
            body: bytes = reply.read(MAX_BYTES + 1)
    except HTTPError as error:
        error.close()
        if error.code == HTTPStatus.FORBIDDEN:
            raise InputError(
                f"{named} answers with status {error.code}: a monitor that listens on 127.0.0.1 "
                "wants to be asked under that name, or localhost"
            ) from error
        if error.code == HTTPStatus.UNAUTHORIZED:
            raise InputError(
                f"{named} answers with status {error.code}: the page needs its token "
                "(server.token), by --token or the variable RAGMONITOR_SERVER__TOKEN"
            ) from error
        raise InputError(
            f"{named} answers with status {error.code}, not with a monitor's state; give the "
            "address that the monitor itself serves, not one at which its registry is mounted"
        ) from error
    except (URLError, OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(
            f"nothing answers at {named} ({reason}); is the monitored application running? "
            "It serves /metrics from its first interaction on"
        ) from error
    if len(body) > MAX_BYTES:
        raise InputError(f"{named} serves more than {MAX_BYTES // 2**20} MiB")
    return body


def _opener(url: str) -> OpenerDirector:
    # A proxy that the environment names is for other machines, and knows nothing of this one.
    if _LOCAL.fullmatch(urlsplit(url).hostname or ""):
        return build_opener(_NoRedirects, ProxyHandler({}), HTTPHandler, HTTPSHandler)
    return build_opener(_NoRedirects)


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: the token would go along to wherever it points."""

    def redirect_request(self, *_args: object) -> None:
        """Return None: the status is the answer."""


class Page:
    """The page of a running monitor."""

    def __init__(self, host_or_url: str | None, token: str | None = None) -> None:
        """Read nothing yet.

        Args:
            host_or_url: As a user gives it; None: as the settings say.
            token: Of the page; None: as the settings say; empty: none is sent.
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
        except InputError as error:
            cause = error.__cause__
            if isinstance(cause, HTTPError) and cause.code == HTTPStatus.NOT_FOUND:
                self._refuse_without_numbers()
            raise InputError(f"{error}; {_HINT}") from error

    def _refuse_without_numbers(self) -> None:
        """Raise `InputError` where another process has the numbers, and so the page."""
        try:
            reasons = [why_no_numbers(record) for record in fetched(self._state_url)]
        except InputError:
            return
        if reasons and all(reasons):
            raise InputError(f"{shown(self.url)}: {reasons[0]}")

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
            raise InputError(f"{shown(self.url)} serves no {name.partition('?')[0]}; {_HINT}")
        return state

    def answers(self, **query: str | int) -> dict[str, Any]:
        """Return the answers that fit a query, the worst first.

        Raises:
            InputError: Nothing answers, or no page is served there.
        """
        return self.json(f"answers.json?{urlencode(query)}", "answers", "found")
