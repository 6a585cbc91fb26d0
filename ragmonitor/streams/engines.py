"""Chooses the engine that an address names."""

from __future__ import annotations

from urllib.parse import urlsplit

from ragmonitor.errors import SettingsError
from ragmonitor.redis_client import is_redis
from ragmonitor.settings import Settings
from ragmonitor.streams.deliveries import Stream
from ragmonitor.streams.kafka_client import SCHEME
from ragmonitor.streams.kafka_streams import KafkaStream
from ragmonitor.streams.redis_streams import RedisStream


def url_of(settings: Settings, examples: str = "redis://127.0.0.1:6379/0, kafka://...") -> str:
    """Return the address of the stream that the settings name.

    Args:
        settings: The settings.
        examples: Addresses that could be given.

    Raises:
        SettingsError: They name none.
    """
    if settings.stream.url is None:
        raise SettingsError(f"no stream is named: give --stream {examples}, or RAGMONITOR_STREAM")
    return settings.stream.url.get_secret_value()


def stream_in(settings: Settings) -> Stream:
    """Return the stream that the settings name.

    Raises:
        SettingsError: They name none, or none that can be opened.
        MissingExtraError: Its client is not installed.
    """
    url = url_of(settings)
    return stream_of(url, settings.service, max_records=settings.stream.max_records)


def stream_of(url: str, service: str, *, max_records: int) -> Stream:
    """Return the stream of a service.

    Args:
        url: `redis://127.0.0.1:6379/0`, with TLS `rediss://`, or `kafka://broker:9092/topic`; user
            and password as usual in it.
        service: Whose records these are.
        max_records: What does not fit is refused.

    Raises:
        SettingsError: The address is none of such a stream.
        MissingExtraError: The engine's client is not installed.
    """
    if is_redis(url):
        return RedisStream(url, service, max_records=max_records)
    if url.startswith(f"{SCHEME}://"):
        return KafkaStream(url, service, max_records=max_records)
    raise SettingsError(
        "stream: addresses begin with redis://, rediss://, unix:// or kafka://, not "
        f"{urlsplit(url).scheme[:20]!r}"
    )
