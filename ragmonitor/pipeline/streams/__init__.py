"""Streams: records between the processes that capture them and the worker that scores them."""

from ragmonitor.pipeline.streams.consumers import (
    MAX_DELIVERIES,
    Consumer,
    log_burial,
    name_of_process,
)
from ragmonitor.pipeline.streams.deliveries import Delivery, Stream, StreamState
from ragmonitor.pipeline.streams.redis_streams import RedisStream

__all__ = [
    "MAX_DELIVERIES",
    "Consumer",
    "Delivery",
    "RedisStream",
    "Stream",
    "StreamState",
    "log_burial",
    "name_of_process",
]
