"""Access to the page: from this machine, or with the token."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from email.message import Message
from typing import Final

from pydantic import SecretStr

from ragmonitor.export.server import Reply

ANOTHER_NAME: Final = Reply(
    status=403,
    body=(
        "This page is for this machine only: open it as http://localhost or http://127.0.0.1.\n"
        "此页面仅限本机访问：请用 http://localhost 或 http://127.0.0.1 打开。\n"
    ).encode(),
)
NO_TOKEN: Final = Reply(
    status=401,
    body=(
        "A token is needed: open /?token=... once, or send 'Authorization: Bearer ...'.\n"
        "需要令牌：请先打开一次 /?token=...，或发送 'Authorization: Bearer ...'。\n"
    ).encode(),
    headers=(("WWW-Authenticate", "Bearer"),),
)

_COOKIE_OF: Final = b"ragmonitor view"


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on, or a name in a `Host` header, is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Decides on each request.

    Without a token every client that connects may see the page. So it is for loopback only, and
    only under a name of loopback: otherwise a website whose name is made to point to 127.0.0.1 (DNS
    rebinding) would be let in by the visitor's own browser. With a token the name does not matter:
    a cookie is sent only to the name that set it.
    """

    def __init__(self, token: SecretStr | None = None) -> None:
        """Take the token; None: there is none."""
        self._token = None if token is None else token.get_secret_value().encode()
        digest = hmac.digest(self._token or b"", _COOKIE_OF, hashlib.sha256).hex()
        # Cookies are shared by the ports of a host: two applications need two names. The value is
        # not the token itself: a stolen cookie is no bearer token.
        self._pair = f"ragmonitor_view_{digest[:8]}={digest[8:]}"

    def refusal(self, headers: Message) -> Reply | None:
        """Return what a request is refused with; None: it is not.

        Args:
            headers: Of the request.
        """
        if self._token is None:
            return None if is_loopback(_host(headers.get("Host", ""))) else ANOTHER_NAME
        scheme, _, value = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(value.strip()):
            return None
        return None if self._has_cookie(headers.get("Cookie", "")) else NO_TOKEN

    def is_token(self, given: str) -> bool:
        """Return whether this is the token, in a time that does not depend on how much of it is."""
        if self._token is None:
            return False
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    @property
    def needs_token(self) -> bool:
        """Whether there is one."""
        return self._token is not None

    @property
    def cookie(self) -> str:
        """The `Set-Cookie` header's value for whoever has shown the token."""
        return f"{self._pair}; Path=/; HttpOnly; SameSite=Strict"

    def _has_cookie(self, header: str) -> bool:
        given = (each.strip().encode("utf-8", "replace") for each in header.split(";"))
        return any(hmac.compare_digest(each, self._pair.encode()) for each in given)


def _host(header: str) -> str:
    """Return the name in a `Host` header, without its port."""
    name = header.strip()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]
