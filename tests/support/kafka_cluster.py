"""A Kafka cluster on loopback: librdkafka's own mock of one, from the client's distribution.

It keeps 5 MiB a partition, and groups whose last member left go on as groups with members.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def _library() -> Any:
    import confluent_kafka

    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka-*.so*"))))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class KafkaCluster:
    """A running cluster of one broker."""

    def __init__(self, library: Any, handle: ctypes.c_void_p) -> None:
        self._library, self._handle = library, handle
        bootstraps: bytes = library.rd_kafka_mock_cluster_bootstraps(handle)
        self.brokers = bootstraps.decode()
        if hasattr(library, "rd_kafka_mock_group_initial_rebalance_delay_ms"):  # newer than 2.4
            library.rd_kafka_mock_group_initial_rebalance_delay_ms(handle, 0)

    def url(self, topic: str) -> str:
        """Create a topic, and return its address."""
        self._library.rd_kafka_mock_topic_create(self._handle, topic.encode(), 1, 1)
        return f"kafka://{self.brokers}/{topic}"


@contextmanager
def running_kafka() -> Iterator[KafkaCluster]:
    """Start a cluster; end it afterwards."""
    library = _library()
    said = ctypes.create_string_buffer(512)
    conf = ctypes.c_void_p(library.rd_kafka_conf_new())
    library.rd_kafka_conf_set_log_cb(conf, None)
    client = ctypes.c_void_p(library.rd_kafka_new(0, conf, said, len(said)))
    assert client, said.value
    handle = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, 1))
    assert handle
    try:
        yield KafkaCluster(library, handle)
    finally:
        library.rd_kafka_mock_cluster_destroy(handle)
        library.rd_kafka_destroy(client)
