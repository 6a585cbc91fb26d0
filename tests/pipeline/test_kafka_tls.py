"""A stream on Kafka over TLS, with a user's password or a certificate, as its address says."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest

from ragmonitor import Monitor, ServerSettings, StreamSettings
from ragmonitor.back_half.stream_worker import StreamWorker
from ragmonitor.errors import StreamError
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.streams.kafka_streams import KafkaStream
from tests.support.certificates import Certificates, make_certificates
from tests.support.kafka_cluster import KafkaCluster, running_kafka
from tests.support.kafka_tls import secured
from tests.support.scrape import total
from tests.support.stories import interaction

pytestmark = pytest.mark.slow
SERVICE = "shop"
PASSWORD = "s3cret%"


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with running_kafka() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    name = f"t{uuid.uuid4().hex}"
    kafka.url(name)
    return name


def refusal(url: str) -> str:
    """Return what is said of a put that the cluster does not take."""
    stream = KafkaStream(url, SERVICE)
    try:
        with pytest.raises(StreamError) as refused:
            stream.put([b"x"])
    finally:
        stream.close()
    return str(refused.value)


def test_answers_go_to_a_worker_and_are_counted(
    kafka: KafkaCluster, files: Certificates, topic: str
):
    """With the user and the password of the address, which TLS hides, from end to end."""
    with secured(kafka.brokers, files, password=PASSWORD) as front:
        url = f"kafka://user:s3cret%25@{front.brokers}/{topic}?ssl.ca.location={files.authority}"
        off = ServerSettings(enabled=False)
        with Monitor(SERVICE, stream=StreamSettings(url=url), server=off) as monitor:
            for n in range(9):
                monitor.observe(interaction(id=f"{n:032x}"))
            assert monitor.flush()
        settings = Settings.load(service=SERVICE, server=False)
        worker = StreamWorker(settings, KafkaStream(url, SERVICE), redactor=Redactor())
        worker.run(threading.Event(), drain=True)
        assert total(worker.back.registry, "ragmonitor_interactions_total") == 9
    assert set(front.credentials) == {f"\0user\0{PASSWORD}".encode()}
    assert front.connections >= 2


def test_a_wrong_password_is_what_is_wrong(kafka: KafkaCluster, files: Certificates, topic: str):
    """The error says so, and has neither the password nor the address."""
    with secured(kafka.brokers, files, password=PASSWORD) as front:
        said = refusal(
            f"kafka://user:guess@{front.brokers}/{topic}?ssl.ca.location={files.authority}"
        )
    assert "the brokers refuse the user or the password" in said
    assert "guess" not in said
    assert front.brokers not in said
    assert f"\0user\0{PASSWORD}".encode() not in front.credentials


def test_a_server_of_an_unknown_authority_is_told_nothing(
    kafka: KafkaCluster, files: Certificates, topic: str
):
    """A certificate that nobody vouches for ends the connection before the password is sent."""
    with secured(kafka.brokers, files, password=PASSWORD) as front:
        said = refusal(f"kafka://user:s3cret%25@{front.brokers}/{topic}")
    assert "TLS fails" in said
    assert front.credentials == []
    assert front.connections == 0


def test_clients_are_known_by_their_certificates(
    kafka: KafkaCluster, files: Certificates, topic: str
):
    """With one, a record is stored and taken; without, the handshake fails."""
    with secured(kafka.brokers, files, clients=True) as front:
        url = (
            f"kafka://{front.brokers}/{topic}?security.protocol=SSL"
            f"&ssl.ca.location={files.authority}"
        )
        refusal(url)
        stream = KafkaStream(
            f"{url}&ssl.certificate.location={files.own}&ssl.key.location={files.key}", SERVICE
        )
        assert stream.put([b"x"]) == 1
        (delivery,) = stream.take("a", 9, wait_s=5, stale_s=None)
        assert delivery.data == b"x"
        stream.close()
