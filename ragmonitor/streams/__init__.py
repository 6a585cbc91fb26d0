"""Streams: records between the processes that capture them and the worker that scores them."""

from ragmonitor.streams.consumers import MAX_DELIVERIES, Consumer, log_burial, name_of_process
from ragmonitor.streams.deliveries import Delivery, Stream, StreamState
from ragmonitor.streams.redis_streams import RedisStream

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
