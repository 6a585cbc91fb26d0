"""Connects to a Redis server: with bounds on time, and errors that name no credentials."""

from __future__ import annotations

import ssl
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from ragmonitor.runtime.errors import MissingExtraError, SettingsError

SCHEMES: Final = ("redis", "rediss", "unix")
TIMEOUT_S: Final = 2.0
"""The limit of one command, and of connecting."""

_MALFORMED: Final = (
    "the address of the Redis server is malformed: it is redis://host:6379/0, or "
    "rediss://host:6379/0 with TLS, and ends with the number of a database. A user and a password "
    "stand before the host, USER:PASSWORD@; in them write %2F for /, %23 for #, %3F for ? and %40 "
    "for @"
)
"""The address is not quoted: what is wrong may be the rest of a password."""

Errors = tuple[type[Exception], ...]


def is_redis(address: str) -> bool:
    """Return whether an address is one of a Redis server: `redis://`, `rediss://`, `unix://`."""
    return "://" in address and urlsplit(address).scheme in SCHEMES


def redis_client(url: str, *, setting: str, timeout_s: float = TIMEOUT_S) -> tuple[Any, Errors]:
    """Return a client, which connects with its first command, and the errors that it may raise.

    Args:
        url: `redis://127.0.0.1:6379/0`, with TLS `rediss://`; user and password as usual in it.
        setting: Where the address is from, for people.
        timeout_s: Of one command, and of connecting.

    Raises:
        SettingsError: The address cannot be understood.
        MissingExtraError: `redis` is not installed.
    """
    _check_database(url, setting)
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise MissingExtraError("the client of Redis", "redis") from None
    try:
        client = redis.Redis.from_url(
            url,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            # What is done twice may be counted twice.
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:  # which may quote the address
        raise SettingsError(f"{setting}: {_MALFORMED}") from None
    # The last two: an option behind the question mark that the client does not take.
    return client, (redis.RedisError, OSError, TypeError, ValueError)


def _check_database(url: str, setting: str) -> None:
    """Raise `SettingsError` where the client would take another database without a word."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return  # the client says so
    path = "" if parts.scheme == "unix" else parts.path
    numbers = [path.strip("/"), *parse_qs(parts.query).get("db", ())]
    is_number = all(each == "" or (each.isascii() and each.isdigit()) for each in numbers)
    if not is_number or parts.fragment:
        raise SettingsError(f"{setting}: {_MALFORMED}")


def failure(error: Exception) -> str:
    """Return which error a command had: its own message may name the address, and is not quoted."""
    name = type(error).__name__
    if "DB index is out of range" in str(error):
        return f"{name}: the server has no database of the address's number"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"{name}: the server's certificate is not trusted; name the file of its authority "
                "behind the address, ?ssl_ca_certs=/etc/ca.pem"
            )
        if isinstance(cause, OSError) and cause.strerror:
            return f"{name}: {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return name
