"""Streams: records between the processes that capture them and the worker that scores them."""

from ragmonitor.streams.deliveries import Buried, Delivery, Stream, StreamState
from ragmonitor.streams.in_memory import InMemoryStream
from ragmonitor.streams.redis_streams import RedisStream, stream_of

__all__ = [
    "Buried",
    "Delivery",
    "InMemoryStream",
    "RedisStream",
    "Stream",
    "StreamState",
    "stream_of",
]
