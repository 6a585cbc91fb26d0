"""What every stream promises, whatever engine is behind it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.runtime.errors import SettingsError, StreamError
from tests.support.in_memory_stream import InMemoryStream
from tests.support.redis_server import RedisServer, running_redis

Open = Callable[[], RedisStream]
"""Opens the same stream once more, as another process does."""


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory) -> Iterator[RedisServer]:
    pytest.importorskip("redis")
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["memory", "redis"])
def opened(request) -> Iterator[Open]:
    if request.param == "memory":
        stream = InMemoryStream(max_records=5)
        yield lambda: stream
        return
    service = f"shop {uuid.uuid4().hex}"
    streams: list[RedisStream] = []
    url = request.getfixturevalue("redis_server").url

    def open_stream() -> RedisStream:
        streams.append(RedisStream(url, service, max_records=5))
        return streams[-1]

    yield open_stream
    for each in streams:
        each.close()


def take(stream: RedisStream, consumer: str = "a", most: int = 10, stale_s: float | None = None):
    return stream.take(consumer, most, wait_s=0, stale_s=stale_s)


def test_no_record_is_given_to_two(opened: Open):
    """Consumers share what there is."""
    a, b = opened(), opened()
    for data in (b"1", b"2", b"3"):
        a.put(data)
    first, second = take(a, "a", 2), take(b, "b", 2)
    assert [each.data for each in (*first, *second)] == [b"1", b"2", b"3"]


def test_what_is_settled_is_gone(opened: Open):
    """It is neither waiting nor open, and nobody gets it again."""
    stream = opened()
    for data in (b"1", b"2"):
        stream.put(data)
    first, second = take(stream)
    stream.settle([first.id])
    assert [each.data for each in take(opened(), "b", stale_s=0)] == [b"2"]
    stream.settle([second.id, second.id, first.id])
    state = stream.state()
    assert (state.waiting, state.open) == (0, 0)


def test_what_was_let_lie_is_taken_over(opened: Open):
    """After its time, by anybody; and the deliveries are counted."""
    stream = opened()
    stream.put(b"1")
    take(stream, "a")
    assert take(opened(), "b", stale_s=3_600) == []
    assert take(opened(), "b") == []
    (again,) = take(opened(), "b", stale_s=0)
    (more,) = take(opened(), "b", stale_s=0)
    assert (again.data, again.deliveries, more.deliveries) == (b"1", 2, 3)


def test_the_state_says_how_much_is_where(opened: Open):
    """Waiting and open add up to what was put and not settled."""
    stream = opened()
    for data in (b"1", b"2", b"3"):
        stream.put(data)
    first, _ = take(stream, most=2)
    stream.settle([first.id])
    state = opened().state()
    assert (state.waiting, state.open) == (1, 1)
    assert state.oldest_s >= 0


def test_what_does_not_fit_is_refused_and_nothing_is_dropped(opened: Open):
    """A full stream takes what has room, and keeps what nobody has read."""
    stream = opened()
    assert sum(stream.put(bytes([n])) for n in range(7)) == 5
    assert not stream.put(b"more")
    taken = take(opened())
    assert [each.data for each in taken] == [bytes([n]) for n in range(5)]
    stream.settle([each.id for each in taken])
    assert stream.put(b"more")


def test_who_renews_keeps_what_it_has(opened: Open):
    """However long it has had it, and it counts as no delivery."""
    stream, other = opened(), opened()
    stream.put(b"1")
    (taken,) = take(stream, "a")
    time.sleep(0.3)
    stream.renew("a", [taken.id])
    assert take(other, "b", stale_s=0.25) == []
    time.sleep(0.3)
    (again,) = take(other, "b", stale_s=0.25)
    assert again.deliveries == 2


def test_a_foreign_entry_is_delivered_as_one_without_bytes(redis_server: RedisServer):
    """So it is given up and counted, and a worker that drains the stream ends."""
    redis = pytest.importorskip("redis")
    service = uuid.uuid4().hex
    stream = RedisStream(redis_server.url, service)
    client = redis.Redis.from_url(redis_server.url)
    client.xadd(stream._key, {"foreign": "x"})
    client.close()
    (delivery,) = take(stream)
    assert delivery.data == b""
    (taken_over,) = take(stream, "b", stale_s=0.0)
    assert taken_over.data == b""
    stream.close()


def test_a_server_without_memory_refuses(redis_server: RedisServer):
    """With `noeviction` a put is refused, while reading and settling go on."""
    stream = RedisStream(redis_server.url, uuid.uuid4().hex)
    for data in (b"1", b"2"):
        stream.put(data)
    stream.settle([each.id for each in take(stream, most=1)])
    with redis_server.client() as client:
        client.config_set("maxmemory", "1mb")
        try:
            assert not stream.put(b"x" * 1_000)
            (taken,) = take(stream)
            stream.settle([taken.id])
            assert (stream.state().waiting, stream.state().open) == (0, 0)
        finally:
            client.config_set("maxmemory", "0")
    assert stream.put(b"x")
    stream.close()


def test_no_error_names_credentials(tmp_path: Path):
    """Neither a wrong password nor an absent server nor a malformed address quotes one."""
    pytest.importorskip("redis")
    with running_redis(tmp_path, password="correct-horse") as server:
        right = RedisStream(server.url, "shop")
        assert right.put(b"1")
        right.close()
        wrong = RedisStream(server.url.replace("correct", "battery"), "shop")
        with pytest.raises(StreamError) as refused:
            wrong.put(b"1")
        gone = server.url
    absent = RedisStream(gone, "shop")
    with pytest.raises(StreamError) as unreachable:
        absent.state()
    with pytest.raises(SettingsError) as malformed:
        RedisStream("redis://:battery-horse@127.0.0.1:port/0", "shop")
    with pytest.raises(SettingsError) as unknown:
        RedisStream("nats://user:battery-horse@broker/topic", "shop")
    for error in (refused, unreachable, malformed, unknown):
        text = f"{error.value!r} {error.value.__cause__!r}"
        assert "horse" not in text
        assert error.value.__suppress_context__ or error.value.__context__ is None


def test_services_do_not_see_each_other(redis_server: RedisServer):
    """Each has a stream of its own."""
    one = RedisStream(redis_server.url, uuid.uuid4().hex)
    other = RedisStream(redis_server.url, uuid.uuid4().hex)
    one.put(b"1")
    assert take(other) == []
    one.close()
    other.close()
