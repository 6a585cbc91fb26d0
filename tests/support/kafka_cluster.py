"""A Kafka cluster on loopback: librdkafka's own mock of one, from the client's distribution.

It keeps 5 MiB a partition, and groups whose last member left go on as groups with members.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OFFSET_COMMIT, PRODUCE = 8, 0
"""Keys of requests in Kafka's protocol."""


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

    def url(self, topic: str, *, partitions: int = 1, buried: int = 1) -> str:
        """Create a topic with its topic of buried records, and return the stream's address."""
        for name, count in ((topic, partitions), (f"{topic}.buried", buried)):
            self._library.rd_kafka_mock_topic_create(self._handle, name.encode(), count, 1)
        return f"kafka://{self.brokers}/{topic}"

    def down(self) -> None:
        """Refuse and cut all connections."""
        self._library.rd_kafka_mock_broker_set_down(self._handle, 1)

    def up(self) -> None:
        """Answer again."""
        self._library.rd_kafka_mock_broker_set_up(self._handle, 1)

    def fail(self, request: int, *errors: int) -> None:
        """Answer the next requests of a kind with errors, by their numbers in the protocol."""
        self._library.rd_kafka_mock_push_request_errors_array(
            self._handle,
            ctypes.c_int16(request),
            ctypes.c_size_t(len(errors)),
            (ctypes.c_int * len(errors))(*errors),
        )


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
