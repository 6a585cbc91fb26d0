"""Connects to a Redis server: with bounds on time, and errors that name no credentials."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from ragmonitor.errors import MissingExtraError, SettingsError

SCHEMES: Final = ("redis", "rediss", "unix")
TIMEOUT_S: Final = 2.0
"""The limit of one command, and of connecting."""

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
        raise SettingsError(f"{setting}: the address of the Redis server is malformed") from None
    return client, (redis.RedisError, OSError)
