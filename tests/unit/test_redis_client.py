"""Addresses of Redis servers: which database they name, and what is said of wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.runtime.errors import StreamError
from ragmonitor.runtime.redis_client import redis_client
from ragmonitor.store import StoreUnavailableError, store_at
from tests.support.certificates import make_certificates
from tests.support.redis_server import RedisServer, running_redis

pytest.importorskip("redis")

MALFORMED = (
    "redis://u:geheim@127.0.0.1:6379/abc",
    "redis://u:geheim@127.0.0.1:6379/0/1",
    "redis://u:geheim@127.0.0.1:6379/?db=one",
    "redis://u:geheim@127.0.0.1:6379/%31",
    "redis://u:geheim@127.0.0.1:port/0",
    "unix:///run/redis.sock?db=abc",
)


def has_secret(said: str) -> bool:
    return "geheim" in said or "heim@" in said


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("redis://127.0.0.1", None),
        ("redis://127.0.0.1:6379/0", 0),
        ("rediss://u:p%2Fs%23@127.0.0.1:6379/3", 3),
        ("unix:///run/redis.sock?db=5", 5),
    ],
)
def test_the_address_names_the_database(url: str, database: int | None):
    """As a number behind the host, or as the option `db`; none is the server's first."""
    client, _ = redis_client(url, setting="send_to")
    assert client.connection_pool.connection_kwargs.get("db") == database


@pytest.mark.parametrize("variable", ["RAGMONITOR_SEND_TO", "RAGMONITOR_STATE"])
def test_doctor_refuses_it(variable: str, monkeypatch: pytest.MonkeyPatch):
    """As a probe that fails, and without the password."""
    monkeypatch.setenv(variable, MALFORMED[0])
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "number of a database" in " ".join(result.output.split())
    assert not has_secret(result.output)


def test_doctor_refuses_a_state_that_deletes_sums(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A server that evicts keys when it is full."""
    with running_redis(tmp_path) as server:
        client, _ = redis_client(server.url, setting="state")
        client.config_set("maxmemory-policy", "allkeys-lru")
        monkeypatch.setenv("RAGMONITOR_STATE", server.url)
        result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "allkeys-lru" in result.output


PASSWORD = "geh/eim#1@x"


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    folder = tmp_path_factory.mktemp("redis")
    with running_redis(folder, password=PASSWORD, tls=make_certificates(folder)) as server:
        yield server


def test_records_and_states_go_over_tls(encrypted: RedisServer):
    """With a password in which each character of an address's own stands."""
    stream = RedisStream(encrypted.url, "shop")
    assert stream.put(b"record")
    assert stream.state().waiting == 1
    assert store_at(encrypted.url, "shop").now() > 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda url: url.partition("?")[0], "the server's certificate is not trusted"),
        (lambda url: url.replace("ca.pem", "none.pem"), "No such file"),
        (lambda url: url.replace("geh", "ger"), "AuthenticationError"),
        (lambda url: url.replace("/0?", "/99?"), "no database of the address's number"),
        (lambda url: "redis" + url.partition("?")[0][6:], "ConnectionError"),
        (lambda url: url.replace("127.0.0.1", "nowhere.invalid"), "ConnectionError: "),
    ],
    ids=["authority", "file", "password", "database", "no TLS", "host"],
)
def test_what_fails_is_said_without_the_address(
    encrypted: RedisServer, changed: Callable[[str], str], said: str
):
    """Neither host nor password stand in an error, of a stream or of a state."""
    url = changed(encrypted.url)
    for failing in (RedisStream(url, "shop").state, store_at(url, "shop").now):
        with pytest.raises((StreamError, StoreUnavailableError), match=said) as failed:
            failing()
        for part in (PASSWORD, quote(PASSWORD, safe=""), "127.0.0.1", "nowhere", "none.pem"):
            assert part not in str(failed.value)
