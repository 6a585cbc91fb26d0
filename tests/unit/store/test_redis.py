"""The store on Redis: its keys, its stream, its failures."""

from __future__ import annotations

import re

import pytest

from ragmonitor.runtime.errors import SettingsError
from ragmonitor.store import Change, Redis, Settlement, StoreUnavailableError, open_store
from ragmonitor.store.redis import connect
from ragmonitor.store.shared import Admission, takes_lease
from tests.support.redis_server import running_redis


@pytest.fixture
def store(redis_url, request):
    return Redis(*connect(redis_url), request.node.name)


def test_all_keys_are_in_one_slot_of_one_schema_and_have_a_time_to_live(store):
    """Two releases stand beside each other, and what nobody writes to ends."""
    takes_lease(store, "a")
    Admission(store).slices({"tenant": "a"})
    store.keep("incident", "1", b"x")
    store.add(
        {"b": {"s@1": [1.0, 1.0, 0.0]}, "r0": {"s": [1.0]}, "totals": {"answers": [1.0]}},
        [Settlement("one"), Settlement("two", decision="{}")],
    )
    store.commit(0, {"closed": 5}, Change(moves=[("r0", "h0")]))
    keys = store.client.keys("*" + store.key("")[13:] + "*")
    assert len(keys) == 12
    assert {re.sub(rb":\{.*", b"", key) for key in keys} == {b"ragmonitor:1"}
    assert min(store.client.ttl(key) for key in keys) > 0


def test_an_entry_of_the_stream_is_acknowledged_with_its_sums(store):
    """An entry that its producer put twice is acknowledged, and adds nothing."""
    client, stream = store.client, store.key("records")
    client.xgroup_create(stream, "workers", id="0", mkstream=True)
    first, second = (client.xadd(stream, {"r": "x"}).decode() for _ in range(2))
    client.xreadgroup("workers", "a", {stream: ">"})
    settled = [Settlement("1", entry=first)]
    assert not store.add({"r0": {"s": [1.0]}}, settled).refused
    assert [entry for entry, _ in client.xrange(stream)] == [second.encode()]
    again = [Settlement("1", entry=second)]
    assert store.add({"r0": {"s": [1.0]}}, again).refused == {"1"}
    assert client.xlen(stream) == client.xpending(stream, "workers")["pending"] == 0
    assert store.read("r0") == {"s": [1.0]}


def test_a_wrong_clock_of_ours_moves_no_draw(store, monkeypatch):
    """The server's clock decides, also after hours."""
    from ragmonitor.store import redis as module

    right = store.now()
    monkeypatch.setattr(module.time, "time", lambda: right - 5_000.0)
    bucket = store.add({"b": {"s@1": [0.0, 0.0, 1.0]}}).bucket
    assert right - 11 < bucket <= store.now()


def test_a_server_that_is_away_is_said_and_names_no_password(tmp_path):
    """Nothing of another place stands in for it."""
    with running_redis(tmp_path, password="secret") as server:
        url = server.url
        store = open_store(url, "shop")
        store.add({"r0": {"s": [1.0]}})
    with pytest.raises(StoreUnavailableError) as raised:
        store.add({"r0": {"s": [1.0]}})
    assert "secret" not in str(raised.value)


def test_the_address_of_a_sentinel_names_the_master():
    """User, password and database go to the master."""
    client, _ = connect("redis+sentinel://ann:pw@a:26379,b/main/3")
    manager = client.connection_pool.sentinel_manager
    hosts = [each.connection_pool.connection_kwargs["host"] for each in manager.sentinels]
    assert hosts == ["a", "b"]
    assert client.connection_pool.service_name == "main"
    kwargs = client.connection_pool.connection_kwargs
    assert (kwargs["db"], kwargs["username"], kwargs["password"]) == (3, "ann", "pw")


@pytest.mark.parametrize("rest", ["a:26379", "/main", "a/main/x"])
def test_a_malformed_address_of_a_sentinel_is_refused(rest):
    """The message says how it is written."""
    with pytest.raises(SettingsError, match="redis\\+sentinel://"):
        connect(f"redis+sentinel://{rest}")


def test_tls_is_asked_for_by_the_address():
    """`rediss://` connects with TLS."""
    client, _ = connect("rediss://a:6379/0")
    assert "SSL" in client.connection_pool.connection_class.__name__
